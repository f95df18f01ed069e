package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/audit"
)

// write puts a file into the directory of a test.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func policyFile(t *testing.T, rules string) string {
	t.Helper()
	return write(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n"+rules)
}

// TestOpen: a server does not start with a policy that is none, or a log that cannot be written; and it says so where an
// operator may think that something is audited.
func TestOpen(t *testing.T) {
	good := policyFile(t, "- level: Metadata\n")
	log := audit.LogConfig{Path: filepath.Join(t.TempDir(), "new", "audit.log")}
	file := write(t, "file", "")
	tests := []struct {
		name   string
		config audit.Config
		want   string // in the error
		told   string // in the log
		nil    bool
	}{
		{name: "nothing", nil: true},
		{name: "a log", config: audit.Config{PolicyFile: good, Log: log}},
		{name: "no policy", config: audit.Config{Log: log}, nil: true, told: "nothing is audited"},
		{name: "nowhere to write to", config: audit.Config{PolicyFile: good}, nil: true, told: "nothing is audited"},
		{name: "a policy that is not there", config: audit.Config{PolicyFile: file + ".none", Log: log}, want: "--audit-policy-file: failed to read file path"},
		{name: "a policy that is none, and nowhere to write to", config: audit.Config{PolicyFile: file}, want: "--audit-policy-file"},
		{name: "another kind", config: audit.Config{PolicyFile: write(t, "p", "apiVersion: v1\nkind: ConfigMap\n"), Log: log}, want: `--audit-policy-file: failed decoding: no kind "ConfigMap"`},
		{name: "an unknown level", config: audit.Config{PolicyFile: policyFile(t, "- level: Everything\n"), Log: log}, want: `rules[0].level: Unsupported value: "Everything"`},
		{name: "no rules", config: audit.Config{PolicyFile: policyFile(t, "  []\n"), Log: log}, want: "0 rules"},
		{name: "a directory below a file", config: audit.Config{PolicyFile: good, Log: audit.LogConfig{Path: filepath.Join(file, "audit.log")}}, want: "--audit-log-path: mkdir"},
		{name: "a directory", config: audit.Config{PolicyFile: good, Log: audit.LogConfig{Path: t.TempDir()}}, want: "--audit-log-path: open"},
		{name: "a webhook that is not there", config: audit.Config{PolicyFile: good, Log: log, Webhook: audit.WebhookConfig{ConfigFile: file + ".none"}}, want: "--audit-webhook-config-file"},
		{name: "a wrong flag", config: audit.Config{PolicyFile: good, Log: audit.LogConfig{Path: log.Path, Format: "text"}}, want: "--audit-log-format"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var told bytes.Buffer
			a, err := audit.Open(tc.config, slog.New(slog.NewTextHandler(&told, nil)))
			switch {
			case (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want):
				t.Errorf("got %v, want %q", err, tc.want)
			case (a == nil) != (tc.nil || tc.want != ""):
				t.Errorf("got %v", a)
			case !strings.Contains(told.String(), tc.told) || tc.told == "" && told.Len() > 0:
				t.Errorf("the log says %q, want %q", told.String(), tc.told)
			}
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// request is a request for a ConfigMap that has an audit context.
func request(t *testing.T, method string) (*http.Request, authorizer.Attributes) {
	t.Helper()
	r := httptest.NewRequestWithContext(upstream.WithAuditContext(t.Context()), method, "/api/v1/namespaces/shop/configmaps/a", http.NoBody)
	upstream.WithAuditID(r.Context(), "id")
	return r, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: strings.ToLower(method), Namespace: "shop",
		Resource: "configmaps", APIVersion: "v1", Name: "a", ResourceRequest: true}
}

func open(t *testing.T, config audit.Config) *audit.Audit {
	t.Helper()
	a, err := audit.Open(config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.WithoutCancel(t.Context())) })
	return a
}

