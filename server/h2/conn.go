package h2

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// prefaceTimeout bounds the time until a client has said that it speaks HTTP/2.
	prefaceTimeout = 10 * time.Second
	// lingerTimeout is how long a connection that has ended stays open for the client to read why. Closing it with
	// bytes unread would make the kernel take back what is on its way.
	lingerTimeout = time.Second
	// tailTimeout is how long it stays open for a client that has not taken the end of its last answer.
	tailTimeout = 30 * time.Second
	readBuffer  = 4 << 10
)

var (
	errClientGone     = errors.New("http2: client disconnected")
	errHandlerDone    = errors.New("http2: the handler has returned")
	errMissingPreface = errors.New("http2: no client preface")
)

// conn is one connection.
type conn struct {
	number  uint64 // in its server, from 1
	server  *server
	hs      *http.Server
	tls     *tls.Conn
	state   *tls.ConnectionState
	handler http.Handler
	remote  string
	cork    *corkedConn // nil: writes wait for the client
	paced   *pacedConn  // nil: not of a Listener
	// flushPromised is flushLater.
	flushPromised func()
	// values has the values of the contexts of requests; they end by themselves.
	values context.Context
	// ended says that the server ends the contexts of all requests.
	ended func() bool

	// Owned by the goroutine of serve.
	reader     *bufio.Reader
	framer     *http2.Framer // its writing half is guarded by mu
	names      map[string]string
	namesBytes int
	noise      noise

	mu sync.Mutex
	// All that follows is guarded by mu.
	out output

	streams map[uint32]*stream
	// lastID is the highest stream that a client has opened.
	lastID uint32
	// ours are streams that were reset here a moment ago. What was on its way to them is no error of the client.
	ours     [16]uint32
	oursNext int
	inflow   inflow
	// handlers is how many run, those of streams that are closed among them; queued wait for one to end.
	handlers int
	queued   []*stream
	idle     []*worker // wait for the next

	sawSettings     bool
	unackedSettings int
	goAway          bool
	goAwayCode      http2.ErrCode
	closed          bool // nothing can be sent any more

	timer     *time.Timer // calls tick
	timerAt   time.Time   // zero: not set
	idleSince time.Time   // zero: before the preface
	closeAt   time.Time   // zero: not known
	closeBy   time.Time   // closeAt is put off until then
	pace      pace
}

func newConn(s *server, hs *http.Server, t *tls.Conn, h http.Handler) *conn {
	state := t.ConnectionState()
	c := &conn{
		number: s.connections.Add(1), server: s, hs: hs, tls: t, state: &state, handler: h, remote: t.RemoteAddr().String(),
		streams: map[uint32]*stream{},
	}
	c.flushPromised = c.flushLater
	c.out.init(&s.buffers)
	c.inflow.init(s.ConnectionWindow)
	switch below := t.NetConn().(type) {
	case *corkedConn:
		c.cork, c.paced = below, below.pacedConn
		below.cork(&s.buffers, c.drained)
	case *pacedConn:
		c.paced = below
	}
	c.reader = bufio.NewReaderSize(t, readBuffer)
	c.framer = http2.NewFramer(&c.out, &frameReader{r: c.reader})
	c.noise.since = time.Now()
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(s.MaxReadFrameSize)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	c.framer.MaxHeaderListSize = maxHeaderListSize(hs)
	return c
}

// maxHeaderListSize is hs.MaxHeaderBytes in the unit of HTTP/2, which has 32 bytes more a field.
func maxHeaderListSize(hs *http.Server) uint32 {
	n := hs.MaxHeaderBytes
	if n <= 0 {
		n = http.DefaultMaxHeaderBytes
	}
	const fields = 10
	return uint32(min(int64(n)+fields*32, maxWindow))
}

// serve reads frames until the connection ends. Contexts of requests inherit from ctx.
func (c *conn) serve(ctx context.Context, stopping bool) {
	if c.paced != nil {
		c.paced.tell(c.hurry)
	}
	c.values = context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, c.cancelStreams)
	c.ended = func() bool { return ctx.Err() != nil }
	defer stop()
	defer c.teardown()

	if reason := inadequate(c.state); reason != "" {
		c.abort(http2.ErrCodeInadequateSecurity, reason)
		return
	}
	c.greet(stopping)
	if err := c.readPreface(); err != nil {
		return
	}
	c.readFrames()
}

// inadequate says why TLS is not what RFC 9113, section 9.2, wants. Of the cipher suites of TLS 1.2 these are the
// ones of crypto/tls that it does not prohibit.
func inadequate(state *tls.ConnectionState) string {
	switch {
	case state.Version >= tls.VersionTLS13:
		return ""
	case state.Version < tls.VersionTLS12:
		return "TLS version too low"
	}
	switch state.CipherSuite {
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return ""
	}
	return "prohibited cipher suite " + tls.CipherSuiteName(state.CipherSuite)
}

// greet sends the settings.
func (c *conn) greet(stopping bool) {
	c.mu.Lock()
	_ = c.framer.WriteSettings( // of output: it cannot fail
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: c.server.MaxReadFrameSize},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: c.server.MaxConcurrentStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: c.server.StreamWindow},
		http2.Setting{ID: http2.SettingNoRFC7540Priorities, Val: 1},
	)
	c.unackedSettings++
	if more := c.server.ConnectionWindow - firstWindow; more > 0 {
		_ = c.framer.WriteWindowUpdate(0, more)
	}
	if stopping {
		c.goAwayLocked(http2.ErrCodeNo)
	}
	c.unlockAndFlush()
}

