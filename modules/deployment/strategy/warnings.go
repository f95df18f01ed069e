package strategy

import (
	"strconv"
	"strings"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
)

// pod is what the warnings are about.
type pod struct {
	NodeSelector     map[string]string `json:"nodeSelector,omitempty"`
	SpreadConstraint []struct {
		LabelSelector abi.RawJSON `json:"labelSelector,omitempty"`
	} `json:"topologySpreadConstraints,omitempty"`
	Volumes []struct {
		GitRepo   abi.RawJSON `json:"gitRepo,omitempty"`
		Glusterfs abi.RawJSON `json:"glusterfs,omitempty"`
		CephFS    abi.RawJSON `json:"cephfs,omitempty"`
		RBD       abi.RawJSON `json:"rbd,omitempty"`
	} `json:"volumes,omitempty"`
	HostAliases []struct {
		IP string `json:"ip,omitempty"`
	} `json:"hostAliases,omitempty"`
	ImagePullSecrets []struct {
		Name string `json:"name,omitempty"`
	} `json:"imagePullSecrets,omitempty"`
	InitContainers                []environment `json:"initContainers,omitempty"`
	Containers                    []environment `json:"containers,omitempty"`
	TerminationGracePeriodSeconds int64         `json:"terminationGracePeriodSeconds,omitempty"`
}

// environment is that of a container.
type environment struct {
	Env []struct {
		Name      string      `json:"name,omitempty"`
		Value     string      `json:"value,omitempty"`
		ValueFrom abi.RawJSON `json:"valueFrom,omitempty"`
	} `json:"env,omitempty"`
}

// WarningsOnCreate implements weir.CreateWarner. Source: GetWarningsForPodTemplate
// of Kubernetes.
func (Strategy) WarningsOnCreate(_ *weir.Context, obj *weir.Object) []string {
	const path weir.Path = "spec.template.spec"
	var p pod
	if !obj.MustDecode(string(path), &p) {
		return nil
	}
	w := deprecatedLabels(nil, path, p.NodeSelector)
	for i, c := range p.SpreadConstraint {
		if absent(c.LabelSelector) {
			w = append(w, at(path, "topologySpreadConstraints", i, "labelSelector")+": a null labelSelector results in matching no pod")
		}
	}
	w = deprecatedVolumes(w, path, &p)
	ips := map[string]bool{}
	for i, a := range p.HostAliases {
		if ips[a.IP] {
			w = append(w, at(path, "hostAliases", i, "ip")+": duplicate ip "+strconv.Quote(a.IP))
		}
		ips[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range p.ImagePullSecrets {
		if secrets[s.Name] {
			w = append(w, at(path, "imagePullSecrets", i, "name")+": duplicate name "+strconv.Quote(s.Name))
		}
		secrets[s.Name] = true
	}
	for i, s := range p.ImagePullSecrets {
		if s.Name == "" {
			w = append(w, at(path, "imagePullSecrets", i, "name")+`: invalid empty name ""`)
		}
	}
	w = hiddenVariables(w, path.Child("initContainers"), p.InitContainers)
	w = hiddenVariables(w, path.Child("containers"), p.Containers)
	if p.TerminationGracePeriodSeconds < 0 {
		w = append(w, string(path.Child("terminationGracePeriodSeconds"))+": must be >= 0; negative values are invalid and will be treated as 1")
	}
	return w
}

// WarningsOnUpdate implements weir.UpdateWarner: those of a create, if the spec
// changed.
func (s Strategy) WarningsOnUpdate(ctx *weir.Context, obj, old *weir.Object) []string {
	if sameAt("spec", obj, old) {
		return nil
	}
	return s.WarningsOnCreate(ctx, obj)
}

func absent(raw abi.RawJSON) bool { return raw == nil || string(raw) == "null" }

func at(path weir.Path, list string, i int, field string) string {
	return string(path.Child(list).Index(i).Child(field))
}

func deprecatedLabels(w []string, path weir.Path, selector map[string]string) []string {
	for _, d := range [...]struct{ label, since, use string }{
		{"beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"},
		{"beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"},
		{"beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"},
		{"failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"},
		{"failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"},
	} {
		if _, ok := selector[d.label]; ok {
			w = append(w, string(path.Child("nodeSelector").Key(d.label))+": deprecated since "+d.since+"; use "+strconv.Quote(d.use)+" instead")
		}
	}
	return w
}

func deprecatedVolumes(w []string, path weir.Path, p *pod) []string {
	warn := func(i int, field string, raw abi.RawJSON, text string) {
		if raw != nil {
			w = append(w, at(path, "volumes", i, field)+": "+text)
		}
	}
	for i, v := range p.Volumes {
		warn(i, "gitRepo", v.GitRepo, "deprecated in v1.11")
	}
	for i, v := range p.Volumes {
		warn(i, "glusterfs", v.Glusterfs, "deprecated in v1.25, non-functional in v1.26+")
	}
	for i, v := range p.Volumes {
		warn(i, "cephfs", v.CephFS, "deprecated in v1.28, non-functional in v1.31+")
	}
	for i, v := range p.Volumes {
		warn(i, "rbd", v.RBD, "deprecated in v1.28, non-functional in v1.31+")
	}
	return w
}

// hiddenVariables warns of variables that are defined again without use of
// their earlier value.
func hiddenVariables(w []string, path weir.Path, containers []environment) []string {
	for i, c := range containers {
		seen := map[string]bool{}
		for j, e := range c.Env {
			self := "$(" + e.Name + ")"
			if seen[e.Name] && (e.ValueFrom != nil || e.Value == self || !strings.Contains(e.Value, self)) {
				w = append(w, string(path.Index(i).Child("env").Index(j))+": hides previous definition of "+strconv.Quote(e.Name)+", which may be dropped when using apply")
			}
			seen[e.Name] = true
		}
	}
	return w
}
