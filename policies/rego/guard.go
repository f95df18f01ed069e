package rego

import (
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// Functions whose result can be larger than their arguments, and those whose time grows
// with them, are guarded: what a call would take is computed from its arguments, and the
// meter charged, before it is made. Calls are redirected when a policy is compiled.
const (
	// guardPrefix names a guarded function.
	guardPrefix = "guarded."
	// maxWork bounds one call of a regular expression or glob.
	maxWork = 1 << 24
	// maxDigits bounds the text of a number that is multiplied, maxExponent its exponent's.
	maxDigits, maxExponent = 4096, 4
	// termBytes is about what an element of a collection takes.
	termBytes = 64
)

// A guard charges m for a call, or refuses it.
type guard func(m *meter, name string, args []*ast.Term) error

// guards by function.
var guards = map[string]guard{ // never written to
	"concat":                                guardConcat,
	"sprintf":                               guardSprintf,
	"internal.template_string":              guardMade(2),
	"replace":                               guardReplace,
	"strings.replace_n":                     guardReplaceN,
	"split":                                 guardSplit,
	"strings.split_n":                       guardSplit,
	"indexof_n":                             guardMade(8),
	"lower":                                 guardMade(1),
	"upper":                                 guardMade(1),
	"strings.reverse":                       guardMade(1),
	"strings.any_prefix_match":              guardMade(0),
	"strings.any_suffix_match":              guardMade(0),
	"strings.count":                         guardMade(0),
	"contains":                              guardText,
	"indexof":                               guardText,
	"base64.encode":                         guardMade(2),
	"base64.decode":                         guardMade(1),
	"base64url.encode":                      guardMade(2),
	"base64url.encode_no_pad":               guardMade(2),
	"base64url.decode":                      guardMade(1),
	"hex.encode":                            guardMade(2),
	"hex.decode":                            guardMade(1),
	"urlquery.encode":                       guardMade(3),
	"urlquery.encode_object":                guardMade(3),
	"urlquery.decode":                       guardMade(1),
	"urlquery.decode_object":                guardMade(8),
	"crypto.md5":                            guardMade(0),
	"crypto.sha1":                           guardMade(0),
	"crypto.sha256":                         guardMade(0),
	"crypto.hmac.md5":                       guardMade(0),
	"crypto.hmac.sha1":                      guardMade(0),
	"crypto.hmac.sha256":                    guardMade(0),
	"crypto.hmac.sha512":                    guardMade(0),
	"crypto.x509.parse_certificates":        guardParse,
	"crypto.x509.parse_certificate_request": guardParse,
	"json.marshal":                          guardMade(2),
	"json.marshal_with_options":             guardMarshal,
	"yaml.marshal":                          guardMarshal,
	"json.unmarshal":                        guardParse,
	"json.is_valid":                         guardParse,
	"yaml.unmarshal":                        guardParse,
	"yaml.is_valid":                         guardParse,
	"json.filter":                           guardMade(1),
	"json.remove":                           guardMade(1),
	"json.patch":                            guardPatch,
	"object.union":                          guardMade(1),
	"object.union_n":                        guardMade(1),
	"object.filter":                         guardMade(1),
	"object.remove":                         guardMade(1),
	"object.subset":                         guardPairs,
	"union":                                 guardMade(1),
	"intersection":                          guardMade(1),
	"and":                                   guardLen,
	"or":                                    guardLen,
	"array.concat":                          guardLen,
	"array.reverse":                         guardLen,
	"array.slice":                           guardLen,
	"array.flatten":                         guardMade(1),
	"sort":                                  guardLen,
	"min":                                   guardLen,
	"max":                                   guardLen,
	"sum":                                   guardLen,
	"product":                               guardProduct,
	"walk":                                  guardMade(1),
	"graph.reachable":                       guardMade(1),
	"numbers.range":                         guardRange,
	"numbers.range_step":                    guardRange,
	"net.cidr_expand":                       guardExpand,
	"net.cidr_contains_matches":             guardPairs,
	"net.cidr_merge":                        guardPairs,
	"mul":                                   guardNumbers,
	"div":                                   guardNumbers,
	"bits.lsh":                              guardShift,
	"to_number":                             guardNumberText,
	"units.parse":                           guardNumberText,
	"units.parse_bytes":                     guardNumberText,
	"regex.match":                           guardRegex,
	"re_match":                              guardRegex,
	"regex.is_valid":                        guardMade(0),
	"regex.find_n":                          guardRegex,
	"regex.find_all_string_submatch_n":      guardRegex,
	"regex.split":                           guardRegex,
	"regex.replace":                         guardRegexReplace,
	"regex.template_match":                  guardRegex,
	"glob.match":                            guardGlob,
	"time.parse_ns":                         guardText,
	"semver.compare":                        guardText,
	"semver.is_valid":                       guardText,
	"io.jwt.decode":                         guardParse,
	"io.jwt.decode_verify":                  guardParse,
}

// guardedBuiltins returns the guarded functions by the name that they are called by.
func guardedBuiltins() map[string]*topdown.Builtin {
	out := make(map[string]*topdown.Builtin, len(guards))
	for name, g := range guards {
		f, decl := topdown.GetBuiltin(name), ast.BuiltinMap[name]
		if f == nil || decl == nil {
			continue
		}
		out[guardPrefix+name] = &topdown.Builtin{
			Decl: &ast.Builtin{Name: guardPrefix + name, Decl: decl.Decl, Relation: decl.Relation},
			Func: func(bctx topdown.BuiltinContext, args []*ast.Term, iter func(*ast.Term) error) error {
				m, ok := bctx.Cancel.(*meter)
				if !ok {
					return topdown.Halt{Err: errNoMeter}
				}
				if err := g(m, name, args[:arity(decl.Decl, args)]); err != nil {
					return topdown.Halt{Err: err}
				}
				return f(bctx, args, iter)
			},
		}
	}
	return out
}

// arity is the number of arguments, without the result that follows them.
func arity(decl *types.Function, args []*ast.Term) int { return min(decl.Arity(), len(args)) }

// redirect makes the calls of guarded functions in a compiled module those of guards.
func redirect(m *ast.Module, guarded map[string]*topdown.Builtin) {
	operators := map[string]*ast.Term{}
	ast.WalkExprs(m, func(x *ast.Expr) bool {
		terms, ok := x.Terms.([]*ast.Term)
		if !ok || len(terms) == 0 {
			return false
		}
		ref, ok := terms[0].Value.(ast.Ref)
		if !ok || ref[0].Equal(ast.DefaultRootDocument) {
			return false
		}
		name := guardPrefix + ref.String()
		if guarded[name] == nil {
			return false
		}
		if operators[name] == nil {
			operators[name] = ast.NewTerm(ast.Ref{ast.VarTerm(name)})
		}
		terms[0] = operators[name]
		return false
	})
}

// length is the bytes of a string or number, or about those of a collection by itself.
func length(v ast.Value) uint64 {
	switch v := v.(type) {
	case ast.String:
		return uint64(len(v))
	case ast.Number:
		return uint64(len(v))
	case *ast.Array:
		return uint64(v.Len()) * termBytes
	case ast.Set:
		return uint64(v.Len()) * termBytes
	case ast.Object:
		return 2 * uint64(v.Len()) * termBytes
	}
	return 8
}

// deep is about the bytes of a value with all it contains, what it has many times as
// often. It gives up above enough.
func deep(v ast.Value, enough uint64) (n uint64) {
	n = length(v)
	add := func(t *ast.Term) bool {
		n += deep(t.Value, enough-min(n, enough))
		return n > enough
	}
	switch v := v.(type) {
	case *ast.Array:
		v.Until(add)
	case ast.Set:
		v.Until(add)
	case ast.Object:
		v.Until(func(key, value *ast.Term) bool { return add(key) || add(value) })
	}
	return n
}

// all is deep of all arguments.
func all(args []*ast.Term) (n uint64) {
	const enough = 2 * maxAllocBytes
	for _, a := range args {
		n += deep(a.Value, enough-min(n, enough))
	}
	return n
}

// guardMade charges for reading the arguments, and for a result so many times as large.
func guardMade(times uint64) guard {
	return func(m *meter, name string, args []*ast.Term) error {
		n := all(args)
		return m.charge(name, n, times*n)
	}
}

// guardText is for functions that read the text they are given, and no more.
func guardText(m *meter, name string, args []*ast.Term) error {
	n := uint64(0)
	for _, a := range args {
		n += length(a.Value)
	}
	return m.charge(name, n, 0)
}

// guardLen is for functions that make a collection of the elements of their arguments.
func guardLen(m *meter, name string, args []*ast.Term) error {
	n := uint64(0)
	for _, a := range args {
		n += length(a.Value)
	}
	return m.charge(name, n, n)
}

func guardConcat(m *meter, name string, args []*ast.Term) error {
	n := deep(args[1].Value, 2*maxAllocBytes)
	return m.charge(name, n, n+n/termBytes*length(args[0].Value))
}

// guardSprintf: fmt allows widths of up to a million.
func guardSprintf(m *meter, name string, args []*ast.Term) error {
	n := all(args)
	made := 2 * n
	if f, ok := args[0].Value.(ast.String); ok {
		digits := 0
		for _, c := range []byte(f) {
			switch {
			case c >= '0' && c <= '9':
				digits++
			case c == '*':
				made += 1e6
				digits = 0
			default:
				digits = 0
			}
			if digits == 4 {
				made += 1e6
			}
		}
		if arguments, ok := args[1].Value.(*ast.Array); ok { // each is formatted as often as it is named
			made += uint64(strings.Count(string(f), "%[")) * deep(arguments, 2*maxAllocBytes)
		}
	}
	return m.charge(name, n, made)
}

func text(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

func guardReplace(m *meter, name string, args []*ast.Term) error {
	s, before, after := text(args[0]), text(args[1]), text(args[2])
	return m.charge(name, uint64(len(s)), uint64(len(s))+uint64(strings.Count(s, before))*uint64(len(after)))
}

func guardReplaceN(m *meter, name string, args []*ast.Term) error {
	s := text(args[1])
	read, made := uint64(0), uint64(len(s))
	if patterns, ok := args[0].Value.(ast.Object); ok {
		patterns.Foreach(func(before, after *ast.Term) {
			read += uint64(len(s))
			made += uint64(strings.Count(s, text(before))) * length(after.Value)
		})
	}
	return m.charge(name, read, made)
}

func guardSplit(m *meter, name string, args []*ast.Term) error {
	s := text(args[0])
	return m.charge(name, uint64(len(s)), uint64(strings.Count(s, text(args[1]))+1)*termBytes)
}

// guardMarshal: each node may be indented, by what the options say.
func guardMarshal(m *meter, name string, args []*ast.Term) error {
	n := deep(args[0].Value, 2*maxAllocBytes)
	indent := uint64(2)
	if len(args) > 1 {
		indent = deep(args[1].Value, maxAllocBytes)
	}
	return m.charge(name, n, 2*n+n/16*indent)
}

// guardParse: a byte makes at most a term or so. Aliases of YAML make copies.
func guardParse(m *meter, name string, args []*ast.Term) error {
	n := length(args[0].Value)
	if s := text(args[0]); strings.HasPrefix(name, "yaml.") {
		if strings.Contains(s, "&") {
			n *= 1 + uint64(strings.Count(s, "*"))
		}
	} else if strings.HasPrefix(name, "json.") {
		if err := refuseExponents(m, name, s); err != nil {
			return err
		}
	}
	return m.charge(name, n, n*16)
}

// guardPatch: a copy copies what copies made, so that each operation may double.
func guardPatch(m *meter, name string, args []*ast.Term) error {
	copies := uint64(0)
	if ops, ok := args[1].Value.(*ast.Array); ok {
		ops.Foreach(func(op *ast.Term) {
			if o, ok := op.Value.(ast.Object); ok {
				if kind := o.Get(ast.InternedTerm("op")); kind != nil && text(kind) == "copy" {
					copies++
				}
			}
		})
	}
	n := all(args)
	if copies > 20 {
		return m.fail("%s: more than 20 copies", name)
	}
	return m.charge(name, n, n<<copies)
}

func guardProduct(m *meter, name string, args []*ast.Term) error {
	n := deep(args[0].Value, maxAllocBytes)
	if n > maxDigits*termBytes {
		return m.fail("%s: arguments are too large", name)
	}
	return guardLen(m, name, args)
}

func guardPairs(m *meter, name string, args []*ast.Term) error {
	n := all(args)
	work := mul(length(args[0].Value)/termBytes+1, length(args[len(args)-1].Value)/termBytes+1)
	if work > maxWork {
		return m.fail("%s: arguments are too large", name)
	}
	return m.charge(name, n+work*8, n)
}

func guardRange(m *meter, name string, args []*ast.Term) error {
	var n [3]int64
	n[2] = 1
	for i, a := range args {
		number, _ := a.Value.(ast.Number)
		v, ok := number.Int64()
		if !ok {
			if len(number) > 18 {
				return m.fail("%s: numbers are too large", name)
			}
			return nil // the function says what is wrong
		}
		n[i] = v
	}
	if n[2] <= 0 {
		return nil
	}
	lo, hi := min(n[0], n[1]), max(n[0], n[1])
	count := (uint64(hi)-uint64(lo))/uint64(n[2]) + 1 // as unsigned, so that it does not overflow
	return m.charge(name, 0, mul(count, termBytes))
}

func guardExpand(m *meter, name string, args []*ast.Term) error {
	address, prefix, ok := strings.Cut(text(args[0]), "/")
	size := 32
	if strings.Contains(address, ":") {
		size = 128
	}
	n := 0
	for _, c := range prefix {
		n = n*10 + int(c-'0')
		if c < '0' || c > '9' || n > size {
			return nil // the function says what is wrong
		}
	}
	if ok && size-n > 16 {
		return m.fail("%s: more than 65536 addresses", name)
	}
	return m.charge(name, 0, termBytes<<(size-n))
}

// guardNumbers: products of products double their digits.
func guardNumbers(m *meter, name string, args []*ast.Term) error {
	for _, a := range args {
		n, ok := a.Value.(ast.Number)
		if !ok || len(n) < 20 && !strings.ContainsAny(string(n), "eE") {
			continue
		}
		if len(n) > maxDigits {
			return m.fail("%s: numbers are too large", name)
		}
		if err := refuseExponents(m, name, string(n)); err != nil {
			return err
		}
	}
	return nil
}

func guardShift(m *meter, name string, args []*ast.Term) error {
	if n, ok := args[1].Value.(ast.Number); ok {
		if by, ok := n.Int64(); !ok || by > maxDigits {
			return m.fail("%s: shift is over %d", name, maxDigits)
		}
	}
	return guardNumbers(m, name, args[:1])
}

func guardNumberText(m *meter, name string, args []*ast.Term) error {
	s := text(args[0])
	if len(s) > maxDigits {
		return m.fail("%s: number is too large", name)
	}
	return refuseExponents(m, name, s)
}

// refuseExponents refuses text in which a number has an exponent of many digits.
func refuseExponents(m *meter, name, s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] != 'e' && s[i] != 'E' {
			continue
		}
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		start := j
		for j < len(s) && s[j] >= '0' && s[j] <= '9' {
			j++
		}
		if j-start > maxExponent && i > 0 && (s[i-1] == '.' || s[i-1] >= '0' && s[i-1] <= '9') {
			return m.fail("%s: exponent of a number is too large", name)
		}
	}
	return nil
}