// readPreface reads what a client says first. The time is for its settings too, see process.
func (c *conn) readPreface() error {
	if err := c.tls.SetReadDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		return err
	}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.tls, preface); err != nil {
		return err
	}
	if !bytes.Equal(preface, []byte(http2.ClientPreface)) {
		c.abort(http2.ErrCodeProtocol, "no client preface")
		return errMissingPreface
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setStateLocked(http.StateActive)
	c.setStateLocked(http.StateIdle)
	c.idleLocked()
	return nil
}

// readFrames reads frames until the connection ends.
func (c *conn) readFrames() {
	for {
		if !c.frameReady() { // what the frames so far have to be answered with goes together
			c.mu.Lock()
			c.unlockAndFlush()
		}
		f, err := c.framer.ReadFrame()
		if err == nil {
			err = c.process(f)
		}
		if err == nil {
			continue
		}
		var streamError http2.StreamError
		var connError http2.ConnectionError
		if errors.As(err, &streamError) && c.noise.count(time.Now) {
			err = http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
		}
		switch {
		case errors.As(err, &streamError):
			c.refuse(streamError)
		case errors.As(err, &connError):
			c.logf("http2: server connection error from %v: %v", c.remote, err)
			debug := ""
			if detail := c.framer.ErrorDetail(); detail != nil {
				debug = detail.Error()
			}
			c.abort(http2.ErrCode(connError), debug)
			return
		case errors.Is(err, http2.ErrFrameTooLarge):
			c.abort(http2.ErrCodeFrameSize, "frame too large")
			return
		case errors.Is(err, io.ErrUnexpectedEOF):
			// A frame ends before its content does, or the client has gone: then nobody hears this.
			c.abort(http2.ErrCodeProtocol, "frame too short")
			return
		default:
			return // the client has gone, or the server closes the connection
		}
	}
}

// frameReady reports whether the next frame can be read without waiting.
func (c *conn) frameReady() bool {
	const headerSize = 9
	if c.reader.Buffered() < headerSize {
		return false
	}
	h, err := c.reader.Peek(headerSize)
	if err != nil {
		return false
	}
	if http2.FrameType(h[3]) == http2.FrameHeaders && !http2.Flags(h[4]).Has(http2.FlagHeadersEndHeaders) {
		return false // more frames belong to it
	}
	return c.reader.Buffered() >= headerSize+(int(h[0])<<16|int(h[1])<<8|int(h[2]))
}

// abort ends the connection with an error.
func (c *conn) abort(code http2.ErrCode, debug string) {
	c.mu.Lock()
	if !c.closed {
		c.goAway, c.goAwayCode = true, code
		_ = c.framer.WriteGoAway(c.lastID, code, []byte(debug))
	}
	c.closeStreamsLocked(errClientGone)
	c.unlockAndFlush()
	// What comes now is read so that the client can read.
	if c.tls.SetReadDeadline(time.Now().Add(lingerTimeout)) == nil {
		_, _ = io.Copy(io.Discard, c.tls)
	}
}

// goAwayLocked lets the streams that are open end, and no other begin.
func (c *conn) goAwayLocked(code http2.ErrCode) {
	if c.goAway || c.closed {
		return
	}
	c.goAway, c.goAwayCode = true, code
	_ = c.framer.WriteGoAway(c.lastID, code, nil)
	if len(c.streams) == 0 {
		c.lingerLocked()
	}
}

// lingerLocked closes the connection in a moment, or when the client has taken what is on its way.
func (c *conn) lingerLocked() {
	if c.closeAt.IsZero() {
		now := time.Now()
		c.closeAt, c.closeBy = now.Add(lingerTimeout), now.Add(tailTimeout)
		c.armLocked(c.closeAt)
	}
}

// lingersLocked reports whether a connection that should be closed is not yet, for the client's sake.
func (c *conn) lingersLocked(now time.Time) bool {
	if c.closed || !now.Before(c.closeBy) || !c.out.flushing && len(c.out.buf) == 0 {
		return false
	}
	c.closeAt = now.Add(lingerTimeout)
	return true
}

// teardown ends what depends on the connection.
func (c *conn) teardown() {
	c.mu.Lock()
	c.closed = true
	c.closeStreamsLocked(errClientGone)
	c.queued = nil
	c.dismissLocked()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	_ = c.tls.Close()
}

// cancelStreams ends the contexts of all requests.
func (c *conn) cancelStreams() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.streams {
		st.cancel()
	}
}

func (c *conn) closeStreamsLocked(err error) {
	for _, st := range c.streams {
		c.closeLocked(st, err)
	}
}

// setStateLocked calls the hook of the http.Server.
func (c *conn) setStateLocked(state http.ConnState) {
	if c.hs.ConnState != nil {
		c.hs.ConnState(c.tls, state)
	}
}

// logf logs to where the http.Server does.
func (c *conn) logf(format string, args ...any) {
	if l := c.hs.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
