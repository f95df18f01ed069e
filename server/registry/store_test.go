package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

var (
	widgets    = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	epoch      = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
)

func mustParse(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return d
}

// widget is a Widget with these metadata members (JSON without braces) and spec.
func widget(t testing.TB, meta, spec string) *document.Document {
	t.Helper()
	return mustParse(t, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{%s},"spec":%s}`, meta, spec))
}

// testStorage is what a server has: a cacher on etcd.
func testStorage(t testing.TB, prefix string, namespaced bool, selectable ...Field) storage.Interface {
	t.Helper()
	s, err := etcd3.New(etcd3.Config{Client: etcd3test.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	attrs, err := AttrFunc(namespaced, selectable)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cacher.New(cacher.Config{Storage: s, Prefix: prefix + "/", GetAttrs: attrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func widgetStrategy(t testing.TB, change func(*rest.GenericConfig)) *rest.Generic {
	t.Helper()
	cfg := rest.GenericConfig{Resource: widgets, Kind: widgetKind, Namespaced: true, StatusEnabled: true, Custom: true}
	if change != nil {
		change(&cfg)
	}
	g, err := rest.NewGeneric(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func testStore(t testing.TB, change func(*rest.GenericConfig)) *Store {
	t.Helper()
	const prefix = "/registry/example.com/widgets"
	s, err := New(Config{
		Resource: widgets, Prefix: prefix, Storage: testStorage(t, prefix, true, Fields("spec.color")...), Strategy: widgetStrategy(t, change),
		SelectableFields: Fields("spec.color"),
		Now:              func() time.Time { return epoch },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inNamespace(t testing.TB, ns string) context.Context {
	return request.WithNamespace(t.Context(), ns)
}

func mustCreate(t testing.TB, s rest.Creater, ctx context.Context, obj *document.Document) *document.Document {
	t.Helper()
	out, err := s.Create(ctx, obj, nil, &metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return out
}

// edit is an update that sets one member.
func edit(value any, path ...string) rest.UpdateFunc {
	return func(_ context.Context, old *document.Document) (*document.Document, error) {
		return old.Edit().Set(value, path...).Document()
	}
}

// replace is an update to obj, whatever the live object is.
func replace(obj *document.Document) rest.UpdateFunc {
	return func(context.Context, *document.Document) (*document.Document, error) { return obj, nil }
}

func mustUpdate(t testing.TB, s rest.Updater, ctx context.Context, name string, info rest.UpdatedObjectInfo) *document.Document {
	t.Helper()
	out, _, err := s.Update(ctx, name, info, nil, nil, false, &metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return out
}

// wantStatus checks the code of err and that its message has all texts.
func wantStatus(t testing.TB, err error, code int32, texts ...string) metav1.Status {
	t.Helper()
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		t.Fatalf("got error %v, want a status %d", err, code)
	}
	if s.Status().Code != code {
		t.Fatalf("got code %d (%v), want %d", s.Status().Code, err, code)
	}
	for _, text := range texts {
		if !strings.Contains(s.Status().Message, text) {
			t.Fatalf("message %q lacks %q", s.Status().Message, text)
		}
	}
	return s.Status()
}

func TestCreate(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	in := widget(t, `"name":"a","uid":"mine","creationTimestamp":"2000-01-01T00:00:00Z","deletionTimestamp":"2000-01-01T00:00:00Z","deletionGracePeriodSeconds":3,"generation":7,"selfLink":"/x"`, `{"n":1}`)
	in, err := in.Edit().Set("done", "status", "phase").Document()
	if err != nil {
		t.Fatal(err)
	}
	out := mustCreate(t, s, ctx, in)
	m := rest.MetaOf(out)
	if m.UID() == "mine" || m.UID() == "" || m.CreationTimestamp() != "2030-01-02T03:04:05Z" || m.Deleting() || m.Generation() != 1 ||
		m.Namespace() != "default" || m.ResourceVersion() == "" || out.Get("status").Exists() || m.Value().Get("selfLink").Exists() {
		t.Errorf("created %s", out.Bytes())
	}
	if _, ok := m.DeletionGracePeriodSeconds(); ok {
		t.Errorf("deletionGracePeriodSeconds kept: %s", out.Bytes())
	}
	got, err := s.Get(ctx, "a", nil)
	if err != nil || !got.Equal(out) {
		t.Fatalf("get: %v\n%s\nwant\n%s", err, got.Bytes(), out.Bytes())
	}
	n, err := s.Count(ctx)
	if err != nil || n != 1 {
		t.Errorf("count %d, %v", n, err)
	}
}

func TestCreateErrors(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	tests := []struct {
		name  string
		meta  string
		ctx   context.Context
		code  int32
		texts []string
	}{
		{"taken", `"name":"a"`, ctx, 409, []string{`widgets.example.com "a" already exists`}},
		{"resourceVersion", `"name":"b","resourceVersion":"5"`, ctx, 400, []string{"resourceVersion should not be set on objects to be created"}},
		{"resourceVersion of what is there", `"name":"a","resourceVersion":"5"`, ctx, 400, []string{"resourceVersion should not be set on objects to be created"}},
		{"resourceVersion of a bad name", `"name":"A","resourceVersion":"5"`, ctx, 422, []string{`metadata.name: Invalid value: "A"`}},
		{"other namespace", `"name":"b","namespace":"x"`, ctx, 400, []string{"does not match the namespace sent on the request"}},
		{"no name", ``, ctx, 422, []string{`Widget.example.com "" is invalid: metadata.name: Required value: name or generateName is required`}},
		{"bad name", `"name":"A"`, ctx, 422, []string{`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain`}},
		{"bad label", `"name":"b","labels":{"-":"x"}`, ctx, 422, []string{"metadata.labels"}},
		{"bad finalizer", `"name":"b","finalizers":["a b"]`, ctx, 422, []string{"metadata.finalizers"}},
		{"namespace is a path", `"name":"b"`, inNamespace(t, ".."), 422, []string{"metadata.namespace"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := s.Create(tc.ctx, widget(t, tc.meta, `{}`), nil, &metav1.CreateOptions{})
			wantStatus(t, err, tc.code, tc.texts...)
		})
	}
}

// TestCreateWithResourceVersion creates what says a resourceVersion, as upstream: its storage alone looks at it, to which no dry run
// comes, and one that is no number is none.
func TestCreateWithResourceVersion(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	dry := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for rv, refused := range map[string]bool{"5": true, "05": true, "18446744073709551615": true, "0": false, "00": false, "x": false, "-5": false, "18446744073709551616": false} {
		obj := widget(t, `"generateName":"a-","resourceVersion":"`+rv+`"`, `{}`)
		out, err := s.Create(ctx, obj, nil, dry)
		if err != nil || rest.MetaOf(out).ResourceVersion() != rv {
			t.Errorf("dry run with %s: %v", rv, err)
		}
		out, err = s.Create(ctx, obj, nil, &metav1.CreateOptions{})
		if refused {
			wantStatus(t, err, 400, "resourceVersion should not be set on objects to be created")
			continue
		}
		if err != nil {
			t.Errorf("with %s: %v", rv, err)
			continue
		}
		got, err := s.Get(ctx, rest.MetaOf(out).Name(), nil)
		if err != nil || !got.Equal(out) || rest.MetaOf(out).ResourceVersion() == rv {
			t.Errorf("with %s: %v %s", rv, err, out.Bytes())
		}
	}
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	_, err := s.Create(ctx, widget(t, `"name":"a","resourceVersion":"5"`, `{}`), nil, dry)
	wantStatus(t, err, 409, `widgets.example.com "a" already exists`)
}

func TestGenerateName(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	out := mustCreate(t, s, ctx, widget(t, `"generateName":"`+strings.Repeat("x", 70)+`"`, `{}`))
	if name := rest.MetaOf(out).Name(); len(name) != 63 {
		t.Errorf("name %q has %d characters", name, len(name))
	}
	// It is cut between characters: what is wrong with it is for the validation of names to say.
	_, err := s.Create(ctx, widget(t, `"generateName":"a`+strings.Repeat("é", 40)+`"`, `{}`), nil, &metav1.CreateOptions{})
	wantStatus(t, err, 422, "metadata.generateName")
	// A storage that always has the name already.
	taken := &Store{cfg: s.cfg, attrs: s.attrs}
	counting := &alwaysTaken{Interface: s.cfg.Storage}
	taken.cfg.Storage = counting
	_, err = taken.Create(ctx, widget(t, `"generateName":"x-"`, `{}`), nil, &metav1.CreateOptions{})
	wantStatus(t, err, 409, "the server was not able to generate a unique name")
	if counting.n != 8 {
		t.Errorf("%d attempts", counting.n)
	}
}

type alwaysTaken struct {
	storage.Interface
	n int
}

func (a *alwaysTaken) Create(context.Context, string, []byte, uint64) (storage.Row, error) {
	a.n++
	return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyExists}
}

func TestMetadataIsNoObject(t *testing.T) {
	s, ctx := testStore(t, func(c *rest.GenericConfig) { c.AllowUnconditionalUpdate = true }), inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	for _, text := range []string{`{"metadata":"x"}`, `{"metadata":[]}`, `{"metadata":1}`, `[]`, `null`} {
		obj := mustParse(t, text)
		_, err := s.Create(ctx, obj, nil, nil)
		wantStatus(t, err, 400)
		_, _, err = s.Update(ctx, "a", replace(obj), nil, nil, false, nil)
		wantStatus(t, err, 400)
		_, _, err = s.Update(ctx, "b", replace(obj), nil, nil, true, nil)
		wantStatus(t, err, 400)
	}
	for _, text := range []string{`{}`, `{"metadata":null}`} {
		_, err := s.Create(ctx, mustParse(t, text), nil, nil)
		wantStatus(t, err, 422, "name or generateName is required")
	}
}

func TestDryRun(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	all := []string{metav1.DryRunAll}
	out, err := s.Create(ctx, widget(t, `"generateName":"a-"`, `{}`), nil, &metav1.CreateOptions{DryRun: all})
	if err != nil || rest.MetaOf(out).Name() == "" || rest.MetaOf(out).ResourceVersion() != "" {
		t.Fatalf("create: %v %s", err, out.Bytes())
	}
	live := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"n":1}`))
	_, err = s.Create(ctx, widget(t, `"name":"a"`, `{}`), nil, &metav1.CreateOptions{DryRun: all})
	wantStatus(t, err, 409, "already exists")
	out, _, err = s.Update(ctx, "a", edit(int64(2), "spec", "n"), nil, nil, false, &metav1.UpdateOptions{DryRun: all})
	if err != nil || rest.MetaOf(out).Generation() != 2 {
		t.Fatalf("update: %v %s", err, out.Bytes())
	}
	_, deleted, err := s.Delete(ctx, "a", nil, &metav1.DeleteOptions{DryRun: all})
	if err != nil || !deleted {
		t.Fatalf("delete: %v", err)
	}
	foreground := metav1.DeletePropagationForeground
	out, deleted, err = s.Delete(ctx, "a", nil, &metav1.DeleteOptions{DryRun: all, PropagationPolicy: &foreground})
	if err != nil || deleted || !rest.MetaOf(out).Deleting() {
		t.Fatalf("foreground delete: %v %v", err, deleted)
	}
	if got, err := s.Get(ctx, "a", nil); err != nil || !got.Equal(live) {
		t.Errorf("dry run wrote: %v %s", err, got.Bytes())
	}
}

