package strategy

import weir "weir.dev/weir/sdk/go"

// The types have the fields that the strategy reads or sets, and no others.
// What else an object has, the hooks neither see nor lose.

// Deployment is an apps/v1 Deployment.
type Deployment struct {
	Spec *DeploymentSpec `json:"spec,omitempty"`
}

// DeploymentSpec is the spec of a Deployment.
type DeploymentSpec struct {
	Replicas                *int32          `json:"replicas,omitempty"`
	MinReadySeconds         int32           `json:"minReadySeconds,omitempty"`
	RevisionHistoryLimit    *int32          `json:"revisionHistoryLimit,omitempty"`
	ProgressDeadlineSeconds *int32          `json:"progressDeadlineSeconds,omitempty"`
	Selector                *LabelSelector  `json:"selector,omitempty"`
	Strategy                *UpdateStrategy `json:"strategy,omitempty"`
	Template                PodTemplate     `json:"template"`
}

// LabelSelector is a metav1.LabelSelector.
type LabelSelector struct {
	MatchLabels      map[string]string     `json:"matchLabels,omitempty"`
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty"`
}

// SelectorRequirement is a metav1.LabelSelectorRequirement.
type SelectorRequirement struct {
	Key      string   `json:"key,omitempty"`
	Operator string   `json:"operator,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// UpdateStrategy is a DeploymentStrategy.
type UpdateStrategy struct {
	Type          string         `json:"type,omitempty"`
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate is a RollingUpdateDeployment.
type RollingUpdate struct {
	MaxSurge       *weir.IntOrString `json:"maxSurge,omitempty"`
	MaxUnavailable *weir.IntOrString `json:"maxUnavailable,omitempty"`
}

// PodTemplate is a PodTemplateSpec.
type PodTemplate struct {
	Metadata struct {
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec PodSpec `json:"spec"`
}

// PodSpec is the part of a pod's spec that a Deployment has rules for.
type PodSpec struct {
	InitContainers        []Container `json:"initContainers,omitempty"`
	Containers            []Container `json:"containers,omitempty"`
	RestartPolicy         string      `json:"restartPolicy,omitempty"`
	ActiveDeadlineSeconds *int64      `json:"activeDeadlineSeconds,omitempty"`
}

// Container is a container of a pod.
type Container struct {
	Name            string `json:"name,omitempty"`
	Image           string `json:"image,omitempty"`
	ImagePullPolicy string `json:"imagePullPolicy,omitempty"`
}
