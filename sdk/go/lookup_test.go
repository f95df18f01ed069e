package weir_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/weirtest"
)

// looked is an object with one of everything that a type can ask for.
type looked struct {
	weir.TypeMeta `json:",inline"`
	Metadata      struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *struct {
		Replicas int `json:"replicas,omitempty"`
		Template struct {
			Odd string `json:"a.b/c,omitempty"`
		} `json:"template"`
	} `json:"spec,omitempty"`
	Ports []struct {
		Port int `json:"port"`
	} `json:"ports,omitempty"`
}

// asking looks things up as its settings say, and says what came of it.
type asking struct {
	get  func(ctx *weir.Context) (any, error)
	said *string
}

func (a asking) ValidateCreate(ctx *weir.Context, _ *weir.Object) weir.ErrorList {
	v, err := a.get(ctx)
	if err != nil {
		*a.said = "error: " + err.Error()
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		*a.said = err.Error()
		return nil
	}
	*a.said = string(raw)
	return nil
}

func TestLookups(t *testing.T) {
	objects := []string{
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","labels":{"tier":"gold"},"resourceVersion":"7"},"spec":{"replicas":3,"template":{"a.b/c":"odd"}},"ports":[{"port":80}]}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"api","namespace":"shop","resourceVersion":"9"},"spec":{"replicas":"many"}}`,
	}
	deployment := func(name string) weir.Ref {
		return weir.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: name}
	}
	tests := []struct {
		name    string
		get     func(ctx *weir.Context) (any, error)
		granted []string
		want    string
	}{
		{
			name: "one", get: func(ctx *weir.Context) (any, error) { return weir.Get[looked](ctx, deployment("web")) },
			want: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"tier":"gold"}},"spec":{"replicas":3,"template":{"a.b/c":"odd"}},"ports":[{"port":80}]}`,
		},
		{
			name: "the whole of one", get: func(ctx *weir.Context) (any, error) {
				v, err := weir.Get[map[string]any](ctx, deployment("web"))
				if err != nil {
					return nil, err
				}
				return (*v)["metadata"], nil
			},
			want: `{"labels":{"tier":"gold"},"name":"web","namespace":"shop","resourceVersion":"7"}`,
		},
		{
			name: "absent", get: func(ctx *weir.Context) (any, error) { return weir.Get[looked](ctx, deployment("none")) },
			want: "error: the object does not exist",
		},
		{
			name: "of another type", get: func(ctx *weir.Context) (any, error) { return weir.Get[looked](ctx, deployment("api")) },
			want: "error: spec.replicas: a string where an integer is expected",
		},
		{
			name: "not granted", get: func(ctx *weir.Context) (any, error) { return weir.Get[looked](ctx, deployment("web")) },
			granted: []string{"lookup:pods"}, want: "error: lookup of deployments.apps: capability not granted",
		},
		{
			name: "a list", get: func(ctx *weir.Context) (any, error) {
				list, err := weir.List[struct {
					Metadata weir.ObjectMeta `json:"metadata"`
				}](ctx, weir.Query{Group: "apps", Resource: "deployments", Limit: 1})
				if err != nil {
					return nil, err
				}
				return []any{list.Items[0].Metadata.Name, list.ResourceVersion, list.More}, nil
			},
			granted: []string{"lookup:*.apps"}, want: `["api","9",true]`,
		},
		{
			name: "a bad selector", get: func(ctx *weir.Context) (any, error) {
				return weir.List[looked](ctx, weir.Query{Group: "apps", Resource: "deployments", Labels: "a in"})
			},
			want: "error: lookup of deployments.apps: invalid argument",
		},
		{
			name: "allowed", get: func(ctx *weir.Context) (any, error) {
				return weir.Authorize(ctx, weir.Access{Verb: "use", Resource: "quotas", Name: "large"})
			},
			want: "true",
		},
		{
			name: "not allowed", get: func(ctx *weir.Context) (any, error) {
				return weir.Authorize(ctx, weir.Access{Verb: "use", Resource: "quotas", Name: "small"})
			},
			want: "false",
		},
		{
			name: "nothing is asked", get: func(ctx *weir.Context) (any, error) { return weir.Authorize(ctx, weir.Access{Verb: "use"}) },
			want: "error: invalid argument",
		},
		{
			name: "authorize is not granted", get: func(ctx *weir.Context) (any, error) {
				return weir.Authorize(ctx, weir.Access{Verb: "use", Resource: "quotas"})
			},
			granted: []string{}, want: "error: capability not granted",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var said string
			_, err := weirtest.Run(weir.For[looked](asking{tc.get, &said}), weirtest.Call{
				Op: abi.OpValidateCreate, Object: `{"kind":"A"}`, Objects: objects, Capabilities: tc.granted,
				Allowed: []weir.Access{{Verb: "use", Resource: "quotas", Name: "large"}},
			})
			if err != nil || said != tc.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, said, tc.want)
			}
		})
	}
}

// recorder is a Host that keeps the requests of look-ups.
type recorder struct{ requests []abi.LookupRequest }

func (*recorder) Read(abi.Slot, int, []byte) int     { return 2 }
func (*recorder) Query(abi.Slot, string, []byte) int { return 2 }
func (*recorder) Write(_ abi.Slot, data []byte) int  { return len(data) }
func (*recorder) Log(_ abi.LogLevel, line string) int {
	return len(line)
}
func (r *recorder) Lookup(request, _ []byte) int {
	var q abi.LookupRequest
	if json.Unmarshal(request, &q) != nil {
		return -int(abi.EINVAL)
	}
	r.requests = append(r.requests, q)
	return -int(abi.EPERM)
}

// TestLookupAsksForFields: the type says what is asked for, and nothing else is.
func TestLookupAsksForFields(t *testing.T) {
	h := &recorder{}
	get := func(ctx *weir.Context) (any, error) {
		_, one := weir.Get[looked](ctx, weir.Ref{Resource: "things", Name: "a"})
		_, none := weir.Get[struct{}](ctx, weir.Ref{Resource: "things", Name: "a"})
		_, all := weir.Get[any](ctx, weir.Ref{Resource: "things", Name: "a"})
		return nil, errors.Join(one, none, all)
	}
	var said string
	weir.For[looked](asking{get, &said}).Invoke(h, abi.OpValidateCreate)
	if strings.Count(said, "capability not granted") != 3 {
		t.Fatalf("said %s", said)
	}
	want := [][]string{
		{"apiVersion", "kind", "metadata.labels", "metadata.name", "ports", "spec.replicas", "spec.template['a.b/c']"}, {"kind"}, nil,
	}
	for i, q := range h.requests {
		slices.Sort(q.Fields)
		if !reflect.DeepEqual(q.Fields, want[i]) || q.Name != "a" || q.Resource != "things" {
			t.Errorf("request %+v, want fields %q", q, want[i])
		}
	}
}

// TestDescribeCapabilities: the manifest asks for what the Info says.
func TestDescribeCapabilities(t *testing.T) {
	h := &describer{}
	weir.For[looked](asking{}).Describe(h, weir.Info{Name: "a", Capabilities: []string{"lookup:pods", "authorize"}})
	if !slices.Equal(h.manifest.Capabilities, []string{"lookup:pods", "authorize"}) {
		t.Errorf("manifest %+v", h.manifest)
	}
}

type describer struct {
	recorder
	manifest abi.Manifest
}

func (d *describer) Write(_ abi.Slot, data []byte) int {
	if json.Unmarshal(data, &d.manifest) != nil {
		return -int(abi.EINVAL)
	}
	return len(data)
}
