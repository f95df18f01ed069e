package recording

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/extension/policy"
)

// said are policies that say what a test wants.
type said struct {
	admit, validate func(ctx context.Context, a *admission.Attributes) error
}

func (said) Handles(admission.Operation) bool { return true }

func (s said) Admit(ctx context.Context, a *admission.Attributes) error {
	if s.admit == nil {
		return nil
	}
	return s.admit(ctx, a)
}

func (s said) Validate(ctx context.Context, a *admission.Attributes) error {
	if s.validate == nil {
		return nil
	}
	return s.validate(ctx, a)
}

// namespaces has one of every name.
type namespaces struct{}

func (namespaces) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	return document.FromValue(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
}

// refused has none that may be asked for.
type refused struct{ t *testing.T }

func (r refused) Get(context.Context, string, *metav1.GetOptions) (*document.Document, error) {
	r.t.Error("a namespace is read")
	return nil, errors.New("refused")
}

// late has no answer before its context ends.
type late struct{}

func (late) Get(ctx context.Context, _ string, _ *metav1.GetOptions) (*document.Document, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func doc(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func config(t testing.TB, by said) Config {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return Config{File: filepath.Join(t.TempDir(), "requests.log"), Namespaces: namespaces{}, Policies: by, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)}
}

// recorded runs requests against a Recorder and returns what is in its file.
func recorded(t *testing.T, cfg Config, requests func(x *Recorder)) (records []*Record, text string) {
	t.Helper()
	x, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { x.Run(ctx) })
	requests(x)
	stop()
	running.Wait()
	raw, err := os.ReadFile(cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	reader := NewReader(strings.NewReader(string(raw)))
	for {
		r, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return records, string(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
}

func asked(t testing.TB, resource, kind, uid, object string) *admission.Attributes {
	return &admission.Attributes{Operation: admission.Create, UID: uid, Kind: schema.GroupVersionKind{Version: "v1", Kind: kind},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: resource}, Namespace: "default", Name: "a", Object: doc(t, object),
		User: &user.DefaultInfo{Name: "eve", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}}
}

func judge(ctx context.Context, outcome, message string, params ...*document.Document) {
	o := policy.ObserverFrom(ctx)
	p := &policy.Policy{Kind: "ValidatingAdmissionPolicy", Name: "p", ParamKind: &schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	if len(params) > 0 {
		p.ParamKind.Kind = params[0].Get("kind").String()
		o.Bound(p, &policy.Binding{Name: "b"}, params)
	}
	o.Judged(policy.Judgement{Policy: p, Binding: &policy.Binding{Name: "b"}, Outcome: outcome, Message: message})
}

func TestRecorderWrites(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"}}`
	cfg := config(t, said{
		admit: func(ctx context.Context, a *admission.Attributes) error {
			if a.UID == "changed" {
				judge(ctx, policy.OutcomeMutate, "")
				a.Object = doc(t, strings.Replace(pod, `"name":"a"`, `"labels":{"x":"y"},"name":"a"`, 1))
			}
			return nil
		},
		validate: func(ctx context.Context, a *admission.Attributes) error {
			judge(ctx, policy.OutcomeDeny, "no pods", doc(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"limits"},"data":{"n":"1"}}`))
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no pods"))
		},
	})
	records, _ := recorded(t, cfg, func(x *Recorder) {
		a, ctx := asked(t, "pods", "Pod", "changed", pod), WithRequest(t.Context())
		if err := x.Admit(ctx, a); err != nil {
			t.Fatal(err)
		}
		if err := x.Validate(ctx, a); !apierrors.IsForbidden(err) {
			t.Fatalf("the verdict of the policies is %v", err)
		}
		_ = x.Validate(t.Context(), asked(t, "leases", "Lease", "unwatched", pod))
		// Another request, whose client chose the same id.
		_ = x.Validate(WithRequest(t.Context()), asked(t, "pods", "Pod", "changed", pod))
	})
	if len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	mutate, validate := records[0], records[1]
	if mutate.Weir.Phase != Mutate || string(mutate.Request.Object) != pod || !strings.Contains(string(mutate.Weir.Patched), `"x":"y"`) || !mutate.Response.Allowed {
		t.Errorf("the phase Mutate is %+v", mutate)
	}
	if validate.Weir.Phase != Validate || !validate.Weir.Mutated || validate.Response.Allowed || validate.Response.Status.Code != 403 ||
		!strings.Contains(string(validate.Request.Object), `"x":"y"`) || validate.Request.UserInfo.Username != "eve" || validate.Request.UserInfo.Extra["k"][0] != "v" {
		t.Errorf("the phase Validate is %+v", validate)
	}
	if v := validate.Weir.Verdicts; len(v) != 1 || v[0] != (Verdict{Kind: "ValidatingAdmissionPolicy", Policy: "p", Binding: "b", Outcome: "deny", Message: "no pods"}) {
		t.Errorf("verdicts %+v", v)
	}
	if p := validate.Weir.Params; len(p) != 1 || p[0].Policy != "p" || p[0].Binding != "b" || !strings.Contains(string(p[0].Object), `"n":"1"`) {
		t.Errorf("params %+v", p)
	}
	if !strings.Contains(string(validate.Weir.Namespace), `"default"`) {
		t.Errorf("namespace %s", validate.Weir.Namespace)
	}
	if records[2].Weir.Mutated || records[3].Weir.Mutated {
		t.Error("a request that no policy changed is said to be changed")
	}
	if n := testutil.ToFloat64(cfg.Metrics.written); n != 4 {
		t.Errorf("%v are counted", n)
	}
	info, err := os.Stat(cfg.File)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestRecorderRedacts: nothing of a secret is written, whatever it comes by.
func TestRecorderRedacts(t *testing.T) {
	secret := `{"apiVersion":"v1","data":{"p":"aHVudGVyMg=="},"kind":"Secret","metadata":{"annotations":{"last":"hunter2"},"name":"a","namespace":"default"}}`
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`
	tests := []struct {
		name    string
		redact  []string
		request func() *admission.Attributes
		params  []*document.Document
		// namespace: the policy reads it.
		namespace, redacted bool
	}{
		{name: "a secret", request: func() *admission.Attributes { return asked(t, "secrets", "Secret", "1", secret) }, redacted: true},
		{name: "a secret that is deleted", request: func() *admission.Attributes {
			a := asked(t, "secrets", "Secret", "1", secret)
			a.Operation, a.Object, a.OldObject = admission.Delete, nil, a.Object
			return a
		}, redacted: true},
		{name: "a token", request: func() *admission.Attributes {
			a := asked(t, "serviceaccounts", "TokenRequest", "1", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"hunter2"}}`)
			a.Kind.Group, a.Subresource = "authentication.k8s.io", "token"
			return a
		}, redacted: true},
		{name: "what the flag names", redact: []string{"configmaps"}, request: func() *admission.Attributes {
			return asked(t, "configmaps", "ConfigMap", "1", `{"apiVersion":"v1","data":{"a":"hunter2"},"kind":"ConfigMap","metadata":{"name":"a"}}`)
		}, redacted: true},
		{name: "a secret among the params", request: func() *admission.Attributes { return asked(t, "pods", "Pod", "1", pod) }, params: []*document.Document{doc(t, secret)}, redacted: true},
		{name: "the namespace that a policy read", redact: []string{"namespaces"}, request: func() *admission.Attributes { return asked(t, "pods", "Pod", "1", pod) }, namespace: true, redacted: true},
		{name: "a namespace that none read", redact: []string{"namespaces"}, request: func() *admission.Attributes { return asked(t, "pods", "Pod", "1", pod) }},
		{name: "a pod", request: func() *admission.Attributes { return asked(t, "pods", "Pod", "1", pod) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			message := "the password is hunter2"
			if !tc.redacted {
				message = "no"
			}
			cfg := config(t, said{validate: func(ctx context.Context, _ *admission.Attributes) error {
				if tc.namespace {
					policy.ObserverFrom(ctx).Namespace(doc(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"a":"hunter2"},"name":"default"}}`))
				}
				judge(ctx, policy.OutcomeDeny, message, tc.params...)
				return apierrors.NewBadRequest(message)
			}})
			if cfg.Redact = tc.redact; slices.Contains(tc.redact, "namespaces") {
				cfg.Namespaces = refused{t}
			}
			records, text := recorded(t, cfg, func(x *Recorder) { _ = x.Validate(t.Context(), tc.request()) })
			if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") {
				t.Errorf("the secret is in the file: %s", text)
			}
			if len(records) != 1 || records[0].Weir.Redacted != tc.redacted || records[0].Request.Name != "a" || records[0].Weir.Verdicts[0].Outcome != "deny" {
				t.Errorf("got %s", text)
			}
		})
	}
}