// regexWork bounds the time of RE2, which is text by states of the expression.
func regexWork(pattern, s string) uint64 {
	states := uint64(len(pattern))
	if strings.Contains(pattern, "{") {
		states *= 1000 // what regexp allows as a repetition, nested ones multiplied
	}
	return states / 16 * uint64(utf8.RuneCountInString(s))
}

// guardRegex finds pattern and text by their places in the functions of Rego.
func guardRegex(m *meter, name string, args []*ast.Term) error {
	pattern, s := text(args[0]), text(args[1])
	work := regexWork(pattern, s)
	if work > maxWork {
		return m.fail("%s: arguments are too large", name)
	}
	made := uint64(0)
	if name != "regex.match" && name != "re_match" {
		made = uint64(len(s)+1) * termBytes
	}
	return m.charge(name, uint64(len(s)+len(pattern))+work, made)
}

func guardRegexReplace(m *meter, name string, args []*ast.Term) error {
	s, pattern, value := text(args[0]), text(args[1]), text(args[2])
	work := regexWork(pattern, s)
	if work > maxWork {
		return m.fail("%s: arguments are too large", name)
	}
	return m.charge(name, uint64(len(s))+work, uint64(len(s))+mul(uint64(len(s)+1), uint64(len(value))))
}

// guardGlob: a glob looks for the text between two stars wherever it may be, in halves.
func guardGlob(m *meter, name string, args []*ast.Term) error {
	pattern, s := text(args[0]), text(args[len(args)-1])
	work := uint64(len(pattern) + 1)
	for range bits.Len(uint(strings.Count(pattern, "*") + strings.Count(pattern, "{"))) {
		work = min(mul(work, uint64(len(s)+1)), 1<<40)
	}
	if len(pattern) > 1024 || work > maxWork {
		return m.fail("%s: arguments are too large", name)
	}
	return m.charge(name, uint64(len(s))+work, 0)
}

// mul multiplies without overflow.
func mul(a, b uint64) uint64 { return min(a, 1<<31) * min(b, 1<<31) }
