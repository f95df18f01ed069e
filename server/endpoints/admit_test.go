package endpoints

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/admission"
)

// painter is a Mutator that sets a field and remembers what it saw.
type painter struct {
	path, value string
	seen        []admission.Attributes
}

func (p *painter) Handles(op admission.Operation) bool { return op != admission.Delete }

func (p *painter) Admit(_ context.Context, a *admission.Attributes) error {
	p.seen = append(p.seen, *a)
	obj, err := a.Object.Edit().Set(p.value, "spec", p.path).Delete("spec", "replicas").Document()
	a.Object = obj
	return err
}

// gate is a Validator that refuses a colour and remembers what it saw.
type gate struct {
	refused string
	seen    []admission.Attributes
}

func (g *gate) Handles(admission.Operation) bool { return true }

func (g *gate) Validate(_ context.Context, a *admission.Attributes) error {
	g.seen = append(g.seen, *a)
	if a.Operation == admission.Delete && a.OldObject.Get("spec", "keep").Exists() {
		return apierrors.NewForbidden(schema.GroupResource{}, a.Name, errors.New("kept"))
	}
	if a.Object != nil && a.Object.Get("spec", "color").String() == g.refused {
		return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "widgets"}, a.Name, errors.New("not this colour"))
	}
	return nil
}

func TestAdmission(t *testing.T) {
	paint, guard := &painter{path: "color", value: "white"}, &gate{refused: "black"}
	w := newWorld(t, Config{Admission: &admission.Chain{Mutators: []admission.Mutator{paint}, Validators: []admission.Validator{guard}}})

	created := w.do(t, "POST", widgetsPath+"?dryRun=All", widget("a", `{"color":"red"}`))
	if created.code != 201 || created.get(t, "spec", "color") != "white" || created.get(t, "spec", "replicas") != "1" {
		t.Fatalf("create: %d %s (mutated, and defaulted again)", created.code, created.body)
	}
	a := paint.seen[0]
	if a.Operation != admission.Create || !a.DryRun || a.OldObject != nil || a.Name != "a" || a.Namespace != "default" ||
		a.Kind != (schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}) || a.Resource.Resource != "widgets" {
		t.Errorf("attributes: %+v", a)
	}
	if got := a.Options.Get("dryRun").Index(0).String(); got != "All" {
		t.Errorf("options: %s", a.Options.Bytes())
	}
	w.do(t, "POST", widgetsPath, widget("a", `{}`))
	paint.value = "black"
	refused := w.do(t, "PATCH", widgetsPath+"/a", `{"spec":{"color":"x"}}`, "Content-Type: application/merge-patch+json")
	if refused.code != 403 || !strings.Contains(refused.get(t, "message"), "not this colour") {
		t.Errorf("update: %d %s", refused.code, refused.body)
	}
	last := guard.seen[len(guard.seen)-1]
	if last.Operation != admission.Update || last.OldObject.Get("spec", "color").String() != "white" || last.Object.Get("spec", "color").String() != "black" {
		t.Errorf("attributes of the update: %+v", last)
	}
	if got := w.do(t, "DELETE", widgetsPath+"/a", ""); got.code != 200 {
		t.Errorf("delete: %d %s", got.code, got.body)
	}
	last = guard.seen[len(guard.seen)-1]
	if last.Operation != admission.Delete || last.Object != nil || last.OldObject.Get("metadata", "name").String() != "a" {
		t.Errorf("attributes of the delete: %+v", last)
	}
}

func TestAdmissionSeesTheVersionOfTheRequest(t *testing.T) {
	guard := &gate{refused: "none"}
	w := newWorld(t, Config{Admission: &admission.Chain{Validators: []admission.Validator{guard}}})
	got := w.do(t, "POST", "/apis/example.com/v2/namespaces/default/widgets", `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"colour":"red"}}`)
	if got.code != 201 {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if a := guard.seen[0]; a.Kind.Version != "v2" || a.Object.Get("spec", "colour").String() != "red" {
		t.Errorf("%s", a.Object.Bytes())
	}
}

func TestNamespaceIsInItself(t *testing.T) {
	guard := &gate{refused: "none"}
	w := newWorld(t, Config{Admission: &admission.Chain{Validators: []admission.Validator{guard}}})
	w.do(t, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
	if a := guard.seen[0]; a.Namespace != "team" || a.Name != "team" {
		t.Errorf("%q %q", a.Namespace, a.Name)
	}
}

func TestApplyThatCreatesIsAuthorized(t *testing.T) {
	var asked authorizer.Attributes
	deny := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked = a
		return authorizer.DecisionNoOpinion, "", nil
	})
	w := newWorld(t, Config{Authorizer: deny})
	got := w.do(t, "PATCH", widgetsPath+"/new?fieldManager=m", widget("new", `{}`), "Content-Type: application/apply-patch+yaml")
	if got.code != 403 || !strings.Contains(got.get(t, "message"), `cannot create resource "widgets" in API group "example.com" in the namespace "default"`) {
		t.Errorf("%d %s", got.code, got.body)
	}
	if asked == nil || asked.GetVerb() != "create" || asked.GetName() != "new" {
		t.Errorf("asked %+v", asked)
	}
	w.do(t, "POST", widgetsPath, widget("old", `{}`))
	if got := w.do(t, "PATCH", widgetsPath+"/old?fieldManager=m", widget("old", `{}`), "Content-Type: application/apply-patch+yaml"); got.code != 200 {
		t.Errorf("apply to what is there: %d %s", got.code, got.body)
	}
}

func TestDuplicateOwners(t *testing.T) {
	w := newWorld(t, Config{})
	got := w.do(t, "POST", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","ownerReferences":[{"uid":"1","name":"x"},{"uid":"1","name":"x"},{"uid":"2","name":"x"}]}}`)
	if got.code != 201 || got.document(t).Get("metadata", "ownerReferences").Len() != 2 {
		t.Errorf("%d %s", got.code, got.body)
	}
	if warning := got.header.Get("Warning"); !strings.Contains(warning, "duplicate UID(s) observed: 1") {
		t.Errorf("warning %q", warning)
	}
}

func TestManagerOf(t *testing.T) {
	tests := []struct{ name, param, agent, want string }{
		{"parameter", "me", "kubectl/v1", "me"},
		{"agent", "", "kubectl/v1.37 (linux)", "kubectl"},
		{"not printable", "", "a\x00b\u200bc", "abc"},
		{"long", "", strings.Repeat("x", 200), strings.Repeat("x", 128)},
		{"none", "", "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := managerOf(tc.param, tc.agent); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
