package lookup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
)

func parse(t *testing.T, texts ...string) []*document.Document {
	t.Helper()
	var docs []*document.Document
	for _, text := range texts {
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	return docs
}

func objects(t *testing.T) *lookup.Objects {
	t.Helper()
	o, err := lookup.NewObjects(parse(t,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"shop","resourceVersion":"7","uid":"u","labels":{"tier":"gold","old":"yes"}},"data":{"x":"1"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","resourceVersion":"9","labels":{"tier":"silver"}},"data":{"x":"2"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"till"},"data":{"x":"3"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3}}`,
		`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"shop"}}`,
		`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i","namespace":"shop"}}`,
		`{"apiVersion":"gateway.example.com/v1","kind":"Gateway","metadata":{"name":"g"}}`,
	)...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObjects(t *testing.T) {
	o := objects(t)
	tests := []struct {
		request string
		want    string // namespace/name of what is found, or the error
		more    bool
	}{
		{request: `{"resource":"configmaps","namespace":"shop"}`, want: "shop/a shop/b"},
		{request: `{"resource":"configmaps"}`, want: "shop/a shop/b till/c"},
		{request: `{"resource":"configmaps","limit":2}`, want: "shop/a shop/b", more: true},
		{request: `{"resource":"configmaps","limit":3}`, want: "shop/a shop/b till/c"},
		{request: `{"resource":"configmaps","namespace":"shop","name":"b"}`, want: "shop/b"},
		{request: `{"resource":"configmaps","name":"b"}`, want: ""},
		{request: `{"resource":"deployments"}`, want: ""},
		{request: `{"group":"apps","resource":"deployments"}`, want: "shop/web"},
		{request: `{"group":"networking.k8s.io","resource":"networkpolicies"}`, want: "shop/p"},
		{request: `{"group":"networking.k8s.io","resource":"ingresses"}`, want: "shop/i"},
		{request: `{"group":"gateway.example.com","resource":"gateways","name":"g"}`, want: "/g"},
		{request: `{"resource":"configmaps","labelSelector":"tier=gold"}`, want: "shop/b"},
		{request: `{"resource":"configmaps","labelSelector":"tier==gold , old"}`, want: "shop/b"},
		{request: `{"resource":"configmaps","labelSelector":"tier!=gold"}`, want: "shop/a till/c"},
		{request: `{"resource":"configmaps","labelSelector":"tier in (gold, silver)"}`, want: "shop/a shop/b"},
		{request: `{"resource":"configmaps","labelSelector":"tier notin (gold)"}`, want: "shop/a till/c"},
		{request: `{"resource":"configmaps","labelSelector":"!tier"}`, want: "till/c"},
		{request: `{"resource":"configmaps","labelSelector":"tier in (gold"}`, want: "invalid argument"},
		{request: `{"resource":"configmaps","labelSelector":"tier is gold"}`, want: "invalid argument"},
		{request: `{"resource":"configmaps","labelSelector":"a=b,"}`, want: "invalid argument"},
		{request: `{"resource":"configmaps","fieldSelector":"metadata.name=a"}`, want: "shop/a"},
		{request: `{"resource":"configmaps","fieldSelector":"metadata.name!=a,metadata.namespace=shop"}`, want: "shop/b"},
		{request: `{"resource":"configmaps","fieldSelector":"metadata.name"}`, want: "invalid argument"},
		{request: `{"group":"apps","resource":"deployments","fieldSelector":"spec.replicas=3"}`, want: "shop/web"},
	}
	for _, tc := range tests {
		t.Run(tc.request, func(t *testing.T) {
			q, err := lookup.ParseQuery([]byte(tc.request))
			if err != nil {
				t.Fatal(err)
			}
			f, err := o.Lookup(t.Context(), q)
			if err != nil {
				if err.Error() != tc.want {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				return
			}
			var got []string
			for _, d := range f.Items {
				got = append(got, d.Get("metadata", "namespace").String()+"/"+d.Get("metadata", "name").String())
			}
			if strings.Join(got, " ") != tc.want || f.More != tc.more {
				t.Errorf("found %q, more %v", got, f.More)
			}
		})
	}
}

// TestObjectsScanned: what a selector has a list go through is counted, up to the limit, and bounded.
func TestObjectsScanned(t *testing.T) {
	tests := []struct {
		request string
		max     int
		items   int
		scanned int
		err     error
	}{
		{request: `{"resource":"configmaps"}`, items: 3, scanned: 3},
		{request: `{"resource":"configmaps","labelSelector":"tier=none"}`, scanned: 3},
		{request: `{"resource":"configmaps","namespace":"shop","labelSelector":"tier=none"}`, scanned: 2},
		{request: `{"resource":"configmaps","limit":1,"labelSelector":"tier=gold"}`, items: 1, scanned: 2},
		{request: `{"resource":"configmaps","limit":1,"labelSelector":"tier=gold"}`, max: 2, items: 1, scanned: 2},
		{request: `{"resource":"configmaps","limit":1,"labelSelector":"tier=gold"}`, max: 1, err: abi.E2BIG},
	}
	for _, tc := range tests {
		q, err := lookup.ParseQuery([]byte(tc.request))
		if err != nil {
			t.Fatal(err)
		}
		q.MaxScan = tc.max
		f, err := objects(t).Lookup(t.Context(), q)
		if !errors.Is(err, tc.err) || err == nil && (f.Scanned != tc.scanned || len(f.Items) != tc.items) {
			t.Errorf("%s of at most %d: %+v, %v", tc.request, tc.max, f, err)
		}
	}
}

func TestNewObjectsErrors(t *testing.T) {
	for _, texts := range [][]string{
		{`{"apiVersion":"v1","kind":"ConfigMap"}`},
		{`{"apiVersion":"v1","metadata":{"name":"a"}}`},
		{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`, `{"apiVersion":"v2","kind":"A","metadata":{"name":"a"}}`, `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`},
	} {
		if _, err := lookup.NewObjects(parse(t, texts...)...); err == nil {
			t.Errorf("%s were taken", texts)
		}
	}
}

func TestParseQueryErrors(t *testing.T) {
	tests := []struct {
		request string
		want    abi.Errno
	}{
		{``, abi.EINVAL},
		{`{}`, abi.EINVAL},
		{`[]`, abi.EINVAL},
		{`{"resource":"configmaps"} x`, abi.EINVAL},
		{`{"resource":"configmaps","where":"x"}`, abi.EINVAL},
		{`{"resource":"*"}`, abi.EINVAL},
		{`{"resource":"pods/status"}`, abi.EINVAL},
		{`{"resource":"pods.v1"}`, abi.EINVAL},
		{`{"resource":"configmaps","limit":-1}`, abi.EINVAL},
		{`{"resource":"configmaps","limit":501}`, abi.EINVAL},
		{`{"resource":"configmaps","name":"a","labelSelector":"a"}`, abi.EINVAL},
		{`{"resource":"configmaps","fields":["a[*]"]}`, abi.EINVAL},
		{`{"resource":"configmaps","name":"` + strings.Repeat("x", abi.MaxLookupRequestBytes) + `"}`, abi.E2BIG},
	}
	for _, tc := range tests {
		if _, err := lookup.ParseQuery([]byte(tc.request)); !errors.Is(err, tc.want) {
			t.Errorf("%.60s: %v, want %v", tc.request, err, tc.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	o := objects(t)
	tests := []struct{ request, want string }{
		{
			`{"resource":"configmaps","namespace":"shop","name":"b","fields":["data.x"]}`,
			`{"items":[{"apiVersion":"v1","data":{"x":"1"},"kind":"ConfigMap","metadata":{"name":"b","namespace":"shop","resourceVersion":"7","uid":"u"}}],"resourceVersion":"7"}`,
		},
		{
			`{"group":"apps","resource":"deployments"}`,
			`{"items":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3}}],"resourceVersion":"9"}`,
		},
		{`{"resource":"configmaps","namespace":"shop","name":"none"}`, `{"items":[],"resourceVersion":""}`},
		{`{"resource":"configmaps","namespace":"shop","limit":1,"fields":["none"]}`,
			`{"items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","resourceVersion":"9"}}],"more":true,"resourceVersion":"9"}`},
	}
	for _, tc := range tests {
		q, err := lookup.ParseQuery([]byte(tc.request))
		if err != nil {
			t.Fatal(err)
		}
		f, err := o.Lookup(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.Answer(f)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s\ngot  %s, %v\nwant %s", tc.request, got, err, tc.want)
		}
		if _, err := document.Parse(got); err != nil {
			t.Error(err)
		}
	}
	q, err := lookup.ParseQuery([]byte(`{"resource":"configmaps"}`))
	if err != nil {
		t.Fatal(err)
	}
	large := document.FromCanonical(fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", abi.MaxLookupBytes/2)))
	if _, err := q.Answer(&lookup.Found{Items: []*document.Document{large, large}}); !errors.Is(err, abi.E2BIG) {
		t.Errorf("two large objects: %v", err)
	}
}

func TestAllowed(t *testing.T) {
	robot := &abi.ServiceAccount{Namespace: "shop", Name: "robot"}
	rules := lookup.Allowed{
		{Verb: "get", Resource: "configmaps", Namespace: "shop"},
		{Verb: "*", Path: "/healthz"},
		{Verb: "delete", Resource: "pods", ServiceAccount: robot},
	}
	tests := []struct {
		request string
		want    []bool // nil: EINVAL
	}{
		{`{"verb":"get","resource":"configmaps","namespace":"shop","name":"a"}`, []bool{true}},
		{`{"verb":"get","resource":"configmaps"}`, []bool{false}},
		{`{"verb":"get","path":"/healthz"}`, []bool{true}},
		{`{"verb":"get","path":"/metrics"}`, []bool{false}},
		{`{"verb":"delete","resource":"pods"}`, []bool{false}},
		{`{"verb":"delete","resource":"pods","serviceAccount":{"namespace":"shop","name":"robot"}}`, []bool{true}},
		{`{"verb":"delete","resource":"pods","serviceAccount":{"namespace":"shop"}}`, nil},
		{`{"resource":"pods"}`, nil},
		{`{"verb":"get"}`, nil},
		{`{"verb":"get","resource":"pods","path":"/x"}`, nil},
	}
	for _, tc := range tests {
		a, err := lookup.ParseAuthorize([]byte(tc.request))
		if err != nil {
			if tc.want != nil || !errors.Is(err, abi.EINVAL) {
				t.Errorf("%s: %v", tc.request, err)
			}
			continue
		}
		if got, err := rules.Authorize(t.Context(), a); err != nil || !slices.Equal([]bool{got}, tc.want) {
			t.Errorf("%s: %v, %v, want %v", tc.request, got, err, tc.want)
		}
	}
}

// TestNewObjectsOf: a kind is found by the resource that the caller says it is of.
func TestNewObjectsOf(t *testing.T) {
	resource := func(group, kind string) string { return group + "/" + kind }
	o, err := lookup.NewObjectsOf(resource, parse(t, `{"apiVersion":"example.com/v1","kind":"Person","metadata":{"name":"eve"}}`)...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"example.com/Person": 1, "persons": 0} {
		q := &lookup.Query{LookupRequest: abi.LookupRequest{Group: "example.com", Resource: name, Limit: 1}}
		if f, err := o.Lookup(t.Context(), q); err != nil || len(f.Items) != want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}
