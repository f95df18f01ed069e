package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

func TestObjects(t *testing.T) {
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	roles := map[string]bool{}
	for _, obj := range objects {
		kind := obj.Get("kind").String()
		count[kind]++
		m := rest.MetaOf(obj)
		if m.Annotation("rbac.authorization.kubernetes.io/autoupdate") != "true" || m.Label("kubernetes.io/bootstrapping") != "rbac-defaults" {
			t.Errorf("%s %s is not marked as a default", kind, m.Name())
		}
		if ref := obj.Get("roleRef"); ref.Exists() {
			namespace := ""
			if ref.Get("kind").String() == "Role" {
				namespace = m.Namespace()
			}
			if !roles[namespace+"/"+ref.Get("name").String()] {
				t.Errorf("%s %s refers to %s, which does not come before it", kind, m.Name(), ref.Get("name"))
			}
			continue
		}
		roles[m.Namespace()+"/"+m.Name()] = true
	}
	for kind, n := range map[string]int{"ClusterRole": 73, "ClusterRoleBinding": 54, "Role": 7, "RoleBinding": 7} {
		if count[kind] != n {
			t.Errorf("%d of kind %s, want %d", count[kind], kind, n)
		}
	}
}

func BenchmarkObjects(b *testing.B) {
	for b.Loop() {
		if _, err := Objects(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestMerge(t *testing.T) {
	const wanted = `{"kind":"ClusterRole","metadata":{"name":"r","labels":{"a":"1"},"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"true"}},` +
		`"rules":[{"apiGroups":[""],"resources":["pods","secrets"],"verbs":["get"]}]}`
	const binding = `{"kind":"ClusterRoleBinding","metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"r"},` +
		`"subjects":[{"kind":"User","name":"u"},{"kind":"User","name":"v"}]}`
	const aggregated = `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"x":"1"}}]},"metadata":{"name":"r"}}`
	tests := []struct {
		name, have, wanted, merged string
		err                        error
	}{
		{"the same", wanted, wanted, wanted, nil},
		{"more is left", strings.Replace(wanted, `["get"]`, `["get","list"]`, 1), wanted, strings.Replace(wanted, `["get"]`, `["get","list"]`, 1), nil},
		{"what is missing is added", `{"kind":"ClusterRole","metadata":{"labels":{"a":"mine"},"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, wanted,
			`{"kind":"ClusterRole","metadata":{"labels":{"a":"mine"},"name":"r","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"true"}},` +
				`"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]},{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`, nil},
		{"a protected object is left alone", `{"metadata":{"name":"r","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`, wanted,
			`{"metadata":{"name":"r","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`, nil},
		{"a subject is added", strings.Replace(binding, `{"kind":"User","name":"u"}`, `{"kind":"User","name":"mine"}`, 1), binding,
			strings.Replace(binding, `{"kind":"User","name":"u"},{"kind":"User","name":"v"}`, `{"kind":"User","name":"mine"},{"kind":"User","name":"v"},{"kind":"User","name":"u"}`, 1), nil},
		{"another role", strings.Replace(binding, `"name":"r"`, `"name":"other"`, 1), binding, "", errOtherRole},
		{"another role, protected", `{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},"roleRef":{"name":"other"}}`, binding,
			`{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},"roleRef":{"name":"other"}}`, nil},
		{"a selector is added", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"y":"1"}}]},"metadata":{"name":"r"},"rules":[{"verbs":["get"]}]}`, aggregated,
			`{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"y":"1"}},{"matchLabels":{"x":"1"}}]},"metadata":{"name":"r"},"rules":[{"verbs":["get"]}]}`, nil},
		{"aggregation that is not wanted goes", `{"aggregationRule":{"clusterRoleSelectors":[]},"metadata":{"name":"r"}}`, `{"metadata":{"name":"r"}}`, `{"metadata":{"name":"r"}}`, nil},
		{"null rules", `{"metadata":{"name":"r"},"rules":null}`, `{"metadata":{"name":"r"},"rules":[{"apiGroups":["a"],"resources":["b"],"verbs":["c"]}]}`,
			`{"metadata":{"name":"r"},"rules":[{"apiGroups":["a"],"resources":["b"],"verbs":["c"]}]}`, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := merge(parse(t, tc.have), parse(t, tc.wanted))
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err == nil && !got.Equal(parse(t, tc.merged)) {
				t.Errorf("merged\n%s\nwant\n%s", got.Bytes(), tc.merged)
			}
		})
	}
}

func parse(t *testing.T, text string) *document.Document {
	t.Helper()
	obj, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// shelf stores objects of one resource.
type shelf struct {
	mu      sync.Mutex
	objects map[string]*document.Document // guarded by mu
	log     []string                      // guarded by mu
}

func (s *shelf) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj := s.objects[name]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (s *shelf) Create(_ context.Context, obj *document.Document, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (*document.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := rest.MetaOf(obj).Name()
	if s.objects[name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, name)
	}
	s.objects[name] = obj
	s.log = append(s.log, "create "+name)
	return obj, nil
}

func (s *shelf) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (*document.Document, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, err := info.UpdatedObject(ctx, s.objects[name])
	if err == nil {
		s.objects[name] = obj
		s.log = append(s.log, "update "+name)
	}
	return obj, false, err
}

func (s *shelf) Delete(_ context.Context, name string, _ rest.ValidateObjectFunc, _ *metav1.DeleteOptions) (*document.Document, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.objects[name]
	delete(s.objects, name)
	s.log = append(s.log, "delete "+name)
	return obj, true, nil
}

func TestReconcile(t *testing.T) {
	s := &shelf{objects: map[string]*document.Document{
		"b": parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"b"},"roleRef":{"name":"old"}}`),
		"c": parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"c"},"roleRef":{"name":"r"}}`),
		"d": parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"d"},"roleRef":{"name":"r"}}`),
	}}
	config := Config{
		Objects: []*document.Document{
			parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"a"},"roleRef":{"name":"r"}}`),
			parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"b"},"roleRef":{"name":"r"}}`),
			parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"c"},"roleRef":{"name":"r"},"subjects":[{"kind":"User","name":"u"}]}`),
			parse(t, `{"kind":"ClusterRoleBinding","metadata":{"name":"d"},"roleRef":{"name":"r"}}`),
		},
		Storage:  func(string) Storage { return s },
		Has:      func(_, _, name string) bool { return name == "b" || name == "e" }, // c and d came a moment ago
		Parallel: 1,
		Logger:   slog.New(slog.DiscardHandler),
	}
	if err := Reconcile(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	slices.Sort(s.log)
	if got, want := strings.Join(s.log, ", "), "create a, create b, delete b, update c"; got != want {
		t.Errorf("did %s, want %s", got, want)
	}
	s.log = nil
	if err := Reconcile(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if len(s.log) > 0 {
		t.Errorf("a second time did %v", s.log)
	}
	config.Storage = func(string) Storage { return nil }
	if err := Reconcile(t.Context(), config); err == nil {
		t.Error("no error without storage")
	}
}
