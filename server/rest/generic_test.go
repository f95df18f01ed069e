package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
)

func parse(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return d
}

func generic(t testing.TB, cfg GenericConfig) *Generic {
	t.Helper()
	cfg.Resource = schema.GroupResource{Group: "apps", Resource: "deployments"}
	cfg.Kind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	g, err := NewGeneric(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tracer is a layer that notes its hooks and does what its fields say.
type tracer struct {
	name   string
	calls  *[]string
	change func(*document.Document) (*document.Document, error)
	fault  error
	errs   field.ErrorList
}

func (l *tracer) note(hook string, obj *document.Document) (*document.Document, error) {
	*l.calls = append(*l.calls, l.name+"."+hook)
	if l.fault != nil {
		return nil, l.fault
	}
	if l.change == nil {
		return obj, nil
	}
	return l.change(obj)
}

func (l *tracer) Name() string        { return l.name }
func (l *tracer) Implements() HookSet { return ^HookSet(0) }
func (l *tracer) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	*l.calls = append(*l.calls, l.name+".Default")
	return obj, nil
}
func (l *tracer) PrepareForCreate(_ context.Context, obj *document.Document) (*document.Document, error) {
	return l.note("PrepareForCreate", obj)
}
func (l *tracer) PrepareForUpdate(_ context.Context, obj, _ *document.Document) (*document.Document, error) {
	return l.note("PrepareForUpdate", obj)
}
func (l *tracer) Canonicalize(_ context.Context, obj *document.Document) (*document.Document, error) {
	*l.calls = append(*l.calls, l.name+".Canonicalize")
	return obj, nil
}
func (l *tracer) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	*l.calls = append(*l.calls, l.name+".Validate")
	return l.errs, nil
}
func (l *tracer) ValidateUpdate(_ context.Context, obj, _ *document.Document) (field.ErrorList, error) {
	*l.calls = append(*l.calls, l.name+".ValidateUpdate")
	return l.errs, nil
}
func (l *tracer) ValidateDelete(context.Context, *document.Document) (field.ErrorList, error) {
	return l.errs, nil
}
func (l *tracer) WarningsOnCreate(context.Context, *document.Document) ([]string, error) {
	*l.calls = append(*l.calls, l.name+".WarningsOnCreate")
	return []string{l.name + " warns"}, nil
}
func (l *tracer) WarningsOnUpdate(context.Context, *document.Document, *document.Document) ([]string, error) {
	*l.calls = append(*l.calls, l.name+".WarningsOnUpdate")
	return nil, nil
}

// recorder collects warnings.
type recorder []string

func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

const live = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":3,"name":"a","namespace":"d","resourceVersion":"5","uid":"u"},"spec":{"n":1},"status":{"s":1}}`

