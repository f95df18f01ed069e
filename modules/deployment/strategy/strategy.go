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
	"strings"

	weir "weir.dev/weir/sdk/go"
)

// Strategy has the hooks.
type Strategy struct{}

var (
	_ weir.Defaulter[Deployment]        = Strategy{}
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
// SetDefaults_Container of Kubernetes.
func (Strategy) Default(_ *weir.Context, d *Deployment) {
	spec := d.Spec
	if spec == nil {
		return
	}
	setDefault(&spec.Replicas, 1)
	setDefault(&spec.RevisionHistoryLimit, 10)
	setDefault(&spec.ProgressDeadlineSeconds, 600)
	if spec.Strategy == nil {
		spec.Strategy = &UpdateStrategy{}
	}
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = rollingUpdate
	}
	if spec.Strategy.Type == rollingUpdate {
		if spec.Strategy.RollingUpdate == nil {
			spec.Strategy.RollingUpdate = &RollingUpdate{}
		}
		setDefault(&spec.Strategy.RollingUpdate.MaxSurge, weir.FromString("25%"))
		setDefault(&spec.Strategy.RollingUpdate.MaxUnavailable, weir.FromString("25%"))
	}
	for _, containers := range [][]Container{spec.Template.Spec.InitContainers, spec.Template.Spec.Containers} {
		for i := range containers {
			if c := &containers[i]; c.ImagePullPolicy == "" {
				c.ImagePullPolicy = pullPolicy(c.Image)
			}
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
