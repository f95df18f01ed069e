package endpoints

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// TestListItemsOfBuiltInKinds lists objects in all forms: as upstream, items have no apiVersion and no kind, but those of custom
// resources do.
func TestListItemsOfBuiltInKinds(t *testing.T) {
	const meta = `"metadata":{"annotations":{"x":",\"kind\":\"ConfigMap\",\"metadata\":{"},"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b"}]}`
	tests := []struct{ name, apiVersion, kind, object, want string }{
		{"next to one another", "v1", "Pod", `{"apiVersion":"v1","kind":"Pod",` + meta + `,"spec":{}}`, `{` + meta + `,"spec":{}}`},
		{"a group", "apps/v1", "Deployment", `{"apiVersion":"apps/v1","kind":"Deployment",` + meta + `}`, `{` + meta + `}`},
		{"members between", "v1", "ConfigMap", `{"apiVersion":"v1","data":{"k":"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{}}"},"kind":"ConfigMap",` + meta + `}`,
			`{"data":{"k":"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{}}"},` + meta + `}`},
		{"a long metadata", "v1", "ConfigMap", `{"apiVersion":"v1","data":{},"kind":"ConfigMap","metadata":{"annotations":{"x":"` + strings.Repeat("kind", 2000) + `"}},"z":1}`,
			`{"data":{},"metadata":{"annotations":{"x":"` + strings.Repeat("kind", 2000) + `"}},"z":1}`},
		{"members before and between", "discovery.k8s.io/v1", "EndpointSlice", `{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","endpoints":[{"addresses":["10.0.0.1"]}],"kind":"EndpointSlice",` + meta + `,"ports":null}`,
			`{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],` + meta + `,"ports":null}`},
		{"members before", "rbac.authorization.k8s.io/v1", "ClusterRole", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]},"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",` + meta + `,"rules":null}`,
			`{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]},` + meta + `,"rules":null}`},
		{"an object of the kind in it", "apps/v1", "ControllerRevision",
			`{"apiVersion":"apps/v1","data":{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"b"}},"kind":"ControllerRevision",` + meta + `,"revision":1}`,
			`{"data":{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"b"}},` + meta + `,"revision":1}`},
		{"nothing else", "v1", "Pod", `{"apiVersion":"v1","kind":"Pod"}`, `{}`},
		{"no kind", "v1", "ConfigMap", `{"apiVersion":"v1",` + meta + `}`, `{` + meta + `}`},
		{"no apiVersion", "v1", "ConfigMap", `{"data":{},"kind":"ConfigMap",` + meta + `}`, `{"data":{},` + meta + `}`},
		{"neither", "v1", "ConfigMap", `{` + meta + `}`, `{` + meta + `}`},
		{"metadata not next", "v1", "ConfigMap", `{"apiVersion":"v1","data":{},"kind":"ConfigMap","l":1,` + meta + `}`, `{"data":{},"l":1,` + meta + `}`},
		{"another kind", "v1", "ConfigMap", `{"apiVersion":"v2","data":{},"kind":"Other",` + meta + `}`, `{"data":{},` + meta + `}`},
		{"no order", "v1", "Pod", `{"kind":"Pod","metadata":{"name":"a"},"apiVersion":"v1"}`, `{"metadata":{"name":"a"}}`},
		{"white space", "v1", "Pod", `{ "apiVersion": "v1", "kind": "Pod", "metadata": {"name":"a"} }`, `{"metadata":{"name":"a"}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			kind := schema.FromAPIVersionAndKind(tc.apiVersion, tc.kind)
			for form, obj := range map[string]*document.Document{
				"whole":  document.FromCanonical([]byte(tc.object)),
				"pieces": document.FromPieces(apart{tc.object[:len(tc.object)-1], "}"}),
			} {
				for n := 1; n <= 3; n++ {
					list := &rest.List{ResourceVersion: "7"}
					wants := make([]string, n)
					for i := range n {
						list.Items = append(list.Items, obj)
						wants[i] = tc.want
					}
					for _, custom := range []bool{false, true} {
						sc := &scope{kind: kind, resource: &rest.Resource{Kind: kind.Kind, Custom: custom}}
						w := httptest.NewRecorder()
						req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
						if err := (&server{}).respondList(t.Context(), w, req, sc, output{mediaType: mediaTypeJSON}, list); err != nil {
							t.Fatal(err)
						}
						want := strings.Join(wants, ",")
						if custom {
							want = strings.Repeat(tc.object+",", n-1) + tc.object
						}
						want = `{"apiVersion":"` + kind.GroupVersion().String() + `","items":[` + want + `],"kind":"` + kind.Kind + `List","metadata":{"resourceVersion":"7"}}` + "\n"
						if got := w.Body.String(); got != want {
							t.Errorf("%s, custom %t:\n%s\nwant\n%s", form, custom, got, want)
						}
					}
				}
			}
		})
	}
}

// apart is a text that is kept in pieces.
type apart []string

func (a apart) Bytes() []byte { return []byte(strings.Join(a, "")) }
func (a apart) Len() int      { return len(a.Bytes()) }

func (a apart) Pieces(dst [][]byte) [][]byte {
	for _, piece := range a {
		dst = append(dst, []byte(piece))
	}
	return dst
}
