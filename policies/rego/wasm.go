package rego

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"weir.dev/weir/policies"
)

// inWasm are the built-in functions that OPA's modules have in themselves; the others they
// would ask their host for. (The table of OPA's compiler, internal/compiler/wasm.)
var inWasm = []*ast.Builtin{ // never written to
	ast.Plus, ast.Minus, ast.Multiply, ast.Divide, ast.Abs, ast.Round, ast.Ceil, ast.Floor, ast.Rem,
	ast.ArrayConcat, ast.ArrayFlatten, ast.ArrayReverse, ast.ArraySlice, ast.SetDiff, ast.And, ast.Or, ast.Intersection, ast.Union,
	ast.IsNumber, ast.IsString, ast.IsBoolean, ast.IsArray, ast.IsSet, ast.IsObject, ast.IsNull, ast.TypeNameBuiltin,
	ast.BitsOr, ast.BitsAnd, ast.BitsNegate, ast.BitsXOr, ast.BitsShiftLeft, ast.BitsShiftRight,
	ast.Count, ast.Sum, ast.Product, ast.Max, ast.Min, ast.Sort, ast.All, ast.Any,
	ast.Base64IsValid, ast.Base64Decode, ast.Base64Encode, ast.Base64UrlEncode, ast.Base64UrlDecode,
	ast.NetCIDRContains, ast.NetCIDROverlap, ast.NetCIDRIntersects,
	ast.Equal, ast.GreaterThan, ast.GreaterThanEq, ast.LessThan, ast.LessThanEq, ast.NotEqual,
	ast.GlobMatch, ast.JSONMarshal, ast.JSONUnmarshal, ast.JSONIsValid,
	ast.ObjectFilter, ast.ObjectGet, ast.ObjectKeys, ast.ObjectRemove, ast.ObjectUnion, ast.ObjectUnionN,
	ast.Concat, ast.FormatInt, ast.IndexOf, ast.Substring, ast.Lower, ast.Upper, ast.Contains, ast.StartsWith, ast.EndsWith,
	ast.StringReverse, ast.Split, ast.Replace, ast.ReplaceN, ast.Trim, ast.TrimLeft, ast.TrimPrefix, ast.TrimRight, ast.TrimSuffix,
	ast.TrimSpace, ast.InternalTemplateString, ast.NumbersRange, ast.ToNumber, ast.WalkBuiltin, ast.ReachableBuiltin,
	ast.RegexIsValid, ast.RegexMatch, ast.RegexMatchDeprecated, ast.RegexFindAllStringSubmatch,
	ast.JSONRemove, ast.JSONFilter, ast.Member, ast.MemberWithKey, ast.Equality, ast.Assign,
}

// guestModule makes of a policy what a guest of package abi answers: input as the evaluator
// gives it, of the slots that the guest reads, and a result with the decision.
const guestModule = `package weir_guest

meta(name) := object.get(input.meta, name, "")

request := {
	"uid": meta("uid"), "operation": meta("operation"), "name": meta("name"), "namespace": meta("namespace"),
	"kind": {"group": meta("group"), "version": meta("version"), "kind": meta("kind")},
	"resource": {"group": meta("group"), "version": meta("version"), "resource": meta("resource")},
	"subResource": meta("subresource"), "dryRun": object.get(input.meta, "dryRun", false),
	"userInfo": object.get(input.meta, "user", {}),
}

review := {
	"object": input.object, "oldObject": input.oldObject, "params": input.params,
	"namespaceObject": input.namespaceObject, "settings": input.settings, "request": request,
}

message(f) := trim_space(f) if is_string(f)

message(f) := trim_space(f.msg) if is_object(f)

message(f) := trim_space(f.message) if {
	is_object(f)
	not f.msg
}

unclear if {
	some f in findings
	object.get({"m": message(f)}, "m", "") == ""
}

unclear if {
	some f in findings
	not message(f)
}

attribute(name, preset) := values[0] if {
	values := [v |
		some f in findings
		v := f[name]
	]
	count(values) > 0
} else := preset

messages := sort({m |
	some f in findings
	m := message(f)
})

denials := {"denied": {"code": 500, "message": "the policy gives a denial without a message"}} if unclear

denials := {"denied": {
	"code": attribute("code", 422), "reason": attribute("reason", "Invalid"),
	"message": concat("; ", messages),
}} if {
	not unclear
	count(messages) > 0
}

default denials := {}

result := object.union(denials, {"warnings": sort({m |
	some f in warnings
	m := message(f)
})})
`

