package document

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrTooLarge is wrapped by the error for a document of more bytes than allowed.
var ErrTooLarge = errors.New("document too large")

// SyntaxError reports bytes that are no acceptable JSON text. Where encoding/json
// refuses them too, Msg and Offset are its own, but for a text that ends too early,
// which is always called so.
type SyntaxError struct {
	Offset int64 // bytes read when the error was found, the offending one included
	Msg    string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s (offset %d)", e.Msg, e.Offset)
}

func syntaxError(offset int, msg string) error {
	return &SyntaxError{Offset: int64(offset), Msg: msg}
}

// unexpected reports raw[at], or that the text ends there.
func unexpected(raw []byte, at int, context string) error {
	if at >= len(raw) {
		return syntaxError(len(raw), "unexpected end of JSON input")
	}
	return syntaxError(at+1, "invalid character "+quoteChar(raw[at])+" "+context)
}

// quoteChar spells c as encoding/json does in its messages.
func quoteChar(c byte) string {
	switch c {
	case '\'':
		return `'\''`
	case '"':
		return `'"'`
	}
	s := strconv.Quote(string(rune(c)))
	return "'" + s[1:len(s)-1] + "'"
}

var (
	errNotCanonical = errors.New("document is not canonical JSON")
	errAbsent       = errors.New("document is absent")
	errDepth        = errors.New("document is nested deeper than 10000 containers")
)

// quoteText quotes a path or name for a message, shortened when it is long.
func quoteText(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
