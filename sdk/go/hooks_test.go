package weir_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/weirtest"
)

type widget struct {
	Metadata weir.ObjectMeta `json:"metadata"`
	Spec     struct {
		Size  int               `json:"size,omitempty"`
		Parts []part            `json:"parts,omitempty"`
		Max   *weir.IntOrString `json:"max,omitempty"`
	} `json:"spec"`
}

type part struct {
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
}

// all implements every hook.
type all struct {
	Limit int `json:"limit"`
}

var (
	_ weir.Configurer                 = (*all)(nil)
	_ weir.Defaulter[widget]          = (*all)(nil)
	_ weir.CreatePreparer[widget]     = (*all)(nil)
	_ weir.CreateValidator[widget]    = (*all)(nil)
	_ weir.UpdatePreparer[widget]     = (*all)(nil)
	_ weir.UpdateValidator[widget]    = (*all)(nil)
	_ weir.DeleteValidator[widget]    = (*all)(nil)
	_ weir.Canonicalizer[weir.Object] = (*all)(nil)
	_ weir.StatusPreparer[widget]     = (*all)(nil)
	_ weir.StatusValidator[widget]    = (*all)(nil)
	_ weir.CreateWarner[widget]       = (*all)(nil)
	_ weir.UpdateWarner[widget]       = (*all)(nil)
	_ weir.MutatingAdmitter[widget]   = (*all)(nil)
	_ weir.ValidatingAdmitter[widget] = (*all)(nil)
	_ weir.Converter                  = (*all)(nil)
	_ weir.Connecter[widget]          = (*all)(nil)
)

func (s *all) Configure(ctx *weir.Context) weir.ErrorList {
	if errs := ctx.Settings(s); errs != nil {
		return errs
	}
	if s.Limit < 0 {
		return weir.ErrorList{weir.Invalid("limit", s.Limit, "must not be negative")}
	}
	return nil
}

func (s *all) Default(_ *weir.Context, w *widget) {
	for i := range w.Spec.Parts {
		if w.Spec.Parts[i].Count == 0 {
			w.Spec.Parts[i].Count = 1
		}
	}
}

func (s *all) PrepareForCreate(ctx *weir.Context, w *widget) {
	if w.Metadata.Annotations == nil {
		w.Metadata.Annotations = map[string]string{}
	}
	w.Metadata.Annotations["example.com/by"] = ctx.Request().User.Username
}

func (s *all) ValidateCreate(ctx *weir.Context, w *widget) weir.ErrorList {
	ctx.Annotate("size", fmt.Sprint(w.Spec.Size))
	ctx.Log(abi.LogInfo, "validated "+ctx.Object().String("metadata.name"))
	if w.Spec.Size > s.Limit {
		return weir.ErrorList{weir.Invalid("spec.size", w.Spec.Size, "too large")}
	}
	return nil
}

func (s *all) PrepareForUpdate(_ *weir.Context, w, old *widget) { w.Spec.Size = old.Spec.Size }

func (s *all) ValidateUpdate(_ *weir.Context, w, old *widget) weir.ErrorList {
	if len(w.Spec.Parts) < len(old.Spec.Parts) {
		return weir.ErrorList{weir.Forbidden("spec.parts", "only grow")}
	}
	return nil
}

func (s *all) ValidateDelete(_ *weir.Context, w *widget) weir.ErrorList {
	return weir.ErrorList{weir.Forbidden(weir.Path("metadata").Child("name"), w.Metadata.Name+" stays")}
}

func (s *all) Canonicalize(_ *weir.Context, o *weir.Object) {
	o.Set("metadata.labels['example.com/x.y']", o.Int("spec.size"))
	o.Set("spec.deep.er", []byte(`[1]`))
	o.Set("spec.deep.est", true)
	o.Delete("spec.gone")
	o.Delete("spec.was.never")
	o.Set("spec.parts[1].count", 9)
}

func (s *all) StatusPrepare(_ *weir.Context, w, _ *widget) { w.Metadata.Generation = 5 }

func (s *all) StatusValidate(*weir.Context, *widget, *widget) weir.ErrorList {
	return weir.ErrorList{weir.NotSupported("status.phase", "x", "a", "b")}
}