func TestOrderOfHooks(t *testing.T) {
	var calls []string
	g := generic(t, GenericConfig{Namespaced: true, StatusEnabled: true, Custom: true, Layers: []Layer{
		&tracer{name: "one", calls: &calls, change: func(obj *document.Document) (*document.Document, error) {
			return obj.Edit().Set(true, "spec", "prepared").Document()
		}},
		&tracer{name: "two", calls: &calls},
	}})
	var warnings recorder
	ctx := warning.WithWarningRecorder(request.WithNamespace(t.Context(), "d"), &warnings)
	obj, err := BeforeCreate(ctx, g, parse(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"finalizers":["a.b","c"],"name":"a"},"status":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if m := MetaOf(obj); m.Namespace() != "d" || m.Generation() != 1 || obj.Get("status").Exists() || !obj.Get("spec", "prepared").Exists() {
		t.Errorf("created %s", obj.Bytes())
	}
	want := "one.Default two.Default one.PrepareForCreate two.PrepareForCreate one.Default two.Default " +
		"one.Validate two.Validate one.WarningsOnCreate two.WarningsOnCreate one.Canonicalize two.Canonicalize"
	if got := strings.Join(calls, " "); got != want {
		t.Errorf("create calls\n%s\nwant\n%s", got, want)
	}
	wantWarnings := []string{
		`metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers`,
		`metadata.finalizers: "c": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers`,
		"one warns", "two warns",
	}
	if !slices.Equal(warnings, wantWarnings) {
		t.Errorf("warnings %q", warnings)
	}

	calls = nil
	if _, err := BeforeUpdate(ctx, g, parse(t, live), parse(t, live)); err != nil {
		t.Fatal(err)
	}
	want = "one.Default two.Default one.PrepareForUpdate two.PrepareForUpdate one.Default two.Default " +
		"one.ValidateUpdate two.ValidateUpdate one.WarningsOnUpdate two.WarningsOnUpdate one.Canonicalize two.Canonicalize"
	if got := strings.Join(calls, " "); got != want {
		t.Errorf("update calls\n%s\nwant\n%s", got, want)
	}
}

func TestGeneration(t *testing.T) {
	revert := &tracer{name: "revert", calls: new([]string), change: func(obj *document.Document) (*document.Document, error) {
		return obj.Edit().Set(int64(1), "spec", "n").Document()
	}}
	tests := []struct {
		name string
		cfg  GenericConfig
		path []string
		want int64
	}{
		{"spec", GenericConfig{StatusEnabled: true}, []string{"spec", "n"}, 4},
		{"other top-level field", GenericConfig{StatusEnabled: true}, []string{"data"}, 4},
		{"metadata", GenericConfig{StatusEnabled: true}, []string{"metadata", "labels", "a"}, 3},
		{"status where it has its subresource", GenericConfig{StatusEnabled: true}, []string{"status", "s"}, 3},
		{"status where it has none", GenericConfig{}, []string{"status", "s"}, 4},
		{"status through its subresource", GenericConfig{StatusEnabled: true, Subresource: "status"}, []string{"status", "s"}, 3},
		{"spec through status", GenericConfig{StatusEnabled: true, Subresource: "status"}, []string{"spec", "n"}, 3},
		{"spec through a subresource that writes it", GenericConfig{StatusEnabled: true, Subresource: "x", Writes: [][]string{{"spec", "n"}}}, []string{"spec", "n"}, 4},
		{"spec through a subresource that does not", GenericConfig{StatusEnabled: true, Subresource: "x", Writes: [][]string{{"spec", "m"}}}, []string{"spec", "n"}, 3},
		{"kept", GenericConfig{Keeps: [][]string{{"spec", "n"}}}, []string{"spec", "n"}, 3},
		{"a layer takes it back", GenericConfig{Layers: []Layer{revert}}, []string{"spec", "n"}, 3},
		{"kind without generation", GenericConfig{NoGeneration: true}, []string{"spec", "n"}, 0},
	}
	ctx := request.WithNamespace(t.Context(), "d")
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Namespaced = true
			old := parse(t, live)
			obj, err := old.Edit().Set("x", tc.path...).Set(int64(100), "metadata", "generation").Document()
			if err != nil {
				t.Fatal(err)
			}
			if obj, err = BeforeUpdate(ctx, generic(t, tc.cfg), obj, old); err != nil {
				t.Fatal(err)
			}
			if got := MetaOf(obj).Generation(); got != tc.want {
				t.Errorf("generation %d, want %d: %s", got, tc.want, obj.Bytes())
			}
		})
	}
	removed, err := parse(t, live).Edit().Delete("spec").Document()
	if err != nil {
		t.Fatal(err)
	}
	if removed, err = BeforeUpdate(ctx, generic(t, GenericConfig{Namespaced: true}), removed, parse(t, live)); err != nil || MetaOf(removed).Generation() != 4 {
		t.Errorf("removed spec: %v %s", err, removed.Bytes())
	}
}

func TestSystemFieldsSurviveLayers(t *testing.T) {
	forge := &tracer{name: "forge", calls: new([]string), change: func(obj *document.Document) (*document.Document, error) {
		return obj.Edit().Delete("metadata", "uid").Set(int64(9), "metadata", "generation").Document()
	}}
	old := parse(t, live)
	obj, err := BeforeUpdate(request.WithNamespace(t.Context(), "d"), generic(t, GenericConfig{Namespaced: true, Layers: []Layer{forge}}), old, old)
	if err != nil || !obj.Equal(old) {
		t.Errorf("%v %s", err, obj.Bytes())
	}
}

