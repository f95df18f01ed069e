package semantics_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/servertest"
)

// patience bounds what a step waits for.
const patience = 2 * time.Minute

// run is one scenario under way.
type run struct {
	env     *servertest.Environment
	vars    map[string]string
	watches map[string]*watcher
}

func newRun(env *servertest.Environment, id string) *run {
	ns, group := id, id+".weir.test"
	return &run{env: env, watches: map[string]*watcher{}, vars: map[string]string{
		"ns": ns, "group": group, "core": "/api/v1/namespaces/" + ns, "apps": "/apis/apps/v1/namespaces/" + ns,
		"crd":    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things." + group,
		"crds":   "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"things": "/apis/" + group + "/v1/namespaces/" + ns + "/things",
		"v2":     "/apis/" + group + "/v2/namespaces/" + ns + "/things",
	}}
}

func (r *run) scenario(t *testing.T, s scenario) {
	t.Helper()
	r.step(t, step{Do: "POST /api/v1/namespaces", Body: json.RawMessage(`{"metadata":{"name":"$ns"}}`), Code: 201})
	if s.CRD != nil {
		body, err := json.Marshal(s.CRD.object(r.vars["group"]))
		if err != nil {
			t.Fatal(err)
		}
		code := s.CRD.Code
		if code == 0 {
			code = http.StatusCreated
		}
		r.step(t, step{Do: "POST $crds", Body: body, Code: code, Message: s.CRD.Message})
	}
	defer func() {
		for _, w := range r.watches {
			w.stop()
		}
	}()
	for i, st := range s.Steps {
		if !t.Run(fmt.Sprintf("%d", i+1), func(t *testing.T) { r.step(t, st) }) {
			t.Logf("step %d: %s", i+1, st.Do)
		}
	}
}

// expand replaces variables, longer names first.
func (r *run) expand(text string) string {
	names := slices.SortedFunc(maps.Keys(r.vars), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		text = strings.ReplaceAll(text, "$"+name, r.vars[name])
	}
	return text
}

func (r *run) step(t *testing.T, s step) {
	t.Helper()
	switch {
	case s.Watch != "":
		r.watches[s.Watch] = r.watch(t, s)
	case s.Event != "":
		e := r.watches[s.Event].next(t)
		if e.Type != s.Type {
			t.Fatalf("event %s, want %s: %s", e.Type, s.Type, e.Object)
		}
		r.check(t, s, e.Object)
	case s.Ends != "":
		r.watches[s.Ends].ends(t)
	default:
		r.request(t, s)
	}
}