// CompileWasm compiles a policy to a guest of package abi, with the hook admitValidate, for
// the host to run like any other: OPA's own module, linked with functions that read the
// slots and write the result. Its denials are joined to one, sorted, with the code and
// reason of the first that has them.
//
// missing are the built-in functions that the policy uses and OPA's modules do not have;
// then there is no module, and the policy is one for Compile. Source.Data and Strict are
// not for modules. The error is policies.Issues when the policy is at fault.
func (e *Engine) CompileWasm(ctx context.Context, name string, src *Source) (wasm []byte, missing []string, err error) {
	p, err := e.Compile(src) // all that is wrong, in its words
	if err != nil {
		return nil, nil, err
	}
	if src.Data != nil && src.Data.Root().Len() > 0 {
		return nil, nil, policies.Issues{{Path: src.Path, Message: "data is not available to a module"}}
	}
	if missing := p.missing(); len(missing) > 0 {
		return nil, missing, nil
	}
	options := []func(*rego.Rego){
		rego.Query(resultVar + " = data.weir_guest.result"),
		rego.Module("weir_guest.rego", guestModule+p.collections()),
		rego.Capabilities(e.capabilities),
		rego.SetRegoVersion(ast.RegoV1),
	}
	for i, m := range src.Modules {
		options = append(options, rego.Module(fmt.Sprint(i), m.Text))
	}
	compiled, err := rego.New(options...).Compile(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: to wasm: %w", src.Path, err)
	}
	wasm, err = linkGuest(compiled.Bytes, name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: to wasm: %w", src.Path, err)
	}
	return wasm, nil, nil
}

// missing lists the built-in functions that are not in OPA's modules, sorted.
func (p *Program) missing() []string {
	var names []string
	for _, m := range p.compiler.Modules {
		ast.WalkExprs(m, func(x *ast.Expr) bool {
			if !x.IsCall() {
				return false
			}
			operator := x.Operator()
			if operator[0].Equal(ast.DefaultRootDocument) {
				return false
			}
			name := strings.TrimPrefix(operator.String(), guardPrefix)
			if !slices.ContainsFunc(inWasm, func(b *ast.Builtin) bool { return b.Name == name }) {
				names = append(names, name)
			}
			return false
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// collections are the rules that give the findings of a policy to guestModule.
func (p *Program) collections() string {
	var b strings.Builder
	for _, q := range p.queries {
		switch q.role {
		case deny, violation:
			fmt.Fprintf(&b, "\nfindings contains f if some f in %v with input as review\n", q.ref)
		case warn:
			fmt.Fprintf(&b, "\nwarnings contains f if some f in %v with input as review\n", q.ref)
		case allow:
			fmt.Fprintf(&b, "\nfindings contains \"the policy does not allow it\" if not allowed\n\nallowed if %v == true with input as review\n", q.ref)
		case object:
			fmt.Fprintf(&b, "\ndecision := %v with input as review\n", q.ref)
			b.WriteString("\nfindings contains f if some f in decision.deny\n\nfindings contains f if some f in decision.violation\n")
			b.WriteString("\nwarnings contains f if some f in decision.warn\n\nfindings contains \"the policy does not allow it\" if decision.allow == false\n")
			b.WriteString("\nfindings contains \"the policy has no decision\" if not decision\n")
		case message:
		}
	}
	// Rules that are there for others to be defined.
	b.WriteString("\nfindings contains f if some f in []\n\nwarnings contains f if some f in []\n")
	return b.String()
}