func TestHookError(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "a", errors.New("no"))
	tests := []struct {
		name  string
		fault error
		code  int32
		text  string
	}{
		{"trap", errors.New("unreachable executed"), 500, "strategy deployments.apps layer module[quota] hook PrepareForCreate: unreachable executed"},
		{"deadline", fmt.Errorf("guest stopped: %w", context.DeadlineExceeded), 504, "layer module[quota] hook PrepareForCreate: guest stopped"},
		{"status", forbidden, 403, `x "a" is forbidden: no`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := generic(t, GenericConfig{Layers: []Layer{&tracer{name: "module[quota]", calls: new([]string), fault: tc.fault}}})
			_, err := BeforeCreate(t.Context(), g, parse(t, `{"metadata":{"name":"a"}}`))
			var s apierrors.APIStatus
			if !errors.As(err, &s) || s.Status().Code != tc.code || !strings.Contains(s.Status().Message, tc.text) || !errors.Is(err, tc.fault) {
				t.Errorf("got %v", err)
			}
		})
	}
	g := generic(t, GenericConfig{Layers: []Layer{&tracer{name: "l", calls: new([]string), change: func(*document.Document) (*document.Document, error) { return nil, nil }}}})
	if _, err := BeforeCreate(t.Context(), g, parse(t, `{"metadata":{"name":"a"}}`)); err == nil || !strings.Contains(err.Error(), "hook returned no object") {
		t.Errorf("a hook without a result: %v", err)
	}
}

func TestInvalidHasEveryFault(t *testing.T) {
	g := generic(t, GenericConfig{Namespaced: true, Layers: []Layer{&tracer{name: "l", calls: new([]string), errs: field.ErrorList{
		field.Required(field.NewPath("spec"), ""),
	}}}})
	ctx := request.WithNamespace(t.Context(), "d")
	_, err := BeforeCreate(ctx, g, parse(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"-":""},"name":"A"}}`))
	var s apierrors.APIStatus
	if !errors.As(err, &s) || s.Status().Code != 422 {
		t.Fatal(err)
	}
	var fields []string
	for _, c := range s.Status().Details.Causes {
		fields = append(fields, c.Field)
	}
	if want := []string{"metadata.name", "metadata.labels", "spec"}; !slices.Equal(fields, want) {
		t.Errorf("fields %v, want %v", fields, want)
	}
	// What both validations of metadata say is said once.
	obj, err := parse(t, live).Edit().Set("", "metadata", "labels", "-").Document()
	if err != nil {
		t.Fatal(err)
	}
	_, err = BeforeUpdate(ctx, generic(t, GenericConfig{Namespaced: true}), obj, parse(t, live))
	if !errors.As(err, &s) || len(s.Status().Details.Causes) != 1 {
		t.Errorf("update: %v", err)
	}
}

func TestMetadataOfAnotherShape(t *testing.T) {
	g := generic(t, GenericConfig{})
	for _, text := range []string{`{"metadata":{"name":"a","labels":[]}}`, `{"metadata":{"name":"a","creationTimestamp":"x"}}`} {
		if _, err := BeforeCreate(t.Context(), g, parse(t, text)); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestBeforeDelete(t *testing.T) {
	g := generic(t, GenericConfig{Layers: []Layer{&tracer{name: "l", calls: new([]string), errs: field.ErrorList{field.Forbidden(field.NewPath("spec"), "in use")}}}})
	_, err := BeforeDelete(t.Context(), g, parse(t, live), &metav1.DeleteOptions{}, time.Now())
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("ValidateDelete: %v", err)
	}
}

func TestGenericConfig(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "X"}
	tests := []struct {
		name string
		cfg  GenericConfig
	}{
		{"resource", GenericConfig{Kind: kind}},
		{"kind", GenericConfig{Resource: schema.GroupResource{Resource: "x"}}},
		{"writes", GenericConfig{Resource: schema.GroupResource{Resource: "x"}, Kind: kind, Subresource: "finalize"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := NewGeneric(tc.cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func ExampleMetaOf() {
	obj, err := document.Parse([]byte(`{"metadata":{"labels":{"app":"web"},"name":"a","resourceVersion":"7"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m := MetaOf(obj)
	fmt.Println(m.Name(), m.ResourceVersion(), m.Label("app"), m.Deleting())
	// Output: a 7 web false
}
