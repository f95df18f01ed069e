// Command go is the conformance guest of the Go SDK: it does what package
// abitest says.
package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
)

type strategy struct{ Greeting string }

// guest is what the hooks keep between calls, which is nothing.
type guest struct {
	counted, remembered int
	onHeap              *int
	grown               []byte
}

// state is the guest's.
var state guest

func is(obj *weir.Object) string { return obj.String("spec.case") }

func (s *strategy) Configure(ctx *weir.Context) weir.ErrorList {
	s.Greeting = ""
	var settings struct {
		Greeting string `json:"greeting,omitempty"`
		Tone     struct {
			Pitch int64 `json:"pitch,omitempty"`
		} `json:"tone,omitempty"`
	}
	if errs := ctx.Settings(&settings); errs != nil {
		return errs
	}
	if settings.Greeting == "" {
		return weir.ErrorList{weir.Required("greeting", "")}
	}
	s.Greeting = settings.Greeting
	return nil
}

func (s *strategy) Default(_ *weir.Context, obj *weir.Object) {
	switch is(obj) {
	case "set":
		obj.Set("spec.added.deep", `x/~"€`)
	case "set by an odd name":
		obj.Set("metadata.labels['a.b/c~d']", "1")
	case "set twice":
		obj.Set("spec.made.a", 1)
		obj.Set("spec.made.b", 2)
	case "set in an element":
		obj.Set("spec.list[1].name", "changed")
	case "replace":
		obj.Set("spec.n", int64(9007199254740995))
		obj.Set("spec.yes", false)
	case "copy":
		obj.Set("spec.copy", obj.Raw("spec.list"))
	case "delete":
		obj.Delete("spec.small")
		obj.Delete("spec.nothing")
	case "delete and set":
		obj.Delete("spec.map")
		obj.Set("spec.map.new", true)
	}
}

// Thing is what prepareForCreate needs of an object, which it gets decoded.
type Thing struct {
	Spec struct {
		Case    string `json:"case,omitempty"`
		Mutated bool   `json:"mutated,omitempty"`
	} `json:"spec"`
}

func (s *strategy) PrepareForCreate(_ *weir.Context, thing *Thing) {
	if thing.Spec.Case == "mutate" {
		thing.Spec.Mutated = true
	}
}

func (s *strategy) ValidateCreate(ctx *weir.Context, obj *weir.Object) weir.ErrorList {
	switch is(obj) {
	case "errors":
		return weir.ErrorList{weir.Invalid("spec.case", is(obj), "asked for"), weir.Required("spec.other", "")}
	case "denied":
		ctx.Refuse(&weir.Denial{Code: 409, Reason: "Conflict", Message: "asked for"})
	case "warnings":
		ctx.Warn("one", "zwei €")
	case "audit":
		ctx.Annotate("key", "value")
	case "settings":
		ctx.Warn(s.Greeting)
	case "large":
		ctx.Warn(strconv.Itoa(len(obj.String("spec.filler"))))
	case "count":
		ctx.Warn(strconv.Itoa(state.counted))
		state.counted++
	case "fail", "trap":
		panic("asked for")
	}
	return nil
}

func (s *strategy) PrepareForUpdate(_ *weir.Context, obj, old *weir.Object) {
	if is(obj) == "restore" {
		obj.Set("status", old.Raw("spec"))
	}
}

func (s *strategy) ValidateUpdate(ctx *weir.Context, obj, old *weir.Object) weir.ErrorList {
	switch is(obj) {
	case "meta":
		r := ctx.Request()
		ctx.Warn(r.UID, string(r.Operation), r.Time, r.Name, r.User.Username)
	case "old":
		ctx.Warn(is(old))
	}
	return nil
}

func (s *strategy) ValidateDelete(_ *weir.Context, obj *weir.Object) weir.ErrorList {
	if is(obj) == "deletion" {
		return weir.ErrorList{weir.Forbidden("metadata.name", "asked for")}
	}
	return nil
}

func (s *strategy) Canonicalize(_ *weir.Context, obj *weir.Object) {
	if is(obj) == "canonical" {
		obj.Delete("spec.filler")
	}
}

func (s *strategy) StatusPrepare(_ *weir.Context, obj, old *weir.Object) {
	if is(obj) == "restore" {
		obj.Set("spec.case", is(old))
	}
}

//go:noinline
func recurse(n int) int { return recurse(n+1) + n } //nolint:staticcheck // it shall not end

