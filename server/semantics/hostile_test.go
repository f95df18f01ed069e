package semantics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// hostile bodies, whole or as values within an object.
var hostile = []string{
	``, `{`, `}`, `[]`, `null`, `0`, `"x"`, `{}`, `[{}]`, `{"a":}`, `{"a":1e999}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"":{}}`, `{"a":{"b":[[[[[]]]]]}}`,
	`{"metadata":null}`, `{"metadata":[]}`, `{"metadata":{"name":null}}`, `{"metadata":{"name":"a","labels":null,"annotations":[]}}`,
	`{"metadata":{"ownerReferences":[null]}}`, `{"metadata":{"ownerReferences":[{}]}}`, `{"metadata":{"finalizers":[null,1]}}`, `{"metadata":{"managedFields":[null]}}`,
	`{"metadata":{"managedFields":[{"fieldsV1":1}]}}`, `{"metadata":{"deletionTimestamp":"never"}}`, `{"metadata":{"generation":-1}}`, `{"metadata":{"resourceVersion":"x"}}`,
	`{"spec":null}`, `{"spec":[]}`, `{"spec":{"replicas":null}}`, `{"spec":{"replicas":1e100}}`, `{"spec":{"replicas":-9223372036854775808}}`, `{"spec":{"list":[null]}}`,
	`{"spec":{"set":[null,null]}}`, `{"spec":{"map":[null]}}`, `{"spec":{"map":[{}]}}`, `{"spec":{"map":{"a":1}}}`, `{"spec":{"emb":{"metadata":1}}}`, `{"spec":{"emb":{"metadata":{"labels":1}}}}`,
	`{"spec":{"template":null}}`, `{"spec":{"template":{"spec":{"containers":null}}}}`, `{"spec":{"template":{"spec":{"containers":[null]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[null]}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"x"}}}]}}}}`,
	`{"status":1}`, `{"status":{"replicas":"x"}}`, `{"$patch":"delete"}`, `{"$patch":"x"}`, `{"spec":{"$patch":"replace"}}`, `{"spec":{"$retainKeys":1}}`, `{"spec":{"$setElementOrder/containers":1}}`, `{"$deleteFromPrimitiveList/x":1}`,
	`{"metadata":{"$deleteFromPrimitiveList/finalizers":[1]}}`, `{"metadata":{"$setElementOrder/ownerReferences":[1]}}`,
	`[{"op":"add"}]`, `[{"op":"add","path":"/"}]`, `[{"op":"add","path":"/spec/list/-1","value":null}]`, `[{"op":"move","from":"","path":"/a"}]`, `[{"op":"copy","from":"","path":"/spec"}]`,
	`[{"op":"remove","path":""}]`, `[{"op":"replace","path":"/metadata/name","value":1}]`, `[{"op":"replace","path":"/kind","value":null}]`, `[{"op":"test","path":"/~2"}]`, `[null]`,
	"a: &a [*a]", "a: b: c", "? ", "!!binary x", "- - - -", "\x00", "a: !!float x", "<<: 1", "apiVersion: v1\n---\nkind: x",
}

var hostileParams = []string{
	"", "?dryRun=All", "?dryRun=x", "?fieldManager=m", "?fieldManager=m&force=true", "?fieldManager=" + strings.Repeat("x", 200), "?fieldValidation=Strict", "?fieldValidation=Ignore&dryRun=All",
	"?resourceVersion=x", "?resourceVersion=-1", "?resourceVersion=1&resourceVersionMatch=Exact", "?limit=-1", "?limit=9999999999999999999", "?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0",
	"?labelSelector=a%3D%3D%3D", "?fieldSelector=metadata.name%3D..%2F", "?fieldSelector=metadata.namespace%3D%2F", "?fieldSelector=%3D", "?pretty=x", "?timeoutSeconds=-1", "?timeout=x", "?timeout=0s", "?%zz", "?a=%00",
	"?gracePeriodSeconds=-1", "?propagationPolicy=x", "?includeObject=x", "?exact=1&export=1",
}

