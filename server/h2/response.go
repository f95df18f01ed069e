package h2

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// responseBuffer is how much of an answer is kept before its header goes, as in net/http: an answer that is not longer
// gets a Content-Length.
const responseBuffer = 4 << 10

var errFinished = errors.New("http2: response used after its handler has returned")

// response is the http.ResponseWriter of a stream. It is owned by the handler.
type response struct {
	stream  *stream
	scratch *scratch // nil: before and after the handler

	header   http.Header // what the handler sees
	trailers []string    // names of declared trailers
	status   int
	// declared is Content-Length, -1: the handler said nothing. written is how much it has written.
	declared, written int64

	wroteHeader bool // WriteHeader was called
	sentHeader  bool // the header block is in the output; guarded by mu of the connection
	typed       bool // the handler decides on Content-Type,
	unmeasured  bool // wants no Content-Length,
	dated       bool // and decides on Date
	finished    bool // the handler has returned
}

// ChunkWriter is what the ResponseWriter of a request by HTTP/2 is too, below what wraps it.
type ChunkWriter interface {
	// WriteChunks writes chunks one after the other and, with flush, sends all that was written, as Write of each and
	// FlushError do. A frame is made of them at once, without a copy that waits for more. It keeps nothing of chunks.
	WriteChunks(chunks [][]byte, flush bool) error
	// OfferChunks is WriteChunks with flush where there is nothing to wait for. Where there is, nothing is written. What
	// was taken is sent by later, at the latest; it is nil where that of another answer on the connection, or who sends
	// just now, does it. Neither waits for the client. The handler may not use the answer at the same time. To offer
	// nothing asks whether anything may be taken.
	OfferChunks(chunks [][]byte) (taken bool, later func())
	// Connection is the number of the connection in its server.
	Connection() uint64
}

var (
	_ ChunkWriter  = (*response)(nil)
	_ http.Flusher = (*response)(nil)
	_ interface {
		FlushError() error
		SetReadDeadline(time.Time) error
		SetWriteDeadline(time.Time) error
		EnableFullDuplex() error
		WriteString(string) (int, error)
	} = (*response)(nil)
)

// scratch is memory that an answer needs for a while.
type scratch struct {
	buf    []byte  // written and not sent, its capacity is responseBuffer
	fields []field // the header as it was at WriteHeader
}

type field struct{ name, value string }

func (s *server) acquireScratch() *scratch {
	if x, ok := s.scratch.Get().(*scratch); ok {
		return x
	}
	return &scratch{buf: make([]byte, 0, responseBuffer)}
}

func (s *server) releaseScratch(x *scratch) {
	clear(x.fields)
	x.buf, x.fields = x.buf[:0], x.fields[:0]
	s.scratch.Put(x)
}

