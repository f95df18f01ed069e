package loader

import (
	"context"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/rest"
)

// apiVersion of the configuration kinds.
const apiVersion = "weir.dev/v1alpha1"

func moduleReference(m *v1alpha1.Module) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiVersion, Kind: "Module", Name: m.Name, UID: m.UID}
}

func strategyReference(s *v1alpha1.Strategy) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiVersion, Kind: "Strategy", Name: s.Name, UID: s.UID}
}

func crdReference(crd *apiextensionsv1.CustomResourceDefinition) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition", Name: crd.Name, UID: crd.UID}
}

// outcome tells, beside the status, what became of a change: by a metric, and when it was refused by the log and an
// Event. kept: something is in force nevertheless.
func (l *Loader) outcome(about corev1.ObjectReference, err error, kept bool) {
	l.cfg.Metrics.outcome(about.Kind, err)
	if err == nil {
		return
	}
	message := "configuration is refused; no earlier one is in force"
	if kept {
		message = "configuration is refused; the last known good stays in force"
	}
	l.cfg.Logger.Warn(message, "kind", about.Kind, "name", about.Name, "error", err)
	l.events.record(about, corev1.EventTypeWarning, reasonRefused, err.Error())
}

// setCondition sets a condition of a configuration object.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}

// maxStatusText bounds a text of a status, in bytes.
const maxStatusText = 8 << 10

// bounded cuts a text for a status.
func bounded(text string) string { return cut(text, maxStatusText) }

// cut makes a text fit into some bytes, without breaking a character.
func cut(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// updateStatus replaces the status of a configuration object by what change makes; nil leaves it.
func (l *Loader) updateStatus(ctx context.Context, gr schema.GroupResource, name string, change func(old *document.Document) (any, error)) error {
	storage, err := l.builtinStatus(gr)
	if err != nil {
		return err
	}
	_, _, err = storage.Update(ctx, name, rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		status, err := change(old)
		if err != nil || status == nil {
			return old, err
		}
		return old.Edit().Set(status, "status").Document()
	}), nil, nil, false, &metav1.UpdateOptions{})
	return err
}