var hostileHeaders = []map[string]string{
	{}, {"Accept": "x"}, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, {"Accept": "application/json;as=Table;v=v9;g=x"}, {"Accept": "application/vnd.kubernetes.protobuf"},
	{"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}, {"Accept": ";;;"}, {"Accept": "application/yaml"}, {"Content-Type": "application/vnd.kubernetes.protobuf"},
	{"Content-Type": "application/yaml"}, {"Content-Type": "x/y; z"}, {"Content-Type": "application/cbor"}, {"Content-Encoding": "gzip"}, {"Impersonate-User": "x"}, {"Impersonate-Group": "x"}, {"Audit-Id": strings.Repeat("x", 300)},
}

// TestHostileRequests sends what no honest client would. Whatever the answer is, it is not that the
// server is at fault.
func TestHostileRequests(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	r := newRun(env, "hostile")
	r.scenario(t, scenario{CRD: &definition{
		Schema: json.RawMessage(`{"type":"object","properties":{"spec":{"type":"object","default":{},"properties":{
			"replicas":{"type":"integer","default":1},"list":{"type":"array","items":{"type":"string"}},"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
			"map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],"items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}},
			"emb":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
			"x-kubernetes-validations":[{"rule":"!has(self.replicas) || self.replicas >= 0"}]},
			"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}`),
		Version: map[string]any{"subresources": map[string]any{"status": map[string]any{},
			"scale": map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}},
	}})
	pod := `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for path, body := range map[string]string{
		"$things":           `{"apiVersion":"$group/v1","kind":"Thing","metadata":{"name":"a"}}`,
		"$apps/deployments": `{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + pod + `}}`,
		"$core/configmaps":  `{"metadata":{"name":"a"}}`, "$core/services": `{"metadata":{"name":"a"},"spec":{"ports":[{"port":1}]}}`,
		"$core/pods": `{"metadata":{"name":"a"},` + pod[len(`{"metadata":{"labels":{"a":"b"}},`):],
	} {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r.step(t, step{Do: "POST " + path, Body: encoded, Code: 201})
	}
	paths := []string{
		"$things", "$things/a", "$things/a/status", "$things/a/scale", "$things/b", "$things/%2e%2e", "$things/a%00", "$things/%2f", "$things//", "$things/a/none", "$things/" + strings.Repeat("n", 300),
		"$apps/deployments", "$apps/deployments/a", "$apps/deployments/a/scale", "$apps/deployments/a/status", "$core/configmaps", "$core/configmaps/a", "$core/configmaps/none", "$core/services", "$core/services/a", "$core/services/a/status",
		"$core/pods", "$core/pods/a", "$core/pods/a/status", "$core/pods/a/binding", "$core/pods/a/eviction", "$core/pods/a/log", "$core/pods/a/exec", "$core/secrets/a", "$core/events", "$core/serviceaccounts/default/token",
		"/api/v1/namespaces/%2e%2e/configmaps", "/api/v1/namespaces//configmaps", "/api/v1/namespaces/$ns/finalize", "/api/v1/namespaces/$ns/status", "/api/v1/nodes", "/api/v1/namespaces/%20/pods",
		"$crds", "$crd", "$crd/status", "/apis/weir.dev/v1alpha1/modules", "/apis/weir.dev/v1alpha1/strategies", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authentication.k8s.io/v1/tokenreviews", "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers", "/apis/batch/v1/namespaces/$ns/jobs", "/apis/batch/v1/namespaces/$ns/cronjobs",
		"/apis/coordination.k8s.io/v1/namespaces/$ns/leases", "/apis", "/apis/", "/apis/x", "/api", "/api/v1", "/openapi/v3/x", "/openapi/v2", "/version", "/metrics", "/%2e%2e/", "//", "/healthz/x", "/apis/%00/v1/x",
	}
	methods := []string{"GET", "POST", "PUT", "DELETE", "apply", "merge", "json", "strategic", "HEAD", "OPTIONS", "TRACE", "BREW"}
	random := rand.New(rand.NewPCG(1, 2))
	requests := 4000
	if testing.Short() {
		requests = 500
	}
	for range requests {
		path := r.expand(paths[random.IntN(len(paths))])
		method := methods[random.IntN(len(methods))]
		if method == "DELETE" && (strings.HasSuffix(path, "/a") || path == r.vars["crd"] || path == r.vars["crds"]) {
			continue // they are needed
		}
		body := hostile[random.IntN(len(hostile))]
		if method != "GET" && random.IntN(3) > 0 {
			body = withKind(path, body, r.vars["group"])
		}
		params := hostileParams[random.IntN(len(hostileParams))]
		if method == "apply" && random.IntN(2) == 0 {
			params = "?fieldManager=m&force=true"
		}
		s := step{Do: method + " " + path + params, Headers: hostileHeaders[random.IntN(len(hostileHeaders))]}
		if random.IntN(2) == 0 {
			s.Headers = nil
		}
		if s.Body, _ = json.Marshal(body); !json.Valid(s.Body) {
			t.Fatal("body")
		}
		sendHostile(t, r, s, body)
	}
}

// withKind gives an object apiVersion, kind and name, so that it gets further.
func withKind(path, body, group string) string {
	rest, ok := strings.CutPrefix(body, "{")
	if !ok || rest == "" {
		return body
	}
	kinds := map[string]string{"/things": group + `/v1","kind":"Thing`, "/deployments": `apps/v1","kind":"Deployment`, "/configmaps": `v1","kind":"ConfigMap`,
		"/services": `v1","kind":"Service`, "/pods": `v1","kind":"Pod`, "/scale": `autoscaling/v1","kind":"Scale`,
		"/customresourcedefinitions": `apiextensions.k8s.io/v1","kind":"CustomResourceDefinition`, "/modules": `weir.dev/v1alpha1","kind":"Module`, "/strategies": `weir.dev/v1alpha1","kind":"Strategy`}
	kind := ""
	for part, k := range kinds {
		if strings.Contains(path, part) && (part == "/scale" || !strings.HasSuffix(path, "/scale")) {
			kind = k
		}
	}
	if kind == "" {
		return body
	}
	head := `{"apiVersion":"` + kind + `"`
	if !strings.HasPrefix(rest, `"metadata"`) {
		head += `,"metadata":{"name":"a"}`
	}
	if rest == "}" {
		return head + rest
	}
	return head + "," + rest
}

func sendHostile(t *testing.T, r *run, s step, body string) {
	t.Helper()
	method, target, _ := strings.Cut(s.Do, " ")
	if _, err := url.Parse(r.env.URL() + target); err != nil {
		return // no client of net/http sends it
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.Body = nil
	req := r.newRequest(ctx, t, s)
	if method != "GET" && method != "HEAD" && method != "OPTIONS" && method != "TRACE" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	resp, err := r.env.Client().Do(req)
	if err != nil {
		if ctx.Err() == nil && strings.Contains(err.Error(), "invalid") {
			return
		}
		t.Errorf("%s: %v", s.Do, err)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s: %v", s.Do, err)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		t.Errorf("%s %v\nbody %q\ncode %d: %s", s.Do, s.Headers, body, resp.StatusCode, bytes.TrimSpace(answer))
	}
}

// TestRuleCostAtRunTime: a rule that is cheap enough by its estimate stops when it has used what one call may.
func TestRuleCostAtRunTime(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	r := newRun(env, "cost")
	r.scenario(t, scenario{CRD: &definition{Schema: json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","maxItems":900,
		"items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, a + b >= 0))"}]}}}`)}})
	body := `{"apiVersion":"` + r.vars["group"] + `/v1","kind":"Thing","metadata":{"name":"a"},"list":[1` + strings.Repeat(",1", 899) + `]}`
	encoded, _ := json.Marshal(body)
	r.step(t, step{Do: "POST $things", Body: encoded, Code: 422, Message: []string{"list", "cost"}})
	encoded, _ = json.Marshal(strings.Replace(body, strings.Repeat(",1", 899), "", 1))
	r.step(t, step{Do: "POST $things", Body: encoded, Code: 201})
}

// TestTooLarge: bodies over 3 MiB and objects that etcd does not take are 413, and bombs cost nothing.
func TestTooLarge(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	r := newRun(env, "large")
	r.scenario(t, scenario{CRD: &definition{}})
	post := func(path, body string, code int) {
		t.Helper()
		encoded, _ := json.Marshal(body)
		r.step(t, step{Do: "POST " + path, Body: encoded, Code: code})
	}
	thing := `{"apiVersion":"` + r.vars["group"] + `/v1","kind":"Thing","metadata":{"name":"a"},"spec":`
	post("$things", thing+`"`+strings.Repeat("x", 3<<20)+`"}`, http.StatusRequestEntityTooLarge)
	post("$things", thing+`"`+strings.Repeat("x", 2<<20)+`"}`, http.StatusRequestEntityTooLarge)
	post("$core/configmaps", `{"metadata":{"name":"a"},"data":{"k":"`+strings.Repeat("x", 2<<20)+`"}}`, http.StatusUnprocessableEntity) // its own limit, as upstream
	post("$things", thing+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`}`, http.StatusBadRequest)
	post("$things", thing+strings.Repeat(`{"a":`, 1<<18)+"1"+strings.Repeat("}", 1<<18)+`}`, http.StatusBadRequest)
}
