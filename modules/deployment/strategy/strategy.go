// Package strategy is what is particular to an apps/v1 Deployment: its
// defaults, its rules and its warnings, in the words of Kubernetes. It runs
// natively in tests and as a module in a server.
//
// What a schema says (types, required fields, plain defaults of the pod
// template) is not repeated here. Status and generation are: the hooks leave
// nothing to do for the generic strategy that runs around them, and are right
// on a server without it.
package strategy

import (
	"bytes"
	"slices"
	"strings"

	weir "weir.dev/weir/sdk/go"
)

// Strategy has the hooks.
type Strategy struct{}

var (
	_ weir.Defaulter[weir.Object]       = Strategy{}
	_ weir.CreatePreparer[weir.Object]  = Strategy{}
	_ weir.UpdatePreparer[weir.Object]  = Strategy{}
	_ weir.CreateValidator[Deployment]  = Strategy{}
	_ weir.UpdateValidator[weir.Object] = Strategy{}
	_ weir.CreateWarner[weir.Object]    = Strategy{}
	_ weir.UpdateWarner[weir.Object]    = Strategy{}
)

const (
	rollingUpdate = "RollingUpdate"
	recreate      = "Recreate"
	always        = "Always"
	ifNotPresent  = "IfNotPresent"
	never         = "Never"
)

// Default implements weir.Defaulter. Source: SetDefaults_Deployment and
// SetDefaults_Container of Kubernetes. Most Deployments that are written have
// their defaults, so it asks for single fields, and decodes what lacks some.
func (Strategy) Default(_ *weir.Context, obj *weir.Object) {
	if !has(obj, "spec.replicas") {
		if !has(obj, "spec") {
			return
		}
		obj.Set("spec.replicas", 1)
	}
	if !has(obj, "spec.revisionHistoryLimit") {
		obj.Set("spec.revisionHistoryLimit", 10)
	}
	if !has(obj, "spec.progressDeadlineSeconds") {
		obj.Set("spec.progressDeadlineSeconds", 600)
	}
	defaultUpdates(obj)
	defaultPullPolicies(obj, "spec.template.spec.initContainers")
	defaultPullPolicies(obj, "spec.template.spec.containers")
}

// has tells whether there is a value that is not null.
func has(obj *weir.Object, path string) bool {
	raw := obj.Raw(path)
	return raw != nil && string(raw) != "null"
}

func defaultUpdates(obj *weir.Object) {
	const rolling = "spec.strategy.rollingUpdate"
	switch obj.String("spec.strategy.type") {
	case "":
	case rollingUpdate:
		if has(obj, rolling+".maxSurge") && has(obj, rolling+".maxUnavailable") {
			return
		}
	default:
		return
	}
	var s UpdateStrategy
	obj.MustDecode("spec.strategy", &s)
	if s.Type == "" {
		s.Type = rollingUpdate
	}
	if s.Type == rollingUpdate {
		if s.RollingUpdate == nil {
			s.RollingUpdate = &RollingUpdate{}
		}
		setDefault(&s.RollingUpdate.MaxSurge, weir.FromString("25%"))
		setDefault(&s.RollingUpdate.MaxUnavailable, weir.FromString("25%"))
	}
	obj.Set("spec.strategy", s)
}

func defaultPullPolicies(obj *weir.Object, list weir.Path) {
	names, policies := obj.Strings(string(list)+"[*].name"), obj.Strings(string(list)+"[*].imagePullPolicy")
	if len(policies) == len(names) && !slices.Contains(policies, "") {
		return
	}
	var containers []Container
	obj.MustDecode(string(list), &containers)
	for i, c := range containers {
		if c.ImagePullPolicy == "" {
			obj.Set(string(list.Index(i).Child("imagePullPolicy")), pullPolicy(c.Image))
		}
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// pullPolicy is Always for the latest image, which is also that without a tag
// or digest.
func pullPolicy(image string) string {
	name, _, digest := strings.Cut(image, "@")
	last := name[strings.LastIndexByte(name, '/')+1:]
	if strings.HasSuffix(name, ":latest") || !digest && last != "" && !strings.Contains(last, ":") {
		return always
	}
	return ifNotPresent
}

// PrepareForCreate implements weir.CreatePreparer: a new Deployment has no
// status and generation 1.
func (Strategy) PrepareForCreate(_ *weir.Context, obj *weir.Object) {
	obj.Delete("status")
	setGeneration(obj, 1)
}

// PrepareForUpdate implements weir.UpdatePreparer: the status stays, and the
// generation grows with a change of the spec.
func (Strategy) PrepareForUpdate(_ *weir.Context, obj, old *weir.Object) {
	if status := old.Raw("status"); status == nil {
		obj.Delete("status")
	} else if !bytes.Equal(status, obj.Raw("status")) {
		obj.Set("status", status)
	}
	generation := old.Int("metadata.generation")
	if !sameAt("spec", obj, old) {
		generation++
	}
	setGeneration(obj, generation)
}

func setGeneration(obj *weir.Object, n int64) {
	if obj.Int("metadata.generation") != n {
		obj.Set("metadata.generation", n)
	}
}

func sameAt(path string, a, b *weir.Object) bool {
	return bytes.Equal(a.Raw(path), b.Raw(path))
}