func TestUpdate(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	first := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"n":1}`))

	same := mustUpdate(t, s, ctx, "a", replace(first))
	if !same.Equal(first) {
		t.Errorf("an update without a change wrote %s", same.Bytes())
	}
	label := mustUpdate(t, s, ctx, "a", edit("x", "metadata", "labels", "l"))
	if m := rest.MetaOf(label); m.Generation() != 1 || m.ResourceVersion() == rest.MetaOf(first).ResourceVersion() {
		t.Errorf("label: %s", label.Bytes())
	}
	spec := mustUpdate(t, s, ctx, "a", edit(int64(2), "spec", "n"))
	if m := rest.MetaOf(spec); m.Generation() != 2 {
		t.Errorf("spec: %s", spec.Bytes())
	}
	status := mustUpdate(t, s, ctx, "a", edit("up", "status", "phase"))
	if !status.Equal(spec) {
		t.Errorf("status written through the main resource: %s", status.Bytes())
	}
	// System fields cannot be changed.
	forged, err := spec.Edit().Delete("metadata", "uid").Set("2000-01-01T00:00:00Z", "metadata", "creationTimestamp").
		Set(int64(99), "metadata", "generation").Document()
	if err != nil {
		t.Fatal(err)
	}
	if out := mustUpdate(t, s, ctx, "a", replace(forged)); !out.Equal(spec) {
		t.Errorf("forged: %s", out.Bytes())
	}
}

func TestUpdateErrors(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	first := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"n":1}`))
	mustUpdate(t, s, ctx, "a", edit(int64(2), "spec", "n"))
	with := func(value any, path ...string) *document.Document {
		live, err := s.Get(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := live.Edit().Set(value, path...).Document()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	tests := []struct {
		name  string
		obj   *document.Document
		code  int32
		texts []string
	}{
		{"stale", first, 409, []string{"Operation cannot be fulfilled", optimisticLockText}},
		{"no resourceVersion", widget(t, `"name":"a"`, `{}`), 422, []string{"metadata.resourceVersion: Invalid value: 0: must be specified for an update"}},
		{"resourceVersion is no number", with("x", "metadata", "resourceVersion"), 400, []string{"invalid resource version"}},
		{"uid", with("other", "metadata", "uid"), 422, []string{"metadata.uid", "field is immutable"}},
		{"name", with("b", "metadata", "name"), 422, []string{"metadata.name", "field is immutable"}},
		{"deletionTimestamp", with("2031-01-01T00:00:00Z", "metadata", "deletionTimestamp"), 422, []string{"metadata.deletionTimestamp", "field is immutable"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := s.Update(ctx, "a", replace(tc.obj), nil, nil, false, &metav1.UpdateOptions{})
			wantStatus(t, err, tc.code, tc.texts...)
		})
	}
	_, _, err := s.Update(ctx, "none", edit(int64(1), "spec", "n"), nil, nil, false, nil)
	wantStatus(t, err, 404, `widgets.example.com "none" not found`)
	_, _, err = s.Update(ctx, "a", preconditioned{uid: "other", UpdateFunc: edit(int64(1), "spec", "n")}, nil, nil, false, nil)
	wantStatus(t, err, 409, "UID in precondition: other")
	for _, dry := range [][]string{nil, {metav1.DryRunAll}} { // of an object that is gone, a copy is not made
		_, _, err = s.Update(ctx, "none", preconditioned{uid: "other", UpdateFunc: replace(widget(t, `"name":"none"`, `{}`))}, nil, nil, true, &metav1.UpdateOptions{DryRun: dry})
		wantStatus(t, err, 409, "UID in precondition: other")
	}
}

type preconditioned struct {
	rest.UpdateFunc
	uid types.UID
}

func (p preconditioned) Preconditions() *metav1.Preconditions {
	return &metav1.Preconditions{UID: &p.uid}
}

func TestUnconditionalUpdateAndCreateOnUpdate(t *testing.T) {
	s, ctx := testStore(t, func(c *rest.GenericConfig) { c.AllowUnconditionalUpdate = true }), inNamespace(t, "default")
	obj := widget(t, `"name":"a"`, `{"n":1}`)
	_, _, err := s.Update(ctx, "a", replace(obj), nil, nil, false, nil)
	wantStatus(t, err, 404)
	out, created, err := s.Update(ctx, "a", replace(obj), nil, nil, true, nil)
	if err != nil || !created || rest.MetaOf(out).Generation() != 1 || rest.MetaOf(out).UID() == "" {
		t.Fatalf("forced create: %v %v", created, err)
	}
	again, created, err := s.Update(ctx, "a", replace(obj), nil, nil, true, nil)
	if err != nil || created || !again.Equal(out) {
		t.Fatalf("unconditional update: %v %v %s", created, err, again.Bytes())
	}
}

func TestManagedFieldsTimesOnly(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	at := func(time string) *document.Document {
		return mustParse(t, `[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}},"manager":"m","operation":"Update","time":"`+time+`"}]`)
	}
	obj, err := widget(t, `"name":"a"`, `{"n":1}`).Edit().Set(at("2030-01-01T00:00:00Z"), "metadata", "managedFields").Document()
	if err != nil {
		t.Fatal(err)
	}
	first := mustCreate(t, s, ctx, obj)
	if out := mustUpdate(t, s, ctx, "a", edit(at("2030-01-02T00:00:00Z"), "metadata", "managedFields")); !out.Equal(first) {
		t.Errorf("a change of times wrote %s", out.Bytes())
	}
	out := mustUpdate(t, s, ctx, "a", rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		return old.Edit().Set(at("2030-01-02T00:00:00Z"), "metadata", "managedFields").Set(int64(2), "spec", "n").Document()
	}))
	if got := out.Get("metadata", "managedFields").Index(0).Get("time").String(); got != "2030-01-02T00:00:00Z" {
		t.Errorf("a change of spec kept the time %s", got)
	}
}