// sendContinue says that the body of the request is wanted.
func (w *response) sendContinue() { w.sendInformation(http.StatusContinue, nil) }

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(code int) {
	if w.wroteHeader || w.finished {
		return
	}
	if code < 100 || code > 999 { // as net/http: nothing could be sent
		panic("invalid WriteHeader code " + strconv.Itoa(code))
	}
	if code < 200 {
		w.sendInformation(code, w.header)
		return
	}
	w.wroteHeader = true
	w.status = code
	w.declared = -1
	fields := w.scratch.fields[:0]
	for name, values := range w.header {
		switch name {
		case "Connection": // a handler that closes a connection of HTTP/1.1 closes this one when it is idle
			if len(values) > 0 && values[0] == "close" {
				w.closeWhenIdle()
			}
		case "Content-Length":
			if len(values) == 0 {
				w.unmeasured = true
			} else if n, err := strconv.ParseUint(values[0], 10, 63); err == nil {
				w.declared = int64(n)
			}
			continue
		case "Content-Type":
			w.typed = true
		case "Content-Encoding":
			w.typed = w.typed || len(values) > 0 && values[0] != ""
		case "Date":
			w.dated = true
		case "Trailer":
			for _, value := range values {
				for name := range strings.SplitSeq(value, ",") {
					w.declareTrailer(strings.TrimSpace(name))
				}
			}
		}
		if connectionField(name) {
			continue
		}
		for _, value := range values {
			fields = append(fields, field{name, value})
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	w.scratch.fields = fields
}

// closeWhenIdle lets the connection end after its streams.
func (w *response) closeWhenIdle() {
	c := w.stream.conn
	c.mu.Lock()
	c.goAwayLocked(http2.ErrCodeNo)
	c.unlockAndFlush()
}

// declareTrailer notes the name of a field that follows the body.
func (w *response) declareTrailer(name string) {
	if name = http.CanonicalHeaderKey(name); name == "" || slices.Contains(w.trailers, name) {
		return
	}
	if !httpguts.ValidTrailerHeader(name) {
		w.stream.conn.logf("http2: ignoring invalid trailer %q", name)
		return
	}
	w.trailers = append(w.trailers, name)
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if err := w.writing(len(p)); err != nil {
		return 0, err
	}
	x := w.scratch
	if len(x.buf)+len(p) <= responseBuffer {
		x.buf = append(x.buf, p...)
		return len(p), nil
	}
	// The end of an answer of known length stays for the handler's return, so that it goes in one frame with
	// END_STREAM.
	var tail []byte
	body := p
	if w.written == w.declared {
		keep := min(len(p), responseBuffer)
		body, tail = p[:len(p)-keep], p[len(p)-keep:]
	}
	if err := w.send(x.buf, body); err != nil {
		return 0, err
	}
	x.buf = append(x.buf[:0], tail...)
	return len(p), nil
}

// WriteChunks implements ChunkWriter.
func (w *response) WriteChunks(chunks [][]byte, flush bool) error {
	size := 0
	for _, chunk := range chunks {
		size += len(chunk)
	}
	if err := w.writing(size); err != nil {
		return err
	}
	c := w.stream.conn
	c.mu.Lock()
	err := w.appendLocked(w.scratch.buf, nil, false)
	w.scratch.buf = w.scratch.buf[:0]
	if err == nil && w.stream.request.Method != http.MethodHead {
		err = c.chunksLocked(w.stream, chunks, size)
	}
	if flush {
		c.unlockAndFlush()
	} else {
		c.mu.Unlock()
	}
	return err
}

// Connection implements ChunkWriter.
func (w *response) Connection() uint64 { return w.stream.conn.number }

// OfferChunks implements ChunkWriter.
func (w *response) OfferChunks(chunks [][]byte) (taken bool, later func()) {
	size := 0
	for _, chunk := range chunks {
		size += len(chunk)
	}
	if w.finished || !w.wroteHeader || len(w.scratch.buf) > 0 || w.declared >= 0 || !bodyAllowed(w.status) {
		return false, nil
	}
	c, st := w.stream.conn, w.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cork == nil || c.closed || !w.sentHeader || st.request.Method == http.MethodHead {
		return false, nil
	}
	if size == 0 {
		return true, nil
	}
	if !c.fitsLocked(st, size) {
		return false, nil
	}
	w.written += int64(size)
	c.framesLocked(st, chunks, 0, size)
	switch {
	case c.out.flushing:
	case len(c.out.buf) >= maxPromised:
		c.out.flushing = true
		go c.flush()
	case !c.out.promised:
		c.out.promised = true
		later = c.flushPromised
	}
	return true, later
}

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) {
	if w.scratch == nil || len(w.scratch.buf)+len(s) > responseBuffer {
		return w.Write([]byte(s))
	}
	if err := w.writing(len(s)); err != nil {
		return 0, err
	}
	w.scratch.buf = append(w.scratch.buf, s...)
	return len(s), nil
}

// writing notes that n bytes are written, and says if they must not be.
func (w *response) writing(n int) error {
	if w.finished {
		return errFinished
	}
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(w.status) {
		return http.ErrBodyNotAllowed
	}
	if w.declared >= 0 && w.written+int64(n) > w.declared {
		return http.ErrContentLength
	}
	w.written += int64(n)
	return nil
}

// bodyAllowed is that of net/http.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what was written. It returns why the stream is closed, if it is.
func (w *response) FlushError() error {
	if w.finished {
		return errFinished
	}
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	err := w.send(w.scratch.buf, nil)
	w.scratch.buf = w.scratch.buf[:0]
	return err
}

// SetReadDeadline bounds the reading of the request's body, see http.ResponseController.
func (w *response) SetReadDeadline(at time.Time) error {
	w.stream.setReadDeadline(at)
	return nil
}

// SetWriteDeadline bounds the answer, see http.ResponseController.
func (w *response) SetWriteDeadline(at time.Time) error {
	w.stream.setWriteDeadline(at)
	return nil
}

// EnableFullDuplex does nothing: a stream always is.
func (w *response) EnableFullDuplex() error { return nil }

// finish sends the rest and ends the stream. unread is how much of the body nobody has read.
func (w *response) finish(unread int) {
	if !w.wroteHeader {
		w.WriteHeader(http.StatusOK)
	}
	for name, values := range w.header { // trailers that were not declared, see http.TrailerPrefix
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.declareTrailer(name)
			w.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	c, st := w.stream.conn, w.stream
	short := w.declared >= 0 && w.written < w.declared && bodyAllowed(w.status) && st.request.Method != http.MethodHead
	c.mu.Lock()
	c.giveLocked(nil, unread)
	switch err := w.appendLocked(w.scratch.buf, nil, !short); {
	case err != nil:
	case short: // the handler promised more: the client must not take this for the whole
		c.resetLocked(st, http2.ErrCodeInternal, errHandlerDone)
	default:
		if !st.requestEnded && !st.closed { // section 8.1: the rest of the request is not wanted
			c.rstLocked(st.id, http2.ErrCodeNo)
		}
		c.closeLocked(st, errHandlerDone)
	}
	c.unlockAndFlush()
}