func (s *strategy) StatusValidate(ctx *weir.Context, obj, _ *weir.Object) weir.ErrorList {
	switch is(obj) {
	case "loop":
		for { //nolint:staticcheck // it shall not end
		}
	case "recurse":
		ctx.Warn(strconv.Itoa(recurse(1)))
	case "grow":
		for all := [][]byte{}; ; {
			all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "flood":
		for range 10_000 {
			ctx.Warn("the water rises, and rises")
		}
	case "no path":
		obj.Raw("spec[")
	case "log":
		for range 10_000 {
			ctx.Log(abi.LogInfo, "twenty bytes of log.")
		}
	case "remember":
		if state.onHeap == nil {
			state.onHeap = new(int)
		}
		ctx.Warn(strconv.Itoa(state.remembered), strconv.Itoa(*state.onHeap), strconv.Itoa(len(state.grown)))
		state.remembered++
		*state.onHeap++
		state.grown = make([]byte, 8<<20)
	}
	return nil
}

func (s *strategy) WarningsOnCreate(ctx *weir.Context, obj *weir.Object) (warnings []string) {
	yes := strconv.FormatBool
	switch is(obj) {
	case "path":
		return []string{obj.String("spec.list[1].name"), obj.String("metadata.annotations['example.com/key.with.dots']")}
	case "wildcard":
		return obj.Strings("spec.list[*].name")
	case "absence":
		return []string{yes(obj.Has("spec.nothing")), yes(obj.Has("spec.none")), yes(obj.Has("spec.text"))}
	case "integers":
		return []string{strconv.FormatInt(obj.Int("spec.n"), 10), strconv.FormatInt(obj.Int("spec.small"), 10)}
	case "booleans":
		return []string{yes(obj.Bool("spec.yes")), yes(obj.Bool("spec.nothing"))}
	case "escapes":
		return []string{obj.String("spec.text")}
	case "members":
		var members map[string]string
		obj.MustDecode("spec.map", &members)
		for _, name := range []string{"k", "x/y"} {
			warnings = append(warnings, name+"="+members[name])
		}
	case "elements":
		var list []struct {
			Name string `json:"name,omitempty"`
		}
		obj.MustDecode("spec.list", &list)
		for _, e := range list {
			warnings = append(warnings, e.Name)
		}
		return append(warnings, strconv.Itoa(len(list)))
	case "equality":
		return []string{
			yes(bytes.Equal(obj.Raw("spec.list[0]"), obj.Raw("spec.list[1]"))),
			yes(bytes.Equal(obj.Raw("spec.map"), obj.Raw("spec.map"))),
		}
	case "many":
		return []string{strconv.Itoa(len(obj.Strings("spec.list[*].name")))}
	}
	return append(append(warnings, lookUp(ctx, is(obj))...), authorize(ctx, is(obj))...)
}

func (s *strategy) WarningsOnUpdate(_ *weir.Context, obj, old *weir.Object) []string {
	if is(obj) == "both" {
		return []string{is(obj), is(old)}
	}
	return nil
}

func (s *strategy) Convert(_ *weir.Context, object []byte, to string) ([]byte, error) {
	return []byte(strings.Replace(string(object), "example.com/v1", to, 1)), nil
}

func (s *strategy) Connect(ctx *weir.Context, parent *weir.Object) (any, error) {
	return struct {
		Name string          `json:"name"`
		Said json.RawMessage `json:"said"`
	}{parent.String("metadata.name"), ctx.Options().Raw("say")}, nil
}

func (s *strategy) AdmitMutate(ctx *weir.Context, obj, old *weir.Object) error {
	switch {
	case obj == nil:
		ctx.Warn("false")
	case is(obj) == "no params":
		ctx.Warn(strconv.FormatBool(ctx.Params().Has("")), strconv.FormatBool(old != nil))
	case is(obj) == "params":
		obj.Set("spec.n", ctx.Params().Int("spec.most"))
	}
	return nil
}

func (s *strategy) AdmitValidate(ctx *weir.Context, obj, old *weir.Object) error {
	switch {
	case obj == nil:
		return weir.ErrorList{weir.Invalid("spec.case", is(old), "")}
	case is(obj) == "namespace":
		return weir.Deny(ctx.Namespace().String("metadata.name"))
	case is(obj) == "options":
		ctx.Warn(ctx.Options().String("fieldManager"))
	}
	return nil
}

func init() {
	weir.Register(weir.Info{
		Name: "conformance-go", Version: "1.0.0", Capabilities: []string{"lookup:configmaps", "authorize"},
	}, weir.For[Thing](&strategy{}).Learn(&limits{}, &labelled{}, &whole{}))
}

func main() {}