func TestStatus(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	status := s.Subresource(widgetStrategy(t, func(c *rest.GenericConfig) { c.Subresource = "status" }))
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"n":1}`))
	out := mustUpdate(t, status, ctx, "a", rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		return old.Edit().Set("up", "status", "phase").Set(int64(9), "spec", "n").Set("x", "metadata", "labels", "l").Document()
	}))
	if n, _ := out.Get("spec", "n").Int(); n != 1 || out.Get("status", "phase").String() != "up" || rest.MetaOf(out).Generation() != 1 || rest.MetaOf(out).Labels() != nil {
		t.Errorf("status update: %s", out.Bytes())
	}
	_, _, err := status.Update(ctx, "none", edit("up", "status", "phase"), nil, nil, true, nil)
	wantStatus(t, err, 404)
}

// TestDeleteLarge: an object that is as large as can be stored, and held by a finalizer, can be deleted: managedFields make room
// for what says that it is to go.
func TestDeleteLarge(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	create := func(name string, filler int) int {
		fields := `[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}},"manager":"somebody","operation":"Update","time":"2026-01-01T00:00:00Z"}]`
		out := mustCreate(t, s, ctx, widget(t, `"finalizers":["example.com/f"],"managedFields":`+fields+`,"name":"`+name+`"`, `{"a":"`+strings.Repeat("x", filler)+`"}`))
		stored, err := out.Edit().Delete("metadata", "resourceVersion").Document()
		if err != nil {
			t.Fatal(err)
		}
		return len(s.cfg.Prefix) + len("/default/") + len(name) + stored.Len()
	}
	const room = 10
	if size := create("b", etcd3.DefaultMaxObjectBytes-room-create("a", 0)); size != etcd3.DefaultMaxObjectBytes-room {
		t.Fatalf("the object has %d bytes", size)
	}
	for range 2 {
		out, deleted, err := s.Delete(ctx, "b", nil, nil)
		if m := rest.MetaOf(out); err != nil || deleted || !m.Deleting() || !m.HasFinalizers() || out.Get("metadata", "managedFields").Exists() {
			t.Fatalf("deleted: %t, %v", deleted, err)
		}
	}
	if _, _, err := s.Update(ctx, "b", edit([]any{}, "metadata", "finalizers"), nil, nil, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(ctx, "b", nil)
	wantStatus(t, err, 404)
}

func TestDelete(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	_, _, err := s.Delete(ctx, "a", nil, nil)
	wantStatus(t, err, 404, `widgets.example.com "a" not found`)
	obj := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	other, rv, negative := types.UID("other"), "1", int64(-1)
	_, _, err = s.Delete(ctx, "a", nil, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	wantStatus(t, err, 409, "Operation cannot be fulfilled")
	_, _, err = s.Delete(ctx, "a", nil, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &rv}})
	wantStatus(t, err, 409, "Operation cannot be fulfilled")
	bad := metav1.DeletionPropagation("Sideways")
	_, _, err = s.Delete(ctx, "a", nil, &metav1.DeleteOptions{PropagationPolicy: &bad})
	wantStatus(t, err, 422, "propagationPolicy")
	_, _, err = s.Delete(ctx, "a", func(context.Context, *document.Document) error {
		return apierrors.NewForbidden(widgets, "a", errors.New("no"))
	}, nil)
	wantStatus(t, err, 403)
	out, deleted, err := s.Delete(ctx, "a", nil, &metav1.DeleteOptions{GracePeriodSeconds: &negative})
	if err != nil || !deleted || rest.MetaOf(out).UID() != rest.MetaOf(obj).UID() {
		t.Fatalf("delete: %v %v", deleted, err)
	}
	_, err = s.Get(ctx, "a", nil)
	wantStatus(t, err, 404)
}

func TestDeleteWithFinalizers(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	now := epoch
	s.cfg.Now = func() time.Time { return now }
	mustCreate(t, s, ctx, widget(t, `"name":"a","finalizers":["example.com/f"]`, `{}`))
	first, deleted, err := s.Delete(ctx, "a", nil, nil)
	m := rest.MetaOf(first)
	grace, ok := m.DeletionGracePeriodSeconds()
	if err != nil || deleted || !m.Deleting() || !ok || grace != 0 || m.Generation() != 2 {
		t.Fatalf("delete: %v %s", err, first.Bytes())
	}
	now = now.Add(time.Hour)
	again, deleted, err := s.Delete(ctx, "a", nil, nil)
	if err != nil || deleted || !again.Equal(first) {
		t.Fatalf("second delete: %v %v %s", deleted, err, again.Bytes())
	}
	_, err = s.Create(ctx, widget(t, `"name":"a"`, `{}`), nil, nil)
	wantStatus(t, err, 409, "object is being deleted: ", "already exists")
	_, _, err = s.Update(ctx, "a", edit([]any{"example.com/f", "example.com/g"}, "metadata", "finalizers"), nil, nil, false, nil)
	wantStatus(t, err, 422, "no new finalizers can be added if the object is being deleted")
	out := mustUpdate(t, s, ctx, "a", rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		return old.Edit().Delete("metadata", "finalizers").Document()
	}))
	if rest.MetaOf(out).HasFinalizers() {
		t.Errorf("last update returned %s", out.Bytes())
	}
	_, err = s.Get(ctx, "a", nil)
	wantStatus(t, err, 404)
}

func TestPropagationPolicy(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	tests := []struct {
		policy     metav1.DeletionPropagation
		finalizers []string
	}{
		{metav1.DeletePropagationOrphan, []string{"orphan"}},
		{metav1.DeletePropagationForeground, []string{"foregroundDeletion"}},
		{metav1.DeletePropagationBackground, nil},
	}
	for _, tc := range tests {
		t.Run(string(tc.policy), func(t *testing.T) {
			name := strings.ToLower(string(tc.policy))
			mustCreate(t, s, ctx, widget(t, `"name":"`+name+`"`, `{}`))
			out, deleted, err := s.Delete(ctx, name, nil, &metav1.DeleteOptions{PropagationPolicy: &tc.policy})
			if err != nil || deleted != (tc.finalizers == nil) {
				t.Fatalf("deleted %v, %v", deleted, err)
			}
			if got := rest.MetaOf(out).Finalizers(); fmt.Sprint(got) != fmt.Sprint(tc.finalizers) {
				t.Errorf("finalizers %v", got)
			}
		})
	}
}

func TestGracefulDelete(t *testing.T) {
	s, ctx := testStore(t, func(c *rest.GenericConfig) {
		c.GracePeriod = func(obj *document.Document, opts *metav1.DeleteOptions) (int64, bool) {
			if opts.GracePeriodSeconds != nil {
				return *opts.GracePeriodSeconds, true
			}
			return 30, true
		}
	}), inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	seconds := func(n int64) *metav1.DeleteOptions { return &metav1.DeleteOptions{GracePeriodSeconds: &n} }
	out, deleted, err := s.Delete(ctx, "a", nil, &metav1.DeleteOptions{})
	if at, _ := rest.MetaOf(out).DeletionTimestamp(); err != nil || deleted || !at.Equal(epoch.Add(30*time.Second)) {
		t.Fatalf("delete: %v %s", err, out.Bytes())
	}
	longer, deleted, err := s.Delete(ctx, "a", nil, seconds(60))
	if err != nil || deleted || !longer.Equal(out) {
		t.Fatalf("longer: %v %v", deleted, err)
	}
	out, deleted, err = s.Delete(ctx, "a", nil, seconds(10))
	if at, _ := rest.MetaOf(out).DeletionTimestamp(); err != nil || deleted || !at.Equal(epoch.Add(10*time.Second)) {
		t.Fatalf("shorter: %v %s", err, out.Bytes())
	}
	if _, deleted, err = s.Delete(ctx, "a", nil, seconds(0)); err != nil || !deleted {
		t.Fatalf("now: %v %v", deleted, err)
	}
}

func TestListAndDeleteCollection(t *testing.T) {
	s := testStore(t, nil)
	for i := range 7 {
		mustCreate(t, s, inNamespace(t, "one"), widget(t, fmt.Sprintf(`"name":"w%d","labels":{"odd":"%d"}`, i, i%2), fmt.Sprintf(`{"color":"c%d"}`, i%3)))
	}
	mustCreate(t, s, inNamespace(t, "two"), widget(t, `"name":"w0"`, `{}`))
	list := func(ctx context.Context, o internalversion.ListOptions) *rest.List {
		t.Helper()
		l, err := s.List(ctx, &o)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		return l
	}
	parse := func(text string) fields.Selector { return fields.ParseSelectorOrDie(text) }
	tests := []struct {
		name string
		ns   string
		opts internalversion.ListOptions
		want int
	}{
		{"all", "", internalversion.ListOptions{}, 8},
		{"namespace", "one", internalversion.ListOptions{}, 7},
		{"namespace that prefixes another", "on", internalversion.ListOptions{}, 0},
		{"namespace by field", "", internalversion.ListOptions{FieldSelector: parse("metadata.namespace=two")}, 1},
		{"name in all", "", internalversion.ListOptions{FieldSelector: parse("metadata.name=w0")}, 2},
		{"name in one", "one", internalversion.ListOptions{FieldSelector: parse("metadata.name=w0")}, 1},
		{"name that is no path", "one", internalversion.ListOptions{FieldSelector: parse("metadata.name=..")}, 0},
		{"labels", "one", internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"odd": "1"})}, 3},
		{"field", "one", internalversion.ListOptions{FieldSelector: parse("spec.color=c1")}, 2},
		{"field that is not set", "", internalversion.ListOptions{FieldSelector: parse("spec.color=")}, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := list(inNamespace(t, tc.ns), tc.opts); len(got.Items) != tc.want {
				t.Errorf("%d items, want %d", len(got.Items), tc.want)
			}
		})
	}
	_, err := s.List(inNamespace(t, ""), &internalversion.ListOptions{FieldSelector: parse("spec.x=1")})
	wantStatus(t, err, 400, "field label not supported: spec.x")
	_, err = s.List(inNamespace(t, ".."), nil)
	wantStatus(t, err, 400)
	_, err = s.List(inNamespace(t, "one"), &internalversion.ListOptions{ResourceVersion: "x"})
	wantStatus(t, err, 400)
	_, err = s.List(inNamespace(t, "one"), &internalversion.ListOptions{Continue: "x"})
	wantStatus(t, err, 400)

	page := list(inNamespace(t, "one"), internalversion.ListOptions{Limit: 3})
	if len(page.Items) != 3 || page.Continue == "" || page.RemainingItemCount == nil || *page.RemainingItemCount != 4 {
		t.Errorf("page: %+v", page)
	}

	gone, err := s.DeleteCollection(inNamespace(t, "one"), nil, nil, &internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"odd": "1"})})
	if err != nil || len(gone.Items) != 3 {
		t.Fatalf("deletecollection: %v", err)
	}
	if _, err := s.DeleteCollection(inNamespace(t, ""), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Count(t.Context()); err != nil || n != 0 {
		t.Errorf("%d left, %v", n, err)
	}
}

func TestKeySafety(t *testing.T) {
	s := testStore(t, nil)
	for _, name := range []string{"", ".", "..", "a/b", "a%b", "a\x00b"} {
		_, err := s.Get(inNamespace(t, "default"), name, nil)
		wantStatus(t, err, 400)
		_, _, err = s.Delete(inNamespace(t, "default"), name, nil, nil)
		wantStatus(t, err, 400)
		_, err = s.Get(inNamespace(t, name), "a", nil)
		wantStatus(t, err, 400)
	}
}

func TestWatch(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	list, err := s.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() rest.Watch {
		w, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	a, b := open(), open()
	first := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	if _, _, err := s.Delete(ctx, "a", nil, nil); err != nil {
		t.Fatal(err)
	}
	read := func(w rest.Watch) (out []rest.Event) {
		for len(out) < 2 {
			events, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, events...)
		}
		return out
	}
	got := read(a)
	if got[0].Type != "ADDED" || !got[0].Object.Equal(first) || got[1].Type != "DELETED" || got[1].ResourceVersion != rest.MetaOf(got[1].Object).ResourceVersion() {
		t.Errorf("events %+v", got)
	}
	read(b)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := a.Next(cancelled); !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		t.Errorf("next of a cancelled context: %v", err)
	}
	_, err = s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: "x"})
	wantStatus(t, err, 400)
	kept := func() (n int) {
		for i := range s.shared {
			if s.shared[i].Load() != nil {
				n++
			}
		}
		return n
	}
	for _, w := range []rest.Watch{a, a, b} {
		if kept() != 2 {
			t.Errorf("%d events are shared while somebody watches, want 2", kept())
		}
		w.Stop()
	}
	if kept() != 0 {
		t.Errorf("%d events are kept when nobody watches", kept())
	}
	// The storage may be about to give the last watch an event while it is stopped.
	row := storage.Row{Value: storage.NewText(first.Bytes()), ResourceVersion: 1}
	if events, err := b.(*watch).documents([]storage.Event{{Type: storage.Added, Row: row}}); err != nil || len(events) != 1 || kept() != 0 {
		t.Errorf("%v, %v; %d events are kept of what comes when nobody watches", events, err, kept())
	}
}

type rejecting struct{ rest.NoHooks }

func (rejecting) Name() string             { return "cel[replicas]" }
func (rejecting) Implements() rest.HookSet { return rest.HookSet(rest.HookValidate) }
func (rejecting) Validate(context.Context, *document.Document) (field.ErrorList, error) {
	return nil, errors.New("budget exceeded")
}

func TestHookFailure(t *testing.T) {
	s := testStore(t, func(c *rest.GenericConfig) { c.Layers = []rest.Layer{rejecting{}} })
	_, err := s.Create(inNamespace(t, "default"), widget(t, `"name":"a"`, `{}`), nil, nil)
	wantStatus(t, err, 500, "strategy widgets.example.com layer cel[replicas] hook Validate: budget exceeded")
}

// TestConflictHammer counts with many writers: no update may be lost, by retry inside of
// Update or by a conflict that the client sees.
func TestConflictHammer(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"n":0}`))
	const writers, each = 8, 15
	increment := rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		n, _ := old.Get("spec", "n").Int()
		return old.Edit().Set(n+1, "spec", "n").Document()
	})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for done := 0; done < each; {
				if w%2 == 0 {
					if _, _, err := s.Update(ctx, "a", increment, nil, nil, false, nil); err != nil {
						t.Errorf("update: %v", err)
						return
					}
					done++
					continue
				}
				live, err := s.Get(ctx, "a", nil)
				if err != nil {
					t.Error(err)
					return
				}
				next, _ := increment(ctx, live)
				switch _, _, err := s.Update(ctx, "a", replace(next), nil, nil, false, nil); {
				case err == nil:
					done++
				case !apierrors.IsConflict(err):
					t.Errorf("put: %v", err)
					return
				}
			}
		}()
	}
	wg.Wait()
	out, err := s.Get(ctx, "a", nil)
	if n, _ := out.Get("spec", "n").Int(); err != nil || n != writers*each || rest.MetaOf(out).Generation() != writers*each+1 {
		t.Errorf("after %d updates: %s", writers*each, out.Bytes())
	}
}

