package weir_test

import (
	"strings"
	"testing"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/weirtest"
)

// settings of a strategy that is not itself what they are decoded into.
type settings struct {
	Labels      []string          `json:"labels,omitempty"`
	MaxReplicas *int64            `json:"maxReplicas,omitempty"`
	Limits      map[string]limit  `json:"limits,omitempty"`
	Rules       []limit           `json:"rules,omitempty"`
	Default     *limit            `json:"default,omitempty"`
	Anything    map[string]any    `json:"anything,omitempty"`
	Names       map[string]string `json:"names,omitempty"`
}

type limit struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
}

// configured has settings, which it reads as how says.
type configured struct {
	how func(*weir.Context, any) weir.ErrorList
	is  settings
}

func (c *configured) Configure(ctx *weir.Context) weir.ErrorList {
	if c.how == nil {
		return nil
	}
	return c.how(ctx, &c.is)
}

// unconfigured has none.
type unconfigured struct{}

func (unconfigured) ValidateCreate(*weir.Context, *widget) weir.ErrorList { return nil }

func TestSettings(t *testing.T) {
	strict, lenient := (*weir.Context).Settings, (*weir.Context).LenientSettings
	tests := []struct {
		name     string
		how      func(*weir.Context, any) weir.ErrorList
		settings string
		want     string
	}{
		{name: "known", how: strict, settings: `{"labels":["a"],"maxReplicas":3}`},
		{name: "none", how: strict},
		{name: "null is none", how: strict, settings: `{"maxReplicas":null}`},
		{
			name: "misspelt", how: strict, settings: `{"labels":["a"],"maxReplica":5}`,
			want: `maxReplica: FieldValueForbidden: unknown setting, did you mean "maxReplicas"? there are "anything", "default", "labels", "limits", "maxReplicas", "names", "rules"`,
		},
		{
			name: "in other letters", how: strict, settings: `{"max_replicas":5}`,
			want: `max_replicas: FieldValueForbidden: unknown setting, did you mean "maxReplicas"?`,
		},
		{
			name: "nothing like it", how: strict, settings: `{"team":"river"}`,
			want: `team: FieldValueForbidden: unknown setting; there are "anything", `,
		},
		{
			name: "two", how: strict, settings: `{"Labels":["a"],"replicas":5}`,
			want: `Labels: FieldValueForbidden: unknown setting, did you mean "labels"? there are "anything", "default", "labels", "limits", "maxReplicas", "names", "rules", ` +
				`replicas: FieldValueForbidden: unknown setting, did you mean "maxReplicas"?`,
		},
		{
			name: "within", how: strict, settings: `{"default":{"cpus":"1"}}`,
			want: `default.cpus: FieldValueForbidden: unknown setting, did you mean "cpu"? there are "cpu", "memory"`,
		},
		{
			name: "within a map", how: strict, settings: `{"limits":{"a":{"cpu":"1","memroy":"2"}}}`,
			want: `limits[a].memroy: FieldValueForbidden: unknown setting, did you mean "memory"?`,
		},
		{
			name: "within a list", how: strict, settings: `{"rules":[{"cpu":"1"},{"memory":"1","cpu ":"2"}]}`,
			want: `rules[1].cpu : FieldValueForbidden: unknown setting, did you mean "cpu"?`,
		},
		{name: "where there is anything", how: strict, settings: `{"anything":{"x":{"y":1}},"names":{"x":"y"}}`},
		{
			name: "of another type", how: strict, settings: `{"maxReplicas":"5"}`,
			want: `maxReplicas: FieldValueTypeInvalid: a string where an integer is expected`,
		},
		{
			name: "of another type within", how: strict, settings: `{"labels":"team"}`,
			want: `labels: FieldValueTypeInvalid: a string where an array is expected`,
		},
		{
			name: "unknown and of another type", how: strict, settings: `{"label":[],"maxReplicas":true}`,
			want: `maxReplicas: FieldValueTypeInvalid: a boolean where an integer is expected`,
		},
		{name: "no object", how: strict, settings: `[1]`, want: `settings: FieldValueTypeInvalid: an array where an object is expected`},
		{name: "lenient", how: lenient, settings: `{"team":"river","maxReplicas":3}`},
		{
			name: "lenient, but not of types", how: lenient, settings: `{"team":"river","maxReplicas":"3"}`,
			want: `maxReplicas: FieldValueTypeInvalid: a string where an integer is expected`,
		},
		{
			name: "not read", settings: `{"labels":[]}`,
			want: `labels: FieldValueForbidden: unknown setting; there are none`,
		},
		{name: "not read and empty", settings: `{}`},
		{name: "a name that nobody typed", how: strict, settings: `{"` + strings.Repeat("l", 1000) + `":1}`, want: `unknown setting; there are`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			res, err := weirtest.Run(weir.For[widget](&configured{how: tc.how}), weirtest.Call{Op: abi.OpConfigure, Settings: tc.settings})
			if err != nil {
				t.Fatal(err)
			}
			var errs weir.ErrorList
			for _, e := range res.Errors {
				errs = append(errs, weir.FieldError{Type: e.Type, Field: e.Field, Detail: e.Detail})
			}
			if got := errs.Error(); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestNoSettings(t *testing.T) {
	hooks := weir.For[widget](unconfigured{})
	if _, err := weirtest.Run(hooks, weirtest.Call{Op: abi.OpValidateCreate, Object: `{"spec":{}}`, Settings: `{}`}); err != nil {
		t.Error(err)
	}
	_, err := weirtest.Run(hooks, weirtest.Call{Op: abi.OpValidateCreate, Object: `{"spec":{}}`, Settings: `{"limit":1}`})
	if want := "settings refused: limit: FieldValueForbidden: unknown setting; there are none"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
