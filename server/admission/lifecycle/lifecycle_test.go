package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
)

// views gives phases of namespaces, cached (resourceVersion "0") and live.
type views struct {
	cached, live map[string]string
	liveReads    int
}

func (v *views) Get(_ context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	from := v.live
	if opts.ResourceVersion == "0" {
		from = v.cached
	} else {
		v.liveReads++
	}
	phase, ok := from[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	return document.Parse([]byte(`{"status":{"phase":"` + phase + `"}}`))
}

func attributes(op admission.Operation, namespace, name string) *admission.Attributes {
	return &admission.Attributes{
		Operation: op, Namespace: namespace, Name: name,
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	}
}

func namespaceAttributes(op admission.Operation, name string) *admission.Attributes {
	a := attributes(op, name, name)
	a.Kind.Kind, a.Resource.Resource = "Namespace", "namespaces"
	return a
}

func TestAdmit(t *testing.T) {
	v := &views{
		cached: map[string]string{"a": "Active", "dying": "Terminating", "reborn": "Terminating"},
		live:   map[string]string{"a": "Active", "dying": "Terminating", "reborn": "Active", "new": "Active"},
	}
	l, err := New(Config{Namespaces: v})
	if err != nil {
		t.Fatal(err)
	}
	review := attributes(admission.Create, "none", "")
	review.Resource = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "localsubjectaccessreviews"}
	tests := []struct {
		name string
		a    *admission.Attributes
		code int32
		text string
	}{
		{"active", attributes(admission.Create, "a", "x"), 0, ""},
		{"new", attributes(admission.Create, "new", "x"), 0, ""},
		{"reborn", attributes(admission.Create, "reborn", "x"), 0, ""},
		{"missing", attributes(admission.Create, "none", "x"), 404, `namespaces "none" not found`},
		{"terminating", attributes(admission.Create, "dying", "x"), 403, `configmaps "x" is forbidden: unable to create new content in namespace dying because it is being terminated`},
		{"update in terminating", attributes(admission.Update, "dying", "x"), 0, ""},
		{"delete in terminating", attributes(admission.Delete, "dying", "x"), 0, ""},
		{"cluster-scoped", attributes(admission.Create, "", "x"), 0, ""},
		{"review", review, 0, ""},
		{"create namespace", namespaceAttributes(admission.Create, "none"), 0, ""},
		{"delete default", namespaceAttributes(admission.Delete, "default"), 403, `namespaces "default" is forbidden: this namespace may not be deleted`},
		{"delete kube-system", namespaceAttributes(admission.Delete, "kube-system"), 403, "may not be deleted"},
		{"delete kube-public", namespaceAttributes(admission.Delete, "kube-public"), 403, "may not be deleted"},
		{"delete kube-node-lease", namespaceAttributes(admission.Delete, "kube-node-lease"), 0, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := l.Admit(t.Context(), tc.a)
			if tc.code == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var s apierrors.APIStatus
			if !errors.As(err, &s) || s.Status().Code != tc.code || !strings.Contains(s.Status().Message, tc.text) {
				t.Fatalf("got %v, want %d %q", err, tc.code, tc.text)
			}
			if tc.name == "terminating" && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				t.Errorf("causes %+v", s.Status().Details.Causes)
			}
		})
	}
}

func TestLiveAfterDelete(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &views{cached: map[string]string{"a": "Active"}, live: map[string]string{"a": "Terminating"}}
	l, err := New(Config{Namespaces: v, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	create := func() error { return l.Admit(t.Context(), attributes(admission.Create, "a", "x")) }
	if err := create(); err != nil || v.liveReads != 0 {
		t.Fatalf("cached: %v, %d live reads", err, v.liveReads)
	}
	if err := l.Admit(t.Context(), namespaceAttributes(admission.Delete, "a")); err != nil {
		t.Fatal(err)
	}
	if err := create(); !apierrors.IsForbidden(err) {
		t.Errorf("after the delete: %v", err)
	}
	now = now.Add(time.Minute)
	if err := create(); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("no namespaces accepted")
	}
}
