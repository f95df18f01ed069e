package audit_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/server"
	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/servertest"
)

// A kube-apiserver whose events testdata/upstream.yaml gets. It needs --audit-policy-file testdata/policy.yaml,
// --audit-log-path, --token-auth-file testdata/tokens.csv, --authorization-mode RBAC and an empty etcd.
var (
	peer    = flag.String("peer", "", "address of a kube-apiserver to record")
	peerLog = flag.String("peer-log", "", "its audit log")
	peerCA  = flag.String("peer-ca", "", "its authority")
)

// step is a request, of testdata/steps.yaml.
type step struct {
	Name        string          `json:"name"`
	User        string          `json:"user"`
	Impersonate string          `json:"impersonate"`
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	Type        string          `json:"type"`
	Accept      string          `json:"accept"`
	Body        json.RawMessage `json:"body"`
	Text        string          `json:"text"`
}

// event is one of a log.
type event map[string]any

// target is a server whose audit log is read.
type target struct {
	url, log string
	client   *http.Client
}

// TestTranscript sends the requests of testdata/steps.yaml, and compares the events with those that kube-apiserver 1.37.2
// wrote of them: all fields but times, ids and what deviate explains.
func TestTranscript(t *testing.T) {
	const recorded = "testdata/upstream.yaml"
	if *peer != "" {
		pem, err := os.ReadFile(*peerCA)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		events := play(t, &target{url: *peer, log: *peerLog, client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}})
		text, err := yaml.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(recorded, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]event
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	env := servertest.Start(t, servertest.Options{Config: server.Config{
		TokenAuthFile: "testdata/tokens.csv", DisableAnonymous: false,
		Audit: audit.Config{PolicyFile: "testdata/policy.yaml", Log: audit.LogConfig{Path: log}},
	}})
	got := play(t, &target{url: env.URL(), log: log, client: bare(t, env)})
	if len(want["22 apply of what is no yaml"]) != 1 {
		t.Error("kube-apiserver writes how the apply of no YAML ended: the deviation is over")
	}
	delete(want, "22 apply of what is no yaml")
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Run(name, func(t *testing.T) {
			for _, e := range slices.Concat(want[name], got[name]) {
				deviate(name, e)
			}
			if diff := cmp.Diff(want[name], got[name]); diff != "" {
				t.Errorf("events differ from kube-apiserver's (-upstream +weir):\n%s", diff)
			}
		})
	}
	if len(got) != len(want)+1 {
		t.Errorf("events of %d requests, kube-apiserver has of %d", len(got), len(want)+1)
	}
}

// bare returns a client that trusts the server and is nobody.
func bare(t *testing.T, env *servertest.Environment) *http.Client {
	t.Helper()
	config := env.RESTConfig()
	pool := x509.NewCertPool()
	pem := config.CAData
	if len(pem) == 0 {
		var err error
		if pem, err = os.ReadFile(config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// play sets a server up, sends the steps, and returns the events of each, without what is of the moment.
func play(t *testing.T, on *target) map[string][]event {
	t.Helper()
	text, err := os.ReadFile("testdata/setup.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for object := range strings.SplitSeq(string(text), "\n---\n") {
		on.apply(t, object)
	}
	on.waitForPolicies(t)
	if text, err = os.ReadFile("testdata/steps.yaml"); err != nil {
		t.Fatal(err)
	}
	var steps []step
	if err := yaml.UnmarshalStrict(text, &steps); err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		on.do(t, fmt.Sprintf("%02d %s", i, s.Name), &s)
	}
	last := fmt.Sprintf("%02d %s", len(steps)-1, steps[len(steps)-1].Name)
	var events map[string][]event
	for deadline := time.Now().Add(30 * time.Second); ; {
		events = readEvents(t, on.log)
		if n := len(events[last]); n > 0 && events[last][n-1]["stage"] == "ResponseComplete" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has no end of %q", last)
		}
	}
	for name := range events {
		if !strings.Contains(name, " ") { // of setup
			delete(events, name)
		}
	}
	return events
}

// apply makes an object, as one whom nobody audits.
func (on *target) apply(t *testing.T, object string) {
	t.Helper()
	var meta struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal([]byte(object), &meta); err != nil {
		t.Fatal(err)
	}
	path := "/apis/" + meta.APIVersion
	if meta.APIVersion == "v1" {
		path = "/api/v1"
	}
	if meta.Metadata.Namespace != "" {
		path += "/namespaces/" + meta.Metadata.Namespace
	}
	plural := strings.ToLower(meta.Kind) + "s"
	if cut, ok := strings.CutSuffix(plural, "ys"); ok {
		plural = cut + "ies"
	}
	code, answer := on.do(t, "", &step{User: "setup", Method: http.MethodPost, Path: path + "/" + plural, Type: "application/yaml", Text: object})
	if code != http.StatusCreated {
		t.Fatalf("%s %s: %d %s", meta.Kind, meta.Metadata.Name, code, answer)
	}
}

// waitForPolicies waits until the policies and the custom resource are in force, which takes kube-apiserver a moment.
func (on *target) waitForPolicies(t *testing.T) {
	t.Helper()
	const pod = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"bad"},"spec":{"replicas":10,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		refused, text := on.do(t, "", &step{User: "setup", Method: http.MethodPost, Path: "/apis/apps/v1/namespaces/shop/deployments?dryRun=All", Text: pod})
		listed, _ := on.do(t, "", &step{User: "setup", Method: http.MethodGet, Path: "/apis/shop.example.com/v1/namespaces/shop/shelves"})
		if refused == http.StatusUnprocessableEntity && strings.Contains(text, "nine are too many") && listed == http.StatusOK {
			return
		}
	}
	t.Fatal("the policies are not in force")
}