// TestFinalizerHammer adds and removes a finalizer while others delete: an object never
// vanishes while it has one.
func TestFinalizerHammer(t *testing.T) {
	s, ctx := testStore(t, nil), inNamespace(t, "default")
	for round := range 10 {
		name := fmt.Sprintf("a%d", round)
		mustCreate(t, s, ctx, widget(t, `"name":"`+name+`"`, `{}`))
		held := make(chan bool, 1)
		var wg sync.WaitGroup
		wg.Add(2)
		go func() {
			defer wg.Done()
			_, _, err := s.Update(ctx, name, edit([]any{"example.com/f"}, "metadata", "finalizers"), nil, nil, false, nil)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
				t.Errorf("hold: %v", err)
			}
			held <- err == nil
		}()
		go func() {
			defer wg.Done()
			if _, _, err := s.Delete(ctx, name, nil, nil); err != nil {
				t.Errorf("delete: %v", err)
			}
		}()
		wg.Wait()
		_, err := s.Get(ctx, name, nil)
		if hold := <-held; hold != (err == nil) {
			t.Errorf("held %v, but get says %v", hold, err)
		}
	}
}

func TestErrors(t *testing.T) {
	s := testStore(t, nil)
	tests := []struct {
		name   string
		err    error
		code   int32
		reason metav1.StatusReason
		text   string
	}{
		{"not found", &storage.Error{Code: storage.ErrCodeKeyNotFound}, 404, metav1.StatusReasonNotFound, `widgets.example.com "a" not found`},
		{"exists", &storage.Error{Code: storage.ErrCodeKeyExists}, 409, metav1.StatusReasonAlreadyExists, "already exists"},
		{"conflict", &storage.Error{Code: storage.ErrCodeResourceVersionConflicts}, 409, metav1.StatusReasonConflict, optimisticLockText},
		{"uid", &storage.Error{Code: storage.ErrCodeInvalidObj, Message: "Precondition failed"}, 409, metav1.StatusReasonConflict, "Precondition failed"},
		{"unreachable", &storage.Error{Code: storage.ErrCodeUnreachable, Message: "no leader"}, 503, metav1.StatusReasonServiceUnavailable, "no leader"},
		{"timeout", &storage.Error{Code: storage.ErrCodeTimeout, Message: "timed out"}, 504, metav1.StatusReasonTimeout, "timed out"},
		{"too large rv", &storage.Error{Code: storage.ErrCodeResourceVersionTooLarge, ResourceVersion: 9}, 504, metav1.StatusReasonTimeout, "Too large resource version: 9"},
		{"expired", &storage.Error{Code: storage.ErrCodeExpired}, 410, metav1.StatusReasonExpired, expiredText},
		{"expired token", &storage.Error{Code: storage.ErrCodeExpired, Continue: "t"}, 410, metav1.StatusReasonExpired, expiredContinueText},
		{"bad token", &storage.Error{Code: storage.ErrCodeBadContinue, Message: "continue key is not valid"}, 400, metav1.StatusReasonBadRequest, "continue key is not valid"},
		{"bad rv", &storage.Error{Code: storage.ErrCodeBadResourceVersion, Message: "x"}, 400, metav1.StatusReasonBadRequest, "x"},
		{"invalid key", &storage.Error{Code: storage.ErrCodeInvalidKey, Message: "not clean"}, 400, metav1.StatusReasonBadRequest, "not clean"},
		{"too large", &storage.Error{Code: storage.ErrCodeTooLarge, Message: "2 MiB"}, 413, metav1.StatusReasonRequestEntityTooLarge, "2 MiB"},
		{"not ready", &storage.Error{Code: storage.ErrCodeNotReady}, 429, metav1.StatusReasonTooManyRequests, "storage is (re)initializing"},
		{"corrupt", &storage.Error{Code: storage.ErrCodeCorruptObj, Key: "/registry/x", Message: "bad"}, 500, metav1.StatusReasonStoreReadError, "/registry/x"},
		{"no space", &storage.Error{Code: storage.ErrCodeNoSpace, Message: "full"}, 500, metav1.StatusReasonInternalError, "no space left"},
		{"deadline", context.DeadlineExceeded, 504, metav1.StatusReasonTimeout, "deadline"},
		{"other", errors.New("odd"), 500, metav1.StatusReasonInternalError, "update widgets.example.com: odd"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := wantStatus(t, s.failed("update", "a", tc.err), tc.code, tc.text)
			if got.Reason != tc.reason {
				t.Errorf("reason %s", got.Reason)
			}
			wantStatus(t, s.failed("update", "a", fmt.Errorf("wrapped: %w", tc.err)), tc.code)
		})
	}
	got := wantStatus(t, s.failed("list", "", &storage.Error{Code: storage.ErrCodeExpired, Continue: "t"}), 410)
	if got.Continue != "t" {
		t.Errorf("continue %q", got.Continue)
	}
	for wait, seconds := range map[time.Duration]int32{0: 1, -time.Second: 1, 4100 * time.Millisecond: 5} {
		got = wantStatus(t, s.failed("update", "a", &storage.Error{Code: storage.ErrCodeNotReady, RetryAfter: wait}), 429)
		if got.Details.RetryAfterSeconds != seconds {
			t.Errorf("details %+v, want %d seconds for %s", got.Details, seconds, wait)
		}
	}
	got = wantStatus(t, s.failed("list", "", &storage.Error{Code: storage.ErrCodeResourceVersionTooLarge}), 504)
	if got.Details.RetryAfterSeconds != 1 || got.Details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge {
		t.Errorf("details %+v", got.Details)
	}
}