func parse(t *testing.T, text string) *document.Document {
	t.Helper()
	doc, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

const withFields = `{"apiVersion":"v1","kind":"ConfigMap","data":{"a<b":"c"},"metadata":{"managedFields":[{"manager":"m"}],"name":"a","namespace":"shop"}}`

// TestObjects: the objects of an event, by the level and the policy's omitManagedFields.
func TestObjects(t *testing.T) {
	const without = `{"apiVersion":"v1","data":{"a<b":"c"},"kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}`
	list := `{"kind":"ConfigMapList","items":[` + withFields + `,` + withFields + `],"metadata":{"continue":"1"}}`
	table := `{"kind":"Table","rows":[{"row":["a"],"object":` + withFields + `},{"row":["b"]}]}`
	tests := []struct {
		name, rule, answer string
		sent, answered     string
	}{
		{name: "metadata", rule: "{level: Metadata}", answer: withFields},
		{name: "request", rule: "{level: Request}", answer: withFields, sent: withFields},
		{name: "both", rule: "{level: RequestResponse}", answer: withFields, sent: withFields, answered: withFields},
		{name: "without managedFields", rule: "{level: RequestResponse, omitManagedFields: true}", answer: withFields, sent: without, answered: without},
		{name: "a list without", rule: "{level: RequestResponse, omitManagedFields: true}", answer: list, sent: without,
			answered: `{"kind":"ConfigMapList","items":[` + without + `,` + without + `],"metadata":{"continue":"1"}}`},
		{name: "a table without", rule: "{level: RequestResponse, omitManagedFields: true}", answer: table, sent: without,
			answered: `{"kind":"Table","rows":[{"row":["a"],"object":` + without + `},{"row":["b"]}]}`},
		{name: "no object without", rule: "{level: RequestResponse, omitManagedFields: true}", answer: `{"kind":"List","items":null,"metadata":1}`, sent: without,
			answered: `{"kind":"List","items":null,"metadata":1}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.log")
			a := open(t, audit.Config{PolicyFile: policyFile(t, "- "+tc.rule+"\n"), Log: audit.LogConfig{Path: log}})
			r, attributes := request(t, http.MethodPut)
			ctx, event := a.Begin(r, attributes)
			if event == nil || audit.From(ctx) != event || !event.Received(ctx) {
				t.Fatalf("event %v", event)
			}
			event.Object(ctx, parse(t, withFields), schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "")
			event.Answer(ctx, [][]byte{[]byte(tc.answer[:10]), []byte(tc.answer[10:])})
			event.Started(ctx, http.StatusOK, false)
			event.Complete(ctx, false)
			events := readEvents(t, log)["id"]
			if len(events) != 2 {
				t.Fatalf("events %v", events)
			}
			for field, want := range map[string]string{"requestObject": tc.sent, "responseObject": tc.answered} {
				got, has := events[1][field]
				if raw, err := json.Marshal(got); err != nil || has != (want != "") || want != "" && !parse(t, string(raw)).Equal(parse(t, want)) {
					t.Errorf("%s is %s, want %s", field, raw, want)
				}
			}
		})
	}
}

// TestSecretStatus: an answer about a Secret may quote it. Where the level is to keep its content out of the log, neither
// the message nor the causes are recorded; the client's answer stays as it is.
func TestSecretStatus(t *testing.T) {
	tests := []struct {
		name, level, group, resource string
		want                         bool // that the texts are recorded
	}{
		{name: "metadata", level: "Metadata", resource: "secrets"},
		{name: "request", level: "Request", resource: "secrets", want: true},
		{name: "both", level: "RequestResponse", resource: "secrets", want: true},
		{name: "another resource", level: "Metadata", resource: "configmaps", want: true},
		{name: "another group", level: "Metadata", resource: "secrets", group: "example.com", want: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.log")
			a := open(t, audit.Config{PolicyFile: policyFile(t, "- {level: "+tc.level+", omitStages: [RequestReceived]}\n"), Log: audit.LogConfig{Path: log}})
			r, _ := request(t, http.MethodPatch)
			ctx, event := a.Begin(r, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "patch",
				APIGroup: tc.group, APIVersion: "v1", Resource: tc.resource, Namespace: "shop", Name: "a", ResourceRequest: true})
			status := &metav1.Status{Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid, Message: `"hunter2" is invalid`,
				Details: &metav1.StatusDetails{Name: "a", Kind: "Secret", Causes: []metav1.StatusCause{
					{Type: metav1.CauseTypeFieldValueInvalid, Field: `data["hunter2"]`, Message: `Invalid value: "hunter2"`}}}}
			sent := status.DeepCopy()
			event.Status(status)
			event.Complete(ctx, false)
			if !reflect.DeepEqual(status, sent) {
				t.Errorf("the client's answer is now %v", status)
			}
			events := readEvents(t, log)["id"]
			if len(events) != 1 {
				t.Fatalf("events %v", events)
			}
			raw, err := json.Marshal(events[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(raw, []byte("hunter2")); got != tc.want {
				t.Errorf("the event: %s", raw)
			}
			want := `{"code":422,"details":{"causes":[{"reason":"FieldValueInvalid"}],"kind":"Secret","name":"a"},` +
				`"message":"not recorded: it may quote the Secret","metadata":{},"reason":"Invalid","status":"Failure"}`
			if raw, err = json.Marshal(events[0]["responseStatus"]); err != nil || !tc.want && string(raw) != want {
				t.Errorf("the status is %s, want %s", raw, want)
			}
		})
	}
}

// TestLargeAnswer: an answer that is larger than any that is recorded is not copied, and the event says so.
func TestLargeAnswer(t *testing.T) {
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	tests := []struct {
		name   string
		config audit.LogConfig
		chunks int
		want   bool
	}{
		{name: "nine MiB", chunks: 9, want: true},
		{name: "eleven MiB", chunks: 11},
		{name: "truncated", chunks: 1, config: audit.LogConfig{Delivery: audit.Delivery{TruncateEnabled: true}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.config.Path = filepath.Join(t.TempDir(), "audit.log")
			a := open(t, audit.Config{PolicyFile: policyFile(t, "- {level: RequestResponse, omitStages: [RequestReceived]}\n"), Log: tc.config})
			r, attributes := request(t, http.MethodGet)
			ctx, event := a.Begin(r, attributes)
			chunks := [][]byte{[]byte(`{"a":1`)}
			for range tc.chunks {
				chunks = append(chunks, chunk)
			}
			event.Answer(ctx, append(chunks, []byte("}")))
			event.Complete(ctx, false)
			events := readEvents(t, tc.config.Path)["id"]
			if len(events) != 1 {
				t.Fatalf("events %v", events)
			}
			annotations, _ := events[0]["annotations"].(map[string]any)
			if (events[0]["responseObject"] != nil) != tc.want || (annotations["audit.k8s.io/truncated"] == "true") == tc.want {
				t.Errorf("event %v", events[0])
			}
		})
	}
}

// TestStages: those of a request that panics, of one that answers nothing, and of one that the policy leaves out.
func TestStages(t *testing.T) {
	tests := []struct {
		name, rule string
		end        func(ctx context.Context, event *audit.Request)
		want       string
		code       float64
	}{
		{"a panic", "{level: Metadata}", func(ctx context.Context, event *audit.Request) { event.Panicked(ctx, "cause") }, "RequestReceived Panic", 500},
		{"nothing", "{level: Metadata}", func(ctx context.Context, event *audit.Request) { event.Complete(ctx, false) }, "RequestReceived ResponseComplete", 200},
		{"a watch of nothing", "{level: Metadata}", func(ctx context.Context, event *audit.Request) { event.Complete(ctx, true) }, "RequestReceived ResponseStarted ResponseComplete", 200},
		{"a watch", "{level: Metadata, omitStages: [ResponseComplete]}", func(ctx context.Context, event *audit.Request) {
			event.Started(ctx, 200, true)
			event.Complete(ctx, true)
		}, "RequestReceived ResponseStarted", 200},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.log")
			a := open(t, audit.Config{PolicyFile: policyFile(t, "- "+tc.rule+"\n"), Log: audit.LogConfig{Path: log}})
			r, attributes := request(t, http.MethodGet)
			ctx, event := a.Begin(r, attributes)
			if !event.Received(ctx) {
				t.Fatal("not received")
			}
			tc.end(ctx, event)
			var stages []string
			var code any
			for _, e := range readEvents(t, log)["id"] {
				stages = append(stages, e["stage"].(string))
				status, _ := e["responseStatus"].(map[string]any)
				code = status["code"]
			}
			if got := strings.Join(stages, " "); got != tc.want || code != tc.code {
				t.Errorf("stages %s, code %v", got, code)
			}
		})
	}
}

// TestLevelNone: a request that is not audited has no event, and no annotation of it is kept.
func TestLevelNone(t *testing.T) {
	a := open(t, audit.Config{PolicyFile: policyFile(t, "- {level: None}\n"), Log: audit.LogConfig{Path: filepath.Join(t.TempDir(), "audit.log")}})
	r, attributes := request(t, http.MethodGet)
	ctx, event := a.Begin(r, attributes)
	upstream.AddAuditAnnotation(ctx, "key", "value")
	if event != nil || audit.From(ctx) != nil || len(upstream.AuditContextFrom(ctx).GetEventAnnotations()) > 0 {
		t.Errorf("event %v", event)
	}
	var none *audit.Audit
	r, attributes = request(t, http.MethodGet)
	if _, event = none.Begin(r, attributes); event != nil {
		t.Errorf("event %v", event)
	}
	event.Object(ctx, nil, schema.GroupVersionResource{}, "")
	event.Patch(nil)
	event.Status(&metav1.Status{})
	event.Answer(ctx, nil)
	audit.Disable(r.Context())
	if upstream.AuditContextFrom(r.Context()).Enabled() {
		t.Error("annotations are kept")
	}
}

// TestOffAllocatesNothing: what is called for each request costs no memory where nothing is audited.
func TestOffAllocatesNothing(t *testing.T) {
	r, _ := request(t, http.MethodGet)
	ctx := r.Context()
	audit.Disable(ctx)
	chunks := [][]byte{[]byte("{}")}
	status := &metav1.Status{}
	n := testing.AllocsPerRun(100, func() {
		upstream.AddAuditAnnotations(ctx, "authorization.k8s.io/decision", "allow", "authorization.k8s.io/reason", "")
		event := audit.From(ctx)
		event.Answer(ctx, chunks)
		event.Status(status)
		event.Object(ctx, nil, schema.GroupVersionResource{}, "")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
