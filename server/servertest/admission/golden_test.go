package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/servertest"
)

// goldenFile has a kube-apiserver's answers.
var goldenFile = filepath.Join("testdata", "admission.golden")

// TestGolden asks the questions of goldenCases and goldenWrites and compares the answers with those of a kube-apiserver,
// which are kept in testdata. Where WEIR_MATRIX_URL names a kube-apiserver, its answers are written there instead; see the
// target admission-golden of the Makefile.
func TestGolden(t *testing.T) {
	server, isPeer := dialPeer(t)
	if !isPeer {
		env := servertest.Start(t, servertest.Options{})
		server = &goldenServer{url: env.URL(), client: env.Client()}
	}
	server.prepare(t)
	var names []string
	got := map[string]string{}
	add := func(name, answer string) {
		if _, twice := got[name]; twice {
			t.Fatalf("case %q is there twice", name)
		}
		names, got[name] = append(names, name), answer
	}
	for i, c := range goldenCases() {
		add(c.name, server.request(t, i, &c))
	}
	for _, w := range goldenWrites() {
		add(w.name, server.write(t, &w))
	}
	if isPeer {
		var out strings.Builder
		for _, name := range names {
			fmt.Fprintf(&out, "%s\n\t%s\n", name, got[name])
		}
		if err := os.MkdirAll(filepath.Dir(goldenFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(goldenFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareGolden(t, names, got)
}

// compareGolden holds answers against upstream's and what is known to deviate.
func compareGolden(t *testing.T, names []string, got map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	want, name := map[string]string{}, ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if answer, ok := strings.CutPrefix(line, "\t"); ok {
			want[name] = answer
		} else {
			name = line
		}
	}
	for _, name := range names {
		upstream, ok := want[name]
		d, deviates := deviations[name]
		switch {
		case !ok:
			t.Errorf("case %q has no golden answer", name)
		case !deviates && got[name] != upstream:
			t.Errorf("%s\n   is %s\n want %s", name, got[name], upstream)
		case deviates && got[name] == upstream:
			t.Errorf("%s does not deviate any more", name)
		case deviates && got[name] != d.ours:
			t.Errorf("%s\n   is %s\n want %s\n where upstream says %s", name, got[name], d.ours, upstream)
		case deviates && d.reason == "":
			t.Errorf("%s deviates without a reason", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("golden case %q is not asked", name)
	}
	for name := range deviations {
		if !slices.Contains(names, name) {
			t.Errorf("deviation %q is of no case", name)
		}
	}
}

// goldenServer is what is asked.
type goldenServer struct {
	url    string
	client *http.Client
}

// dialPeer returns the kube-apiserver that the environment names, false when it names none.
func dialPeer(t *testing.T) (*goldenServer, bool) {
	t.Helper()
	url := os.Getenv("WEIR_MATRIX_URL")
	if url == "" {
		return nil, false
	}
	pem, err := os.ReadFile(os.Getenv("WEIR_MATRIX_CA"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &goldenServer{url: url, client: &http.Client{Transport: bearer{os.Getenv("WEIR_MATRIX_TOKEN"), transport}}}, true
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(req)
}

// reply is what a server says.
type reply struct {
	code     int
	body     []byte
	warnings []string
}

func (s *goldenServer) ask(t *testing.T, method, path string, body object) *reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r := &reply{code: resp.StatusCode, warnings: resp.Header.Values("Warning")}
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *goldenServer) must(t *testing.T, method, path string, body object) {
	t.Helper()
	if r := s.ask(t, method, path, body); r.code >= 300 {
		t.Errorf("%s %s: %d %s\n%v", method, path, r.code, r.body, body)
	}
}

func namespaceOf(i int) string { return fmt.Sprintf("golden-%d", i) }

// prepare makes what all cases need, each in its namespace, and waits until it is in force.
func (s *goldenServer) prepare(t *testing.T) {
	t.Helper()
	cases := goldenCases()
	configMap := func(namespace, name string, data, labels object) {
		s.must(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps", object{"metadata": object{"name": name, "labels": labels}, "data": data})
	}
	configMap("default", "elsewhere", object{"v": "y"}, nil)
	for i := range cases {
		c, namespace := &cases[i], namespaceOf(i)
		s.must(t, http.MethodPost, namespaces, object{"metadata": object{"name": namespace}})
		for name, data := range c.params {
			configMap(namespace, name, data, object{"role": "param"})
		}
		if c.old != nil {
			configMap(namespace, "x", c.old, nil)
		}
		s.policies(t, c, namespace)
	}
	if t.Failed() {
		t.FailNow()
	}
	// What was made before these is seen before them.
	last := goldenCase{validating: merged(merged(checks("params.data.v != 'x'"), kind), nil), validatingBinding: byName("p", "Deny"),
		mutating: apply("Object{data: {'mutated': 'yes'}}")}
	s.must(t, http.MethodPost, namespaces, object{"metadata": object{"name": "golden-last"}})
	configMap("golden-last", "p", object{"v": "x"}, nil)
	s.policies(t, &last, "golden-last")
	for deadline := time.Now().Add(patience); ; {
		denied := s.ask(t, http.MethodPost, "/api/v1/namespaces/golden-last/configmaps?dryRun=All", object{"metadata": object{"name": "x"}}).code == http.StatusUnprocessableEntity
		if denied {
			s.must(t, http.MethodDelete, validatingBindings+"/golden-last", nil)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("policies are not in force")
		}
	}
	for deadline := time.Now().Add(patience); ; {
		r := s.ask(t, http.MethodPost, "/api/v1/namespaces/golden-last/configmaps?dryRun=All", object{"metadata": object{"name": "x"}})
		if r.code == http.StatusCreated && strings.Contains(string(r.body), `"mutated"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("mutating policies are not in force: %d %s", r.code, r.body)
		}
	}
}

// policies makes those of a case.
func (s *goldenServer) policies(t *testing.T, c *goldenCase, name string) {
	t.Helper()
	mine := object{"kubernetes.io/metadata.name": name}
	post := func(path, name string, spec object) {
		constraints, ok := spec["matchConstraints"].(object)
		if !ok {
			constraints, _ = rule(nil)["matchConstraints"].(object)
		}
		constraints = merged(constraints, object{"namespaceSelector": object{"matchLabels": mine}})
		if selector, ok := spec["objectSelector"]; ok {
			constraints["objectSelector"] = selector
		}
		spec = merged(object{"failurePolicy": "Fail"}, spec)
		spec["matchConstraints"] = constraints
		delete(spec, "objectSelector")
		s.must(t, http.MethodPost, path, object{"metadata": object{"name": name}, "spec": spec})
	}
	bind := func(path, name string, spec, more object) {
		s.must(t, http.MethodPost, path, object{"metadata": object{"name": name}, "spec": merged(merged(object{"policyName": name}, spec), more)})
	}
	if c.validating != nil {
		post(validatingPolicies, name, c.validating)
		bind(validatingBindings, name, object{"validationActions": list{"Deny"}}, c.validatingBinding)
	}
	for suffix, spec := range map[string]object{"": c.mutating, "-second": c.second} {
		if spec == nil {
			continue
		}
		post(mutatingPolicies, name+suffix, merged(object{"reinvocationPolicy": "Never"}, spec))
		bind(mutatingBindings, name+suffix, nil, c.mutatingBinding)
	}
}

// request makes that of a case and spells the answer.
func (s *goldenServer) request(t *testing.T, i int, c *goldenCase) string {
	t.Helper()
	namespace, method := namespaceOf(i), c.method
	data := c.data
	if data == nil {
		data = object{"v": "x"}
	}
	if method == "" {
		method = http.MethodPost
	}
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	body := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "x", "labels": c.labels}, "data": data}
	if method != http.MethodPost {
		path += "/x"
	}
	if method == http.MethodDelete {
		body = nil
	}
	r := s.ask(t, method, path+"?dryRun=All", body)
	return strings.ReplaceAll(spelled(t, r, true), namespace, "NAMESPACE")
}

// write writes a policy or binding that may be refused. Of causes their types and fields count: each server has its own
// words.
func (s *goldenServer) write(t *testing.T, w *goldenWrite) string {
	t.Helper()
	r := s.ask(t, http.MethodPost, w.path+"?dryRun=All", object{"metadata": object{"name": "golden"}, "spec": w.spec})
	// What it would do to what is stored is told by this server alone.
	r.warnings = slices.DeleteFunc(r.warnings, func(text string) bool { return strings.HasPrefix(text, `299 - "impact: `) })
	return spelled(t, r, false)
}

var uncertain = regexp.MustCompile(`"(uid|creationTimestamp|resourceVersion)":"[^"]*"`)

// spelled is an answer on one line: code, reason, message, causes and warnings; what was made of an object, or nothing of
// a policy.
func spelled(t *testing.T, r *reply, whole bool) string {
	t.Helper()
	var parts []string
	if r.code < 300 {
		parts = append(parts, fmt.Sprint(r.code))
		var obj struct {
			Kind     string
			Metadata struct{ Labels, Annotations map[string]string }
			Data     map[string]any
		}
		if err := json.Unmarshal(r.body, &obj); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		if whole && obj.Kind == "ConfigMap" {
			for name, value := range map[string]any{"labels": obj.Metadata.Labels, "annotations": obj.Metadata.Annotations, "data": obj.Data} {
				if raw, err := json.Marshal(value); err == nil && string(raw) != "null" {
					parts = append(parts, name+" "+string(raw))
				}
			}
			slices.Sort(parts)
		}
	} else {
		var status metav1.Status
		if err := json.Unmarshal(r.body, &status); err != nil {
			t.Fatalf("%d %s: %v", r.code, r.body, err)
		}
		parts = append(parts, fmt.Sprintf("%d %s", r.code, status.Reason))
		if whole {
			parts[0] += ": " + uncertain.ReplaceAllString(status.Message, "…")
		}
		if status.Details != nil {
			var causes []string
			for _, cause := range status.Details.Causes {
				text := strings.TrimSpace(fmt.Sprintf("%s %s", cause.Type, cause.Field))
				if whole {
					text = strings.TrimSpace(text + " " + cause.Message)
				}
				causes = append(causes, text)
			}
			slices.Sort(causes)
			if len(causes) > 0 {
				parts = append(parts, "causes "+strings.Join(causes, "; "))
			}
		}
	}
	for _, w := range r.warnings {
		parts = append(parts, "warning "+w)
	}
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.Join(parts, " | "))
}