// do sends a request. It returns the code, the warnings and the body.
func (on *target) do(t *testing.T, id string, s *step) (int, string) {
	t.Helper()
	var body io.Reader = http.NoBody
	if len(s.Body) > 0 {
		body = bytes.NewReader(s.Body)
	}
	if s.Text != "" {
		body = strings.NewReader(s.Text)
	}
	request, err := http.NewRequestWithContext(t.Context(), s.Method, on.url+s.Path, body)
	if err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{
		"Content-Type": s.Type, "Accept": s.Accept, "Audit-Id": id, "User-Agent": "steps", "Impersonate-User": s.Impersonate,
	} {
		if value != "" {
			request.Header.Set(header, value)
		}
	}
	switch s.User {
	case "-":
	case "":
		request.Header.Set("Authorization", "Bearer alice")
	default:
		request.Header.Set("Authorization", "Bearer "+s.User)
	}
	response, err := on.client.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	if got := response.Header.Get("Audit-Id"); id != "" && got != id {
		t.Errorf("%s: the answer has the Audit-Id %q, want %q", s.Name, got, id)
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return response.StatusCode, strings.Join(response.Header["Warning"], "\n") + string(raw)
}

// readEvents returns the whole events of a log by their ids.
func readEvents(t *testing.T, log string) map[string][]event {
	t.Helper()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	events := map[string][]event{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("the log has a line that is no event: %v\n%s", err, lines.Bytes())
		}
		id, _ := e["auditID"].(string)
		events[id] = append(events[id], scrub(map[string]any(e)).(map[string]any))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

// scrub puts the same in the place of what is of the moment.
func scrub(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			switch name {
			case "columnDefinitions", "cells", "auditID", "requestReceivedTimestamp", "stageTimestamp", "creationTimestamp", "time", "resourceVersion", "sourceIPs":
				if member != nil {
					v[name] = "(scrubbed)"
				}
			case "validation.policy.admission.k8s.io/validation_failure":
				v[name] = sorted(member)
			default:
				v[name] = scrub(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = scrub(v[i])
		}
	case string:
		return uuids.ReplaceAllString(v, "(uid)")
	}
	return value
}

var uuids = regexp.MustCompile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

// sorted sorts the failures of an annotation by the policy, whose order is chance in kube-apiserver and the name here.
func sorted(annotation any) any {
	text, _ := annotation.(string)
	var failures []any
	if json.Unmarshal([]byte(text), &failures) != nil {
		return "no list: " + text
	}
	policy := func(failure any) string {
		f, _ := failure.(map[string]any)
		name, _ := f["policy"].(string)
		return name
	}
	slices.SortStableFunc(failures, func(a, b any) int { return strings.Compare(policy(a), policy(b)) })
	return failures
}