// newRequest makes the request of a step.
func (r *run) newRequest(ctx context.Context, t *testing.T, s step) *http.Request {
	t.Helper()
	method, path, _ := strings.Cut(r.expand(s.Do), " ")
	types := map[string]string{
		"apply": "application/apply-patch+yaml", "merge": "application/merge-patch+json",
		"json": "application/json-patch+json", "strategic": "application/strategic-merge-patch+json",
	}
	contentType := types[method]
	if contentType != "" {
		method = http.MethodPatch
	}
	var body string
	if s.Body != nil {
		if json.Unmarshal(s.Body, &body) != nil {
			body = string(s.Body)
		}
		body = r.expand(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.env.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "tester/1.0")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for name, v := range s.Headers {
		req.Header.Set(name, r.expand(v))
	}
	return req
}

func (r *run) request(t *testing.T, s step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	want := s.Code
	if want == 0 {
		want = http.StatusOK
	}
	for {
		resp, err := r.env.Client().Do(r.newRequest(ctx, t, s))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if s.Until && (resp.StatusCode != want || !r.fits(s, body)) {
			if ctx.Err() != nil {
				t.Fatalf("%s: still %d: %s", s.Do, resp.StatusCode, body)
			}
			time.Sleep(5 * time.Millisecond) // a poll: controllers tell nobody when they are done
			continue
		}
		if resp.StatusCode != want {
			t.Fatalf("%s: code %d, want %d: %s", r.expand(s.Do), resp.StatusCode, want, body)
		}
		r.checkWarnings(t, s, resp.Header)
		for name, v := range s.Header {
			if got := resp.Header.Get(name); got != v {
				t.Errorf("header %s is %q, want %q", name, got, v)
			}
		}
		r.check(t, s, body)
		return
	}
}

func (r *run) checkWarnings(t *testing.T, s step, header http.Header) {
	t.Helper()
	got := header.Values("Warning")
	if s.Warnings == nil && !s.Quiet {
		return
	}
	if len(got) != len(s.Warnings) {
		t.Errorf("warnings %q, want %q", got, s.Warnings)
		return
	}
	for i, want := range s.Warnings {
		if text := strings.ReplaceAll(got[i], `\"`, `"`); !strings.Contains(text, r.expand(want)) {
			t.Errorf("warning %q, want %q", text, want)
		}
	}
}

func (r *run) fits(s step, body []byte) bool {
	if s.Has == nil {
		return true
	}
	got, err := decode(body)
	if err != nil {
		return false
	}
	want, err := decode([]byte(r.expand(string(s.Has))))
	return err == nil && contains(got, want, "") == ""
}

// check compares a body with what a step says of it.
func (r *run) check(t *testing.T, s step, body []byte) {
	t.Helper()
	for _, part := range s.Raw {
		if !bytes.Contains(body, []byte(r.expand(part))) {
			t.Errorf("body lacks %q: %s", r.expand(part), body)
		}
	}
	for _, part := range s.Never {
		if bytes.Contains(body, []byte(r.expand(part))) {
			t.Errorf("body has %q: %s", r.expand(part), body)
		}
	}
	if s.Has == nil && s.Lacks == nil && s.Message == nil && s.Causes == nil && s.Save == nil {
		return
	}
	got, err := decode(body)
	if err != nil {
		t.Fatalf("no JSON: %s", body)
	}
	if s.Has != nil {
		want, err := decode([]byte(r.expand(string(s.Has))))
		if err != nil {
			t.Fatal(err)
		}
		if difference := contains(got, want, ""); difference != "" {
			t.Errorf("%s\nin %s", difference, body)
		}
	}
	for _, path := range s.Lacks {
		if v, ok := lookup(got, path); ok {
			t.Errorf("%s is %v", path, v)
		}
	}
	if message, _ := lookup(got, "message"); s.Message != nil {
		for _, part := range s.Message {
			if text, _ := message.(string); !strings.Contains(text, r.expand(part)) {
				t.Errorf("message %q\nlacks %q", text, r.expand(part))
			}
		}
	}
	if s.Causes != nil {
		r.checkCauses(t, s.Causes, body)
	}
	for name, path := range s.Save {
		v, ok := lookup(got, path)
		if !ok {
			t.Fatalf("no %s in %s", path, body)
		}
		text, isString := v.(string)
		if !isString {
			encoded, _ := json.Marshal(v)
			text = string(encoded)
		}
		r.vars[name] = text
	}
}

func (r *run) checkCauses(t *testing.T, want []cause, body []byte) {
	t.Helper()
	var status struct {
		Details struct{ Causes []cause }
	}
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatal(err)
	}
	got := status.Details.Causes
	if len(got) != len(want) {
		t.Errorf("%d causes, want %d: %s", len(got), len(want), body)
		return
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g cause) bool {
			return strings.Contains(g.Field, w.Field) && strings.Contains(g.Reason, w.Reason) && strings.Contains(g.Message, r.expand(w.Message))
		})
		if i < 0 {
			t.Errorf("no cause %+v among %+v", w, got)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
}

func decode(body []byte) (any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return v, d.Decode(&v)
}

// contains returns where got lacks what want has, "" when it has all.
func contains(got, want any, path string) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", path, got)
		}
		for name, v := range want {
			member, ok := object[name]
			if !ok {
				return fmt.Sprintf("%s.%s is missing", path, name)
			}
			if difference := contains(member, v, path+"."+name); difference != "" {
				return difference
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s is %v, want %v", path, got, want)
		}
		for i := range want {
			if difference := contains(list[i], want[i], fmt.Sprintf("%s[%d]", path, i)); difference != "" {
				return difference
			}
		}
		return ""
	default:
		if got != want {
			return fmt.Sprintf("%s is %v (%T), want %v", path, got, got, want)
		}
		return ""
	}
}

// lookup follows members and numbers of elements.
func lookup(v any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, "/") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[part]; !ok {
				return nil, false
			}
		case []any:
			var i int
			if _, err := fmt.Sscanf(part, "%d", &i); err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

type watcher struct {
	stop  context.CancelFunc
	lines *bufio.Reader
	body  io.Closer
}

func (r *run) watch(t *testing.T, s step) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	resp, err := r.env.Client().Do(r.newRequest(ctx, t, s))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		cancel()
		t.Fatalf("watch: %d", resp.StatusCode)
	}
	return &watcher{stop: cancel, lines: bufio.NewReader(resp.Body), body: resp.Body}
}

func (w *watcher) next(t *testing.T) event {
	t.Helper()
	for {
		line, err := w.lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("watch: %v: %s", err, line)
		}
		if e.Type != "BOOKMARK" {
			return e
		}
	}
}

func (w *watcher) ends(t *testing.T) {
	t.Helper()
	rest, err := io.ReadAll(w.lines)
	if err != nil || len(rest) > 0 {
		t.Errorf("watch does not end: %v: %s", err, rest)
	}
	w.stop()
}
