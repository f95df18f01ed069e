package h2

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

type hpackField = hpack.HeaderField

// dateText is the Date of one second.
type dateText struct {
	second int64
	text   string
}

// dateNow returns Date.
func (s *server) dateNow() string {
	now := time.Now()
	if d := s.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
	s.date.Store(d)
	return d.text
}

// send sends the header if it has not gone, then a and b.
func (w *response) send(a, b []byte) error {
	c := w.stream.conn
	c.mu.Lock()
	err := w.appendLocked(a, b, false)
	c.unlockAndFlush()
	return err
}

// appendLocked appends the header if it has not gone, then a and b, and what ends the stream.
func (w *response) appendLocked(a, b []byte, end bool) error {
	c, st := w.stream.conn, w.stream
	if st.closed {
		return st.closeErr
	}
	head := st.request.Method == http.MethodHead
	trailer := end && !head && w.hasTrailer()
	if !w.sentHeader {
		w.sentHeader = true
		// The answer to a HEAD is its header, whatever the handler writes.
		alone := head || end && !trailer && len(a)+len(b) == 0
		w.headerLocked(a, b, end, alone)
		if alone {
			return nil
		}
	}
	if head {
		return nil
	}
	last := end && !trailer
	if len(a) > 0 {
		if err := c.dataLocked(st, a, last && len(b) == 0); err != nil {
			return err
		}
	}
	if len(b) > 0 || last && len(a) == 0 {
		if err := c.dataLocked(st, b, last); err != nil {
			return err
		}
	}
	if trailer {
		w.trailerLocked()
	}
	return nil
}

// headerLocked appends the header block; a and b are how the body begins, and if done there is no more of it.
func (w *response) headerLocked(a, b []byte, done, endStream bool) {
	c := w.stream.conn
	c.beginBlockLocked(w.status)
	for _, f := range w.scratch.fields {
		c.fieldLocked(f.name, f.value)
	}
	length := len(a) + len(b)
	if bodyAllowed(w.status) {
		if !w.typed && length > 0 {
			c.fieldLocked("Content-Type", http.DetectContentType(beginning(a, b)))
		}
		if done && w.declared < 0 && !w.unmeasured && (length > 0 || w.stream.request.Method != http.MethodHead) {
			c.fieldLocked("Content-Length", strconv.Itoa(length))
		}
	}
	if w.declared >= 0 {
		c.fieldLocked("Content-Length", strconv.FormatInt(w.declared, 10))
	}
	if !w.dated {
		c.fieldLocked("Date", c.server.dateNow())
	}
	c.endBlockLocked(w.stream.id, endStream)
}

// beginning returns the bytes by which net/http finds the type of a body.
func beginning(a, b []byte) []byte {
	const sniffed = 512
	if len(a) >= sniffed || len(b) == 0 {
		return a
	}
	return slices.Concat(a, b[:min(len(b), sniffed-len(a))])
}

// hasTrailer reports whether a trailer was declared and set.
func (w *response) hasTrailer() bool {
	return slices.ContainsFunc(w.trailers, func(name string) bool { return len(w.header[name]) > 0 })
}

// trailerLocked ends the stream with the trailers.
func (w *response) trailerLocked() {
	c := w.stream.conn
	slices.Sort(w.trailers)
	c.out.block.Reset()
	for _, name := range w.trailers {
		for _, value := range w.header[name] {
			c.fieldLocked(name, value)
		}
	}
	c.endBlockLocked(w.stream.id, true)
}

// sendInformation sends a header block of status 1xx.
func (w *response) sendInformation(code int, header http.Header) {
	c := w.stream.conn
	c.mu.Lock()
	if !w.stream.closed && !w.sentHeader {
		c.beginBlockLocked(code)
		for _, name := range slices.Sorted(maps.Keys(header)) {
			if name == "Content-Length" || connectionField(name) {
				continue
			}
			for _, value := range header[name] {
				c.fieldLocked(name, value)
			}
		}
		c.endBlockLocked(w.stream.id, false)
	}
	c.unlockAndFlush()
}

// connectionField reports whether a field is about a connection of HTTP/1.1; RFC 9113, section 8.2.2.
func connectionField(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// beginBlockLocked begins a header block of a status.
func (c *conn) beginBlockLocked(status int) {
	c.out.block.Reset()
	text := "200"
	if status != http.StatusOK {
		text = strconv.Itoa(status)
	}
	c.encodeLocked(hpackField{Name: ":status", Value: text})
}

// fieldLocked adds a field to the header block. One that could not be sent is left out, as by net/http.
func (c *conn) fieldLocked(name, value string) {
	lower := c.lowerLocked(name)
	if lower == "" || !httpguts.ValidHeaderFieldValue(value) {
		return
	}
	// What is another with each answer is not worth a place in the table that both sides keep.
	once := lower == "audit-id" || lower == "content-length"
	c.encodeLocked(hpackField{Name: lower, Value: value, Sensitive: once})
}

func (c *conn) encodeLocked(f hpackField) { _ = c.out.encoder.WriteField(f) } // into a buffer: it cannot fail

// endBlockLocked appends the header block. Each of its frames is one that any client takes.
func (c *conn) endBlockLocked(id uint32, endStream bool) {
	block := c.out.block.Bytes()
	n := min(len(block), minFrameSize)
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block[:n], EndStream: endStream, EndHeaders: n == len(block),
	})
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), minFrameSize)
		_ = c.framer.WriteContinuation(id, n == len(block), block[:n])
	}
	c.overflowLocked() // an answer without a body waits for no room
}

// lowerLocked spells the name of a field as HTTP/2 does; "": it is not a name.
func (c *conn) lowerLocked(name string) string {
	if known, ok := c.out.names[name]; ok {
		return known
	}
	lower := ""
	if httpguts.ValidHeaderFieldName(name) {
		lower = strings.ToLower(name)
	}
	if size := 2*len(name) + 100; c.out.namesBytes+size <= maxNames {
		if c.out.names == nil {
			c.out.names = map[string]string{}
		}
		c.out.names[name] = lower
		c.out.namesBytes += size
	}
	return lower
}
