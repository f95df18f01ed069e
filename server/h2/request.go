package h2

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// newRequest makes the request of a header block, as RFC 9113, section 8.3, and net/http have it, and says who
// handles it.
func (c *conn) newRequest(ctx context.Context, st *stream, f *http2.MetaHeadersFrame) error {
	method, scheme, authority, path := "", "", "", ""
	for _, field := range f.PseudoFields() {
		switch field.Name {
		case ":method":
			method = field.Value
		case ":scheme":
			scheme = field.Value
		case ":authority":
			authority = field.Value
		case ":path":
			path = field.Value
		default: // :protocol, which SETTINGS_ENABLE_CONNECT_PROTOCOL has not allowed
			return malformed(st)
		}
	}
	connect := method == http.MethodConnect
	switch {
	case connect && (path != "" || scheme != "" || authority == ""): // section 8.5
		return malformed(st)
	case connect:
	case method == "" || scheme != "https" && scheme != "http" || path == "" || path[0] != '/' && path != "*":
		return malformed(st)
	}

	header := c.header(f.RegularFields())
	for name := range header {
		if connectionField(name) { // section 8.2.2
			return malformed(st)
		}
	}
	if te := header["Te"]; len(te) > 1 || len(te) == 1 && te[0] != "trailers" && te[0] != "" {
		return malformed(st) // likewise
	}
	if hosts := header["Host"]; len(hosts) > 0 { // section 8.3.1
		if len(hosts) > 1 || authority != "" && authority != hosts[0] {
			return malformed(st)
		}
		authority = hosts[0]
		delete(header, "Host")
	}
	if strings.IndexByte(authority, '@') >= 0 || !httpguts.ValidHostHeader(authority) {
		return malformed(st)
	}
	if cookies := header["Cookie"]; len(cookies) > 1 { // section 8.2.3
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if expect := header["Expect"]; len(expect) > 0 && httpguts.HeaderValuesContainsToken(expect, "100-continue") {
		st.body.expectContinue = true
		delete(header, "Expect")
	}

	target := &url.URL{Host: authority}
	uri := authority
	if !connect {
		var err error
		if target, err = url.ParseRequestURI(path); err != nil {
			return malformed(st)
		}
		uri = path
	}
	length, err := c.bodyOf(st, header, f.StreamEnded())
	if err != nil {
		return err
	}
	request := (&http.Request{
		Method: method, URL: target, Proto: "HTTP/2.0", ProtoMajor: 2, Header: header, Body: http.NoBody,
		ContentLength: length, Host: authority, Trailer: trailerOf(header), RemoteAddr: c.remote, RequestURI: uri,
	}).WithContext(ctx)
	if scheme == "https" {
		request.TLS = c.state
	}
	if !st.requestEnded {
		request.Body = &st.body
	}
	st.request = request
	st.handler = c.handlerOf(request, f.Truncated)
	return nil
}

// malformed says that a request is not one, section 8.1.1.
func malformed(st *stream) error { return streamError(st.id, http2.ErrCodeProtocol) }

// bodyOf notes what is known of the body, and returns its length, -1: unknown.
func (c *conn) bodyOf(st *stream, header http.Header, ended bool) (int64, error) {
	declared := int64(-1)
	if values := header["Content-Length"]; len(values) > 0 {
		n, err := strconv.ParseUint(values[0], 10, 63)
		if err != nil || len(values) > 1 || ended && n > 0 { // section 8.1.1
			return 0, malformed(st)
		}
		declared = int64(n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st.declared, st.requestEnded = declared, ended
	if ended {
		return 0, nil
	}
	return declared, nil
}

// trailerOf takes the names of fields that follow the body out of a header.
func trailerOf(header http.Header) http.Header {
	values, ok := header["Trailer"]
	if !ok {
		return nil
	}
	delete(header, "Trailer")
	var trailer http.Header
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			switch name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)); name {
			case "", "Transfer-Encoding", "Trailer", "Content-Length": // as net/http
			default:
				if trailer == nil {
					trailer = http.Header{}
				}
				trailer[name] = nil
			}
		}
	}
	return trailer
}

// handlerOf returns who answers: the server's handler, unless the request is one that it need not see.
func (c *conn) handlerOf(r *http.Request, truncated bool) http.Handler {
	if truncated {
		return refusal(http.StatusRequestHeaderFieldsTooLarge, "request header fields too large")
	}
	if r.Method == http.MethodConnect {
		return refusal(http.StatusMethodNotAllowed, "CONNECT is not supported")
	}
	return c.handler
}

// refusal answers without asking anybody.
func refusal(code int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) })
}

// manyFields is how many fields of a request there is room for from the first. A client can repeat one that it has named
// before for a byte: room for as many names would cost it next to nothing, and much here.
const manyFields = 32

// header returns fields as net/http has them. The values of the first names share one array.
func (c *conn) header(fields []hpackField) http.Header {
	room := min(len(fields), manyFields)
	header := make(http.Header, room)
	values := make([]string, 0, room)
	for _, field := range fields {
		name := c.canonicalName(field.Name)
		if earlier, ok := header[name]; ok {
			header[name] = append(earlier, field.Value)
			continue
		}
		values = append(values, field.Value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return header
}

// maxNames bounds what a connection remembers of the spelling of names, in bytes.
const maxNames = 4 << 10

// canonicalName spells the name of a field as net/http does.
func (c *conn) canonicalName(name string) string {
	if known, ok := c.names[name]; ok {
		return known
	}
	canonical := http.CanonicalHeaderKey(name)
	if size := 2*len(name) + 100; c.namesBytes+size <= maxNames {
		if c.names == nil {
			c.names = map[string]string{}
		}
		c.names[name] = canonical
		c.namesBytes += size
	}
	return canonical
}