func (s *all) WarningsOnCreate(_ *weir.Context, w *widget) []string {
	return []string{"size is " + fmt.Sprint(w.Spec.Size)}
}

func (s *all) WarningsOnUpdate(*weir.Context, *widget, *widget) []string { return nil }

func (s *all) AdmitMutate(_ *weir.Context, w, _ *widget) error {
	if w == nil {
		return errors.New("no deletions")
	}
	w.Spec.Max = new(weir.IntOrString)
	*w.Spec.Max = weir.FromString("5%")
	return nil
}

func (s *all) AdmitValidate(_ *weir.Context, w, old *widget) error {
	switch {
	case w == nil:
		return nil
	case old == nil:
		return weir.ErrorList{weir.Required("spec.max", "")}
	}
	return &weir.Denial{Code: 409, Message: "not now"}
}

func (s *all) Convert(_ *weir.Context, object []byte, to string) ([]byte, error) {
	if to == "example.com/v3" {
		return nil, errors.New("no such version")
	}
	return append(append([]byte(`{"was":`), object...), '}'), nil
}

func (s *all) Connect(ctx *weir.Context, w *widget) (any, error) {
	return map[string]string{"name": w.Metadata.Name, "sub": ctx.Request().Subresource}, nil
}

func TestHooks(t *testing.T) {
	tests := []struct {
		name string
		call weirtest.Call
		want string // object
		res  string // the rest
		err  string
	}{
		{
			name: "default keeps what is unknown",
			call: weirtest.Call{Op: abi.OpDefault, Object: `{"spec":{"parts":[{"name":"a","x":{"y":[1.0]}},{"name":"b","count":3}]},"y":1}`},
			want: `{"spec":{"parts":[{"count":1,"name":"a","x":{"y":[1.0]}},{"count":3,"name":"b"}]},"y":1}`,
		},
		{
			name: "default changes nothing",
			call: weirtest.Call{Op: abi.OpDefault, Object: `{"spec":{}}`},
		},
		{
			name: "prepareForCreate", call: weirtest.Call{Op: abi.OpPrepareForCreate, Object: `{"metadata":{"managedFields":[{"a":1}]}}`, Meta: abi.Meta{User: abi.User{Username: "eve"}}},
			want: `{"metadata":{"annotations":{"example.com/by":"eve"},"managedFields":[{"a":1}]}}`,
		},
		{
			name: "metadata without known fields is not replaced",
			call: weirtest.Call{Op: abi.OpStatusPrepare, Object: `{"metadata":{"x":1},"spec":{}}`, OldObject: `{}`},
			want: `{"metadata":{"generation":5,"x":1},"spec":{}}`,
		},
		{
			name: "validateCreate passes", call: weirtest.Call{Op: abi.OpValidateCreate, Settings: `{"limit":3}`, Object: `{"metadata":{"name":"w"},"spec":{"size":3}}`},
			res: `{"audit":{"size":"3"}} [validated w]`,
		},
		{
			name: "validateCreate refuses", call: weirtest.Call{Op: abi.OpValidateCreate, Settings: `{"limit":3}`, Object: `{"metadata":{"name":"w"},"spec":{"size":4}}`},
			res: `{"errors":[{"type":"FieldValueInvalid","field":"spec.size","value":4,"detail":"too large"}],"audit":{"size":"4"}} [validated w]`,
		},
		{
			name: "settings are refused", call: weirtest.Call{Op: abi.OpValidateCreate, Settings: `{"limit":-1}`, Object: `{}`},
			err: "settings refused",
		},
		{
			name: "prepareForUpdate", call: weirtest.Call{Op: abi.OpPrepareForUpdate, Object: `{"spec":{"size":1}}`, OldObject: `{"spec":{"size":2}}`},
			want: `{"spec":{"size":2}}`,
		},
		{
			name: "validateUpdate", call: weirtest.Call{Op: abi.OpValidateUpdate, Object: `{"spec":{}}`, OldObject: `{"spec":{"parts":[{}]}}`},
			res: `{"errors":[{"type":"FieldValueForbidden","field":"spec.parts","detail":"only grow"}]} []`,
		},
		{
			name: "validateDelete", call: weirtest.Call{Op: abi.OpValidateDelete, OldObject: `{"metadata":{"name":"w"}}`},
			res: `{"errors":[{"type":"FieldValueForbidden","field":"metadata.name","detail":"w stays"}]} []`,
		},
		{
			name: "canonicalize by path", call: weirtest.Call{Op: abi.OpCanonicalize, Object: `{"spec":{"gone":1,"parts":[{},{"count":2}],"size":7}}`},
			want: `{"metadata":{"labels":{"example.com/x.y":7}},"spec":{"deep":{"er":[1],"est":true},"parts":[{},{"count":9}],"size":7}}`,
		},
		{
			name: "an element that is not there", call: weirtest.Call{Op: abi.OpCanonicalize, Object: `{"spec":{}}`},
			err: "hook[canonicalize]: set spec.parts[1].count: the list does not exist",
		},
		{
			name: "statusValidate", call: weirtest.Call{Op: abi.OpStatusValidate, Object: `{}`, OldObject: `{}`},
			res: `{"errors":[{"type":"FieldValueNotSupported","field":"status.phase","value":"x","detail":"supported values: \"a\", \"b\""}]} []`,
		},
		{
			name: "warningsOnCreate", call: weirtest.Call{Op: abi.OpWarningsOnCreate, Object: `{}`},
			res: `{"warnings":["size is 0"]} []`,
		},
		{name: "warningsOnUpdate", call: weirtest.Call{Op: abi.OpWarningsOnUpdate, Object: `{}`, OldObject: `{}`}},
		{
			name: "admitMutate", call: weirtest.Call{Op: abi.OpAdmitMutate, Object: `{"spec":{"max":5}}`},
			want: `{"spec":{"max":"5%"}}`,
		},
		{
			name: "an error is a denial", call: weirtest.Call{Op: abi.OpAdmitMutate, OldObject: `{}`},
			res: `{"denied":{"message":"no deletions"}} []`,
		},
		{
			name: "an error list is not", call: weirtest.Call{Op: abi.OpAdmitValidate, Object: `{}`},
			res: `{"errors":[{"type":"FieldValueRequired","field":"spec.max"}]} []`,
		},
		{
			name: "a denial has a code", call: weirtest.Call{Op: abi.OpAdmitValidate, Object: `{}`, OldObject: `{}`},
			res: `{"denied":{"code":409,"message":"not now"}} []`,
		},
		{
			name: "convert", call: weirtest.Call{Op: abi.OpConvert, Object: `[{"a":1},{"b":2}]`, TargetVersion: "example.com/v2"},
			want: `[{"was":{"a":1}},{"was":{"b":2}}]`,
		},
		{
			name: "convert refuses", call: weirtest.Call{Op: abi.OpConvert, Object: `[{"a":1}]`, TargetVersion: "example.com/v3"},
			res: `{"denied":{"message":"no such version"}} []`,
		},
		{
			name: "connect", call: weirtest.Call{Op: abi.OpConnect, Object: `{"metadata":{"name":"w"}}`, Meta: abi.Meta{Subresource: "eject"}},
			want: `{"name":"w","sub":"eject"}`,
		},
		{
			name: "an object that does not fit", call: weirtest.Call{Op: abi.OpDefault, Object: `{"spec":{"parts":[{"count":"x"}]}}`},
			res: `{"errors":[{"type":"FieldValueTypeInvalid","field":"spec.parts[0].count","value":"x","detail":"a string where an integer is expected"}]} []`,
		},
		{
			name: "an old object that does not fit", call: weirtest.Call{Op: abi.OpValidateUpdate, Object: `{}`, OldObject: `{"spec":[]}`},
			err: "hook[validateUpdate]: decode oldObject: spec: an array where an object is expected",
		},
		{
			name: "no object", call: weirtest.Call{Op: abi.OpDefault},
			err: "hook[default]: object is absent",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.call.Settings == "" {
				tc.call.Settings = `{}`
			}
			res, err := weirtest.Run(weir.For[widget](&all{}), tc.call)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if res.Object != tc.want {
				t.Errorf("patch %s\ngot  %s\nwant %s", res.Patch, res.Object, tc.want)
			}
			if got := weirtest.Text(res); got != tc.res && tc.res != "" || tc.res == "" && got != "{} []" {
				t.Errorf("got  %s\nwant %s", got, tc.res)
			}
		})
	}
}