// TestRecorderRedactsCopies: what a mutation has copied from a secret param into the object is not written either.
func TestRecorderRedactsCopies(t *testing.T) {
	secret := doc(t, `{"apiVersion":"v1","data":{"p":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"s","namespace":"default"}}`)
	cfg := config(t, said{
		admit: func(ctx context.Context, a *admission.Attributes) error {
			judge(ctx, policy.OutcomeMutate, "", secret)
			a.Object = doc(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"p":"aHVudGVyMg=="},"name":"a"}}`)
			return nil
		},
		validate: func(ctx context.Context, _ *admission.Attributes) error {
			judge(ctx, policy.OutcomeAllow, "")
			return nil
		},
	})
	records, text := recorded(t, cfg, func(x *Recorder) {
		ctx, a := WithRequest(t.Context()), asked(t, "pods", "Pod", "1", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`)
		_ = x.Admit(ctx, a)
		_ = x.Validate(ctx, a)
	})
	if len(records) != 2 || strings.Contains(text, "aHVudGVyMg") || !records[0].Weir.Redacted || !records[1].Weir.Redacted {
		t.Errorf("got %s", text)
	}
}

// TestRecorderLeavesOut: what no policy is asked about, and what the flag names.
func TestRecorderLeavesOut(t *testing.T) {
	cfg := config(t, said{})
	cfg.Exclude = []string{"pods"}
	records, _ := recorded(t, cfg, func(x *Recorder) {
		_ = x.Validate(t.Context(), asked(t, "pods", "Pod", "1", `{}`))
		review := asked(t, "tokenreviews", "TokenReview", "1", `{"spec":{"token":"t"}}`)
		review.Resource.Group = "authentication.k8s.io"
		_ = x.Validate(t.Context(), review)
	})
	if len(records) != 0 {
		t.Errorf("%d records", len(records))
	}
}

