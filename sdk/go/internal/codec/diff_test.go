package codec_test

import (
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/sdk/go/internal/codec"
)

type object struct {
	Metadata struct {
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *spec `json:"spec,omitempty"`
}

type spec struct {
	Replicas *int32           `json:"replicas,omitempty"`
	Name     string           `json:"name,omitempty"`
	Plain    string           `json:"plain"`
	Zero     inner            `json:"zero,omitzero"`
	Tags     []string         `json:"tags,omitempty"`
	Keyed    []keyed          `json:"keyed,omitempty"`
	Ported   []*ported        `json:"ported,omitempty"`
	Unkeyed  []unkeyed        `json:"unkeyed,omitempty"`
	Map      map[string]keyed `json:"map,omitempty"`
	Any      any              `json:"any,omitempty"`
}

type keyed struct {
	Name  string `json:"name,omitempty"`
	Image string `json:"image,omitempty"`
}

type ported struct {
	Port  int    `json:"port" weir:"key"`
	Proto string `json:"proto,omitempty"`
}

type unkeyed struct {
	V int `json:"v"`
}

func TestDiff(t *testing.T) {
	ptr := func(n int32) *int32 { return &n }
	tests := []struct {
		name, raw string
		change    func(o *object)
		want      string // "" for no patch
		wantErr   string
	}{
		{name: "nothing", raw: `{"metadata":{"labels":{"a":"b"}},"spec":{"keyed":[{"name":"a","x":1}],"plain":"","replicas":1}}`, change: func(*object) {}},
		{name: "what is empty is not added", raw: `{}`, change: func(o *object) {
			o.Metadata.Labels = map[string]string{}
			o.Spec = nil
		}},
		{name: "a number is spelled otherwise", raw: `{"spec":{"any":1.0,"zero":{"b":1}}}`, change: func(*object) {}},
		{
			name: "a member is added, replaced and removed", raw: `{"spec":{"name":"n","plain":"p","unknown":[1]}}`,
			change: func(o *object) { o.Spec.Name, o.Spec.Plain, o.Spec.Replicas = "", "q", ptr(3) },
			want:   `{"spec":{"plain":"q","replicas":3,"unknown":[1]}}`,
		},
		{
			name: "zero without omitempty is written", raw: `{"spec":{"plain":"p"}}`,
			change: func(o *object) { o.Spec.Plain = "" },
			want:   `{"spec":{"plain":""}}`,
		},
		{
			name: "parents are made", raw: `{"kind":"K"}`,
			change: func(o *object) {
				o.Metadata.Labels = map[string]string{"a/b~c": "d"}
				o.Spec = &spec{Replicas: ptr(0)}
			},
			want: `{"kind":"K","metadata":{"labels":{"a/b~c":"d"}},"spec":{"plain":"","replicas":0}}`,
		},
		{
			name: "null is replaced", raw: `{"spec":null}`,
			change: func(o *object) { o.Spec = &spec{Name: "n"} },
			want:   `{"spec":{"name":"n","plain":""}}`,
		},
		{
			name: "maps", raw: `{"metadata":{"labels":{"a":"1","b":"2","c":"3","x/y":"4"}}}`,
			change: func(o *object) {
				delete(o.Metadata.Labels, "x/y")
				o.Metadata.Labels["b"] = "\n"
				o.Metadata.Labels["d"] = ""
			},
			want: `{"metadata":{"labels":{"a":"1","b":"\n","c":"3","d":""}}}`,
		},
		{
			name: "values of maps keep what is unknown", raw: `{"spec":{"map":{"a":{"image":"i","x":1},"b":{"x":2}}}}`,
			change: func(o *object) { o.Spec.Map["a"] = keyed{Image: "j"} },
			want:   `{"spec":{"map":{"a":{"image":"j","x":1},"b":{"x":2}}}}`,
		},
		{
			name: "a list of strings is replaced", raw: `{"spec":{"tags":["a","b"]}}`,
			change: func(o *object) { o.Spec.Tags = append(o.Spec.Tags, "c") },
			want:   `{"spec":{"tags":["a","b","c"]}}`,
		},
		{
			name: "a list that is empty now is removed", raw: `{"spec":{"keyed":[{"name":"a"}],"tags":["a"]}}`,
			change: func(o *object) { o.Spec.Tags, o.Spec.Keyed = nil, []keyed{} },
			want:   `{"spec":{}}`,
		},
		{
			name: "an element changes", raw: `{"spec":{"keyed":[{"image":"i","name":"a","x":1},{"name":"b","x":2}]}}`,
			change: func(o *object) { o.Spec.Keyed[1].Image = "j" },
			want:   `{"spec":{"keyed":[{"image":"i","name":"a","x":1},{"image":"j","name":"b","x":2}]}}`,
		},
		{
			name: "keyed elements are moved, added, removed and changed at once",
			raw:  `{"spec":{"keyed":[{"name":"a","x":1},{"name":"b","x":2},{"name":"c","x":3},{"name":"d","x":4}]}}`,
			change: func(o *object) {
				k := o.Spec.Keyed
				o.Spec.Keyed = []keyed{{Name: "new"}, k[3], k[0], {Name: "b", Image: "i"}}
			},
			want: `{"spec":{"keyed":[{"name":"new"},{"name":"d","x":4},{"name":"a","x":1},{"image":"i","name":"b","x":2}]}}`,
		},
		{
			name: "a key that is renamed is another element", raw: `{"spec":{"keyed":[{"name":"a","x":1},{"name":"b","x":2}]}}`,
			change: func(o *object) { o.Spec.Keyed[0].Name = "z" },
			want:   `{"spec":{"keyed":[{"name":"z"},{"name":"b","x":2}]}}`,
		},
		{
			name: "a tagged key", raw: `{"spec":{"ported":[{"port":1,"x":1},{"port":2,"x":2}]}}`,
			change: func(o *object) {
				o.Spec.Ported = o.Spec.Ported[1:]
				o.Spec.Ported[0].Proto = "UDP"
			},
			want: `{"spec":{"ported":[{"port":2,"proto":"UDP","x":2}]}}`,
		},
		{
			name: "keys that are not unique are told by place", raw: `{"spec":{"keyed":[{"name":"a","x":1},{"name":"a","x":2}]}}`,
			change: func(o *object) { o.Spec.Keyed[1].Image = "i" },
			want:   `{"spec":{"keyed":[{"name":"a","x":1},{"image":"i","name":"a","x":2}]}}`,
		},
		{
			name: "unkeyed elements change in place", raw: `{"spec":{"unkeyed":[{"v":1,"x":1},{"v":2,"x":2}]}}`,
			change: func(o *object) { o.Spec.Unkeyed[0].V = 7 },
			want:   `{"spec":{"unkeyed":[{"v":7,"x":1},{"v":2,"x":2}]}}`,
		},
		{
			name: "unkeyed elements are moved", raw: `{"spec":{"unkeyed":[{"v":1,"x":1},{"v":2,"x":2},{"v":3,"x":3}]}}`,
			change: func(o *object) { u := o.Spec.Unkeyed; o.Spec.Unkeyed = []unkeyed{u[2], u[0], u[1]} },
			want:   `{"spec":{"unkeyed":[{"v":3,"x":3},{"v":1,"x":1},{"v":2,"x":2}]}}`,
		},
		{
			name: "unkeyed elements are added and removed", raw: `{"spec":{"unkeyed":[{"v":1,"x":1},{"v":2,"x":2}]}}`,
			change: func(o *object) { o.Spec.Unkeyed = []unkeyed{{V: 0}, o.Spec.Unkeyed[1]} },
			want:   `{"spec":{"unkeyed":[{"v":0,"x":1},{"v":2,"x":2}]}}`,
		},
		{
			name: "it cannot be told which is which", raw: `{"spec":{"unkeyed":[{"v":1,"x":1},{"v":2,"x":2},{"v":3}]}}`,
			change:  func(o *object) { o.Spec.Unkeyed = []unkeyed{{V: 5}, {V: 6}} },
			wantErr: `spec.unkeyed: elements were changed while others were added or removed`,
		},
		{
			name: "nothing is lost if it cannot be told", raw: `{"spec":{"unkeyed":[{"v":1},{"v":2},{"v":3}]}}`,
			change: func(o *object) { o.Spec.Unkeyed = []unkeyed{{V: 5}, {V: 6}} },
			want:   `{"spec":{"unkeyed":[{"v":5},{"v":6}]}}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := codec.New()
			var o object
			if err := c.Decode([]byte(tc.raw), &o); err != nil {
				t.Fatal(err)
			}
			tc.change(&o)
			patch, err := c.Diff([]byte(tc.raw), &o)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if patch != nil {
					t.Errorf("got %s", patch)
				}
				return
			}
			p, err := jsonpatch.DecodePatch(patch)
			if err != nil {
				t.Fatalf("%s: %v", patch, err)
			}
			got, err := p.Apply([]byte(tc.raw))
			if err != nil {
				t.Fatalf("%s: %v", patch, err)
			}
			d, err := document.Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(d.Bytes()) != tc.want {
				t.Errorf("patch %s\ngot  %s\nwant %s", patch, d.Bytes(), tc.want)
			}
		})
	}
}

func TestDiffOfUnsorted(t *testing.T) {
	type pair struct {
		A, B int
	}
	if _, err := codec.New().Diff([]byte(`{"B":1,"A":2}`), &pair{A: 1}); err == nil {
		t.Error("an object that is not canonical was compared")
	}
}
