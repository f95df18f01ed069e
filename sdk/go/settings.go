package weir

import (
	"errors"
	"strconv"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/sdk/go/internal/codec"
)

// Settings decodes the settings of the module into a pointer. Without settings
// it is left as it is. Configure does so, once:
//
//	func (g *Guard) Configure(ctx *weir.Context) weir.ErrorList {
//		return ctx.Settings(g)
//	}
//
// It is strict: a member that the type has no field for is an error, which names
// those that there are, so that a misspelt setting is refused and not ignored. A
// value that does not fit is an error, too. [Context.LenientSettings] takes what
// is unknown.
func (c *Context) Settings(into any) ErrorList {
	raw := c.read(abi.SlotSettings)
	if raw == nil {
		return nil
	}
	return append(unknownSettings(c.codec.Unknown(raw, into)), c.decodeSettings(raw, into)...)
}

// LenientSettings is Settings for a module that is given settings which it does
// not know, as one that others share them with: they are passed over.
func (c *Context) LenientSettings(into any) ErrorList {
	raw := c.read(abi.SlotSettings)
	if raw == nil {
		return nil
	}
	return c.decodeSettings(raw, into)
}

func (c *Context) decodeSettings(raw []byte, into any) ErrorList {
	err := c.codec.Decode(raw, into)
	var e *codec.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e) || e.Path == "":
		return ErrorList{TypeInvalid("settings", nil, err.Error())}
	}
	wrong := TypeInvalid(Path(e.Path), nil, e.Detail)
	if e.Value != nil {
		var value any
		if c.codec.Decode(e.Value, &value) == nil {
			wrong.Value = value
		}
	}
	return ErrorList{wrong}
}

// configure runs the hook; nil is that the strategy has none.
func (c *Context) configure(s Configurer) {
	if s != nil {
		if errs := s.Configure(c); len(errs) > 0 {
			c.refuse(errs)
			return
		}
	}
	if c.inputs[abi.SlotSettings] == nil { // nobody has read them
		c.refuse(c.Settings(&struct{}{}))
	}
}

func unknownSettings(unknown []codec.UnknownField) (errs ErrorList) {
	for _, u := range unknown {
		errs = append(errs, Forbidden(Path(u.Path), unknownSetting(u.Name, u.Known)))
	}
	return errs
}

// unknownSetting says that there is no setting of a name, and which there are.
func unknownSetting(name string, known []string) string {
	if len(known) == 0 {
		return "unknown setting; there are none"
	}
	var b strings.Builder
	b.WriteString("unknown setting")
	if near := nearest(name, known); near != "" {
		b.WriteString(", did you mean " + strconv.Quote(near) + "?")
	} else {
		b.WriteByte(';')
	}
	b.WriteString(" there are ")
	for i, k := range known {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(k))
	}
	return b.String()
}

// nearest is what a name may be meant to be, of those there are: what a change of
// a third of its letters leads to, capital or not. It is empty if that is none.
func nearest(name string, known []string) string {
	const longest = 100 // of names that anybody would type
	found, least := "", longest
	for _, k := range known {
		if len(name) > longest || len(k) > longest {
			continue
		}
		if n := distance(name, k); n < least && n <= (max(len(name), len(k))+1)/3 {
			found, least = k, n
		}
	}
	return found
}

// distance is how many bytes have to be added, removed or replaced to make b of a,
// whatever letters are capitals.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, one to the left
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if lower(a[i]) != lower(b[j]) {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