// TestRecorderNeverWaits: without anybody who writes, requests go on, and what is dropped is counted.
func TestRecorderNeverWaits(t *testing.T) {
	cfg := config(t, said{})
	x, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	big := asked(t, "pods", "Pod", "1", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	for range 100 {
		if err := x.Validate(t.Context(), big); err != nil {
			t.Fatal(err)
		}
	}
	if n := testutil.ToFloat64(cfg.Metrics.dropped.WithLabelValues(droppedQueue)); n < 36 || x.queued.Load() > maxQueuedBytes {
		t.Errorf("%v of 100 MiB are dropped, %d bytes are kept", n, x.queued.Load())
	}
	before := testutil.ToFloat64(cfg.Metrics.dropped.WithLabelValues(droppedQueue))
	for len(x.queue) > 0 { // so that it is their number that counts, and not their size
		x.queued.Add(-(<-x.queue).size)
	}
	small := asked(t, "pods", "Pod", "1", `{}`)
	for range maxQueued + 7 {
		_ = x.Validate(t.Context(), small)
	}
	if n := testutil.ToFloat64(cfg.Metrics.dropped.WithLabelValues(droppedQueue)) - before; n != 7 || len(x.queue) != maxQueued {
		t.Errorf("%v are dropped, %d are kept", n, len(x.queue))
	}
}

// TestRecorderEnds: what cannot be written in time when a server ends is dropped and counted.
func TestRecorderEnds(t *testing.T) {
	cfg := config(t, said{})
	cfg.Namespaces = late{}
	x, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x.drainTimeout = time.Millisecond
	for range 10 {
		_ = x.Validate(t.Context(), asked(t, "pods", "Pod", "1", `{}`))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	x.Run(ended)
	written, dropped := testutil.ToFloat64(cfg.Metrics.written), testutil.ToFloat64(cfg.Metrics.dropped.WithLabelValues(droppedEnd))
	if written > 1 || written+dropped != 10 || x.queued.Load() != 0 {
		t.Errorf("%v are written, %v are dropped, %d bytes are left", written, dropped, x.queued.Load())
	}
}

// TestRecorderMarks: each object that a request deletes, and each try to write one, has its own phases.
func TestRecorderMarks(t *testing.T) {
	deleted := func(name string) *admission.Attributes {
		return &admission.Attributes{Operation: admission.Delete, Namespace: "default", Name: name}
	}
	created, named := &admission.Attributes{Operation: admission.Create}, &admission.Attributes{Operation: admission.Create, Name: "a-x7k2p"}
	m := marksFrom(WithRequest(t.Context()))
	recorded := mark{recorded: true}
	m.set(deleted("a"), recorded)
	m.set(created, recorded)
	if m.get(deleted("a")) != recorded || m.get(deleted("b")) != (mark{}) || m.get(named) != recorded {
		t.Errorf("marks %v", m.names)
	}
	if m.set(created, mark{}); m.get(named) != (mark{}) || m.get(deleted("a")) != recorded {
		t.Errorf("marks %v after another try", m.names)
	}
	none := marksFrom(t.Context())
	if none.set(created, recorded); none.get(created) != (mark{}) {
		t.Error("there is a mark without a request")
	}
}

// TestRecorderKeepsTheNamespace: it is written as the policies read it, whatever became of it since.
func TestRecorderKeepsTheNamespace(t *testing.T) {
	cfg := config(t, said{validate: func(ctx context.Context, _ *admission.Attributes) error {
		policy.ObserverFrom(ctx).Namespace(doc(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"then":"1"},"name":"default"}}`))
		return nil
	}})
	records, text := recorded(t, cfg, func(x *Recorder) { _ = x.Validate(t.Context(), asked(t, "pods", "Pod", "1", `{}`)) })
	if len(records) != 1 || !strings.Contains(string(records[0].Weir.Namespace), `"then":"1"`) {
		t.Errorf("got %s", text)
	}
}

func TestRecorderIsUsedConcurrently(t *testing.T) {
	cfg := config(t, said{})
	records, _ := recorded(t, cfg, func(x *Recorder) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					_ = x.Validate(t.Context(), asked(t, "pods", "Pod", "1", `{"kind":"Pod"}`))
				}
			})
		}
		all.Wait()
	})
	if len(records)+int(testutil.ToFloat64(cfg.Metrics.dropped.WithLabelValues(droppedQueue))) != 800 {
		t.Errorf("%d records", len(records))
	}
}

func TestConfigCheck(t *testing.T) {
	tests := []struct {
		name, want string
		config     Config
	}{
		{"good", "", Config{File: "a", Redact: []string{"a.b"}}},
		{"no file", "--record: a file is missing", Config{}},
		{"size", "--record-max-size: -1 is less than 0", Config{File: "a", MaxBytes: -1}},
		{"resource", `"" is no resource`, Config{File: "a", Exclude: []string{""}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.config.Check()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRecorderWithoutParams: a policy that has no params is bound to none.
func TestRecorderWithoutParams(t *testing.T) {
	cfg := config(t, said{validate: func(ctx context.Context, _ *admission.Attributes) error {
		policy.ObserverFrom(ctx).Bound(&policy.Policy{}, &policy.Binding{}, []*document.Document{nil})
		judge(ctx, policy.OutcomeAllow, "")
		return nil
	}})
	records, text := recorded(t, cfg, func(x *Recorder) { _ = x.Validate(t.Context(), asked(t, "pods", "Pod", "1", `{}`)) })
	if len(records) != 1 || len(records[0].Weir.Params) != 0 {
		t.Errorf("got %s", text)
	}
}
