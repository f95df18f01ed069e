package endpoints

import (
	"bufio"
	"encoding/json"
	"net/http"
	"time"
)

// stream is what the events of a watch are sent on.
type stream interface {
	// write sends the frame of an event, now or when flush is called; last says that flush is what follows. It keeps
	// nothing of chunks.
	write(chunks [][]byte, last bool)
	// flush sends what was written. It reports whether the client still listens.
	flush() bool
	// offers reports whether offer may take something, and the number of the connection.
	offers() (connection uint64, ok bool)
	// offer is write and flush where there is nothing to wait for; where there is, it takes nothing. later is as that of
	// rest.Take. Another goroutine may call it while nothing else is done with the stream.
	offer(chunks [][]byte) (taken bool, later func())
}

// answerWatch begins the answer to a watch of a time, calls send and ends it. cancel ends the watch before its time: it
// is called when the client leaves. The error is one of a request that no answer has begun for.
func answerWatch(w http.ResponseWriter, req *http.Request, timeout time.Duration, cancel func(), send func(stream)) error {
	if wantsWebSocket(req) {
		return answerSocket(w, req, timeout, cancel, send)
	}
	out := newPlainStream(w, timeout)
	defer out.close()
	out.start()
	send(out)
	return nil
}

// writeWatchError ends a stream with an ERROR event.
func writeWatchError(out stream, err error) {
	raw, marshalErr := json.Marshal(statusOf(err))
	if marshalErr != nil {
		return
	}
	out.write([][]byte{frameError, raw, frameEnd}, true)
	out.flush()
}

// plainStream writes frames, one after the other, as the body of an answer.
type plainStream struct {
	w http.ResponseWriter
	// buf is nil while there is nothing to send: a watch that waits holds none.
	buf     *bufio.Writer
	control *http.ResponseController
	// direct takes whole frames; nil where the connection does not.
	direct  chunkWriter
	flushed bool // by direct
	err     error
}

// chunkWriter is a ResponseWriter that sends chunks as one piece; that of package h2 is.
type chunkWriter interface {
	// WriteChunks writes chunks and, with flush, sends what was written. It keeps nothing of them.
	WriteChunks(chunks [][]byte, flush bool) error
	// OfferChunks is WriteChunks with flush, or does nothing where that would wait. later is as that of rest.Take. To offer
	// nothing asks whether anything may be taken.
	OfferChunks(chunks [][]byte) (taken bool, later func())
	// Connection is the number of the connection.
	Connection() uint64
}

// direct returns the chunkWriter below w, whose answer must have begun by w: those that wrap it have seen that. It is
// nil where there is none.
func direct(w http.ResponseWriter) chunkWriter {
	for {
		if found, ok := w.(chunkWriter); ok {
			return found
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}

func newPlainStream(w http.ResponseWriter, timeout time.Duration) *plainStream {
	s := &plainStream{w: w, control: http.NewResponseController(w)}
	// The times of the server are for requests of another kind. A connection that cannot have others is bound by them.
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Now().Add(timeout + watchDrain))
	return s
}

// start sends the header, so that a client knows that the watch is on.
func (s *plainStream) start() {
	s.w.Header().Set("Content-Type", mediaTypeJSON)
	s.w.WriteHeader(http.StatusOK)
	s.flush()
	s.direct = direct(s.w)
}

func (s *plainStream) write(chunks [][]byte, last bool) {
	if s.direct != nil {
		if s.err == nil {
			s.err = s.direct.WriteChunks(chunks, last)
			s.flushed = last
		}
		return
	}
	if s.buf == nil {
		s.buf = acquireBuffer(s.w)
	}
	for _, chunk := range chunks {
		if s.err == nil {
			_, s.err = s.buf.Write(chunk)
		}
	}
}

func (s *plainStream) flush() bool {
	if s.flushed {
		s.flushed = false
		return s.err == nil
	}
	if s.buf != nil {
		if s.err == nil {
			s.err = s.buf.Flush()
		}
		releaseBuffer(s.buf)
		s.buf = nil
	}
	if s.err == nil {
		s.err = s.control.Flush()
	}
	return s.err == nil
}

func (s *plainStream) offers() (connection uint64, ok bool) {
	if s.direct == nil {
		return 0, false
	}
	taken, _ := s.direct.OfferChunks(nil)
	return s.direct.Connection(), taken
}

func (s *plainStream) offer(chunks [][]byte) (taken bool, later func()) {
	if s.direct == nil || s.err != nil {
		return false, nil
	}
	return s.direct.OfferChunks(chunks)
}

// close hands the buffer back. The end of the answer has its time too: on a connection of HTTP/1.1 the server would wait for
// ever for a client that does not read. The next request is not bound by it.
func (s *plainStream) close() {
	if s.buf != nil {
		releaseBuffer(s.buf)
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(watchDrain))
}
