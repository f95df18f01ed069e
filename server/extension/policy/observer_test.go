package policy

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
)

// oneNamespace gives one namespace, or an error.
type oneNamespace struct{ err error }

func (n oneNamespace) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	if n.err != nil {
		return nil, n.err
	}
	return document.FromValue(map[string]any{"metadata": map[string]any{"name": name}})
}

// TestObserverIsToldOfTheNamespace: once, and only where it is read.
func TestObserverIsToldOfTheNamespace(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		reads int
		want  int
	}{
		{name: "not read"},
		{name: "read", reads: 2, want: 1},
		{name: "not there", reads: 2, err: errors.New("gone")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			told := 0
			e := &evaluation{ctx: t.Context(), namespaces: oneNamespace{tc.err}, attributes: &admission.Attributes{Namespace: "default"},
				observer: &Observer{Namespace: func(ns *document.Document) {
					if told++; ns.Get("metadata", "name").String() != "default" {
						t.Errorf("got %s", ns.Bytes())
					}
				}}}
			for range tc.reads {
				if _, err := e.namespaceObject(t.Context()); !errors.Is(err, tc.err) {
					t.Errorf("got %v", err)
				}
			}
			if told != tc.want {
				t.Errorf("it is told %d times", told)
			}
		})
	}
	var none *Observer
	none.readNamespace(nil) // nobody is told
}