type panicking struct{ with any }

func (p panicking) Default(*weir.Context, *widget) {
	if p.with == nil {
		var w *widget
		w.Spec.Size = 1
	}
	panic(p.with)
}

func TestPanic(t *testing.T) {
	tests := []struct {
		name string
		with any
		want string
	}{
		{"a nil pointer", nil, "panic: runtime error: invalid memory address or nil pointer dereference (hooks_test.go:"},
		{"an error", errors.New("boom"), "panic: boom (hooks_test.go:"},
		{"a string", "boom", "panic: boom (hooks_test.go:"},
		{"a value", 7, "panic: 7 (hooks_test.go:"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := weirtest.Run(weir.For[widget](panicking{tc.with}), weirtest.Call{Op: abi.OpDefault, Object: `{}`})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

type misspelt struct{}

func (misspelt) Default(*widget) {}

func TestMisspeltHook(t *testing.T) {
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "misspelt.Default is no hook") {
			t.Errorf("got %s", p)
		}
	}()
	weir.For[widget](misspelt{})
}

type viewing struct {
	f func(*weir.Context, *weir.Object)
}

func (v viewing) Default(ctx *weir.Context, o *weir.Object) { v.f(ctx, o) }

func TestView(t *testing.T) {
	const object = `{"metadata":{"name":"w","labels":{"a.b/c":"d"}},"spec":{"on":true,"n":-4,"parts":[{"name":"a"},{"name":"b"}],"nothing":null}}`
	view := func(f func(*weir.Context, *weir.Object)) error {
		_, err := weirtest.Run(weir.For[widget](viewing{f}), weirtest.Call{Op: abi.OpDefault, Object: object})
		return err
	}
	err := view(func(ctx *weir.Context, o *weir.Object) {
		var w widget
		found, err := o.Decode("", &w)
		for name, ok := range map[string]bool{
			"String":      o.String("metadata.labels['a.b/c']") == "d" && o.String("spec.n") == "" && o.String("x") == "",
			"Int":         o.Int("spec.n") == -4 && o.Int("metadata.name") == 0,
			"Bool":        o.Bool("spec.on") && !o.Bool("spec.off"),
			"Has":         o.Has("") && o.Has("spec.nothing") && !o.Has("spec.x"),
			"Strings":     strings.Join(o.Strings("spec.parts[*].name"), "") == "ab",
			"Raw":         string(o.Raw("spec.parts[1]")) == `{"name":"b"}` && o.Raw("spec.parts[2]") == nil && string(o.Raw("")) != "",
			"Decode":      found && err == nil && len(w.Spec.Parts) == 2,
			"an old slot": !ctx.OldObject().Has("") && ctx.Params().Raw("x") == nil && ctx.Options().String("a") == "" && !ctx.Namespace().Has("b"),
		} {
			if !ok {
				t.Error(name)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		f    func(*weir.Context, *weir.Object)
		want string
	}{
		{"a path that does not parse", func(_ *weir.Context, o *weir.Object) { o.Raw("a..b") }, "query object a..b: invalid argument"},
		{"a path to set that does not parse", func(_ *weir.Context, o *weir.Object) { o.Set("a[*]", 1) }, `path "a[*]": not an index`},
		{"the whole", func(_ *weir.Context, o *weir.Object) { o.Set("", 1) }, "is empty"},
		{"an element is deleted", func(_ *weir.Context, o *weir.Object) { o.Delete("spec.parts[0]") }, "an element of a list"},
		{"what cannot be encoded", func(_ *weir.Context, o *weir.Object) { o.Set("a", func() {}) }, "encode: func() is not supported"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if err := view(tc.f); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestPath(t *testing.T) {
	if got := weir.Path("spec").Child("containers").Index(2).Child("env").Key("a"); got != "spec.containers[2].env[a]" {
		t.Errorf("got %s", got)
	}
	if got := weir.Path("").Child("spec"); got != "spec" {
		t.Errorf("got %s", got)
	}
}
