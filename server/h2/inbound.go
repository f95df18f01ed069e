package h2

import (
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// maxSettings is how many settings a frame may have, and bounds what one frame costs.
const maxSettings = 100

func streamError(id uint32, code http2.ErrCode) error {
	return http2.StreamError{StreamID: id, Code: code}
}

func connError(code http2.ErrCode) error { return http2.ConnectionError(code) }

// process handles a frame. What it appends is flushed by readFrames. Its error is an http2.StreamError or an
// http2.ConnectionError. Sections are of RFC 9113.
func (c *conn) process(f http2.Frame) error {
	if !c.sawSettings { // section 3.4
		if s, ok := f.(*http2.SettingsFrame); !ok || s.IsAck() {
			return connError(http2.ErrCodeProtocol)
		}
		c.sawSettings = true
		if err := c.tls.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
	if isNoise(f) && c.noise.count(time.Now) {
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.processHeaders(f)
	case *http2.DataFrame:
		return c.processData(f)
	case *http2.WindowUpdateFrame:
		return c.processWindowUpdate(f)
	case *http2.SettingsFrame:
		return c.processSettings(f)
	case *http2.PingFrame:
		return c.processPing(f)
	case *http2.RSTStreamFrame:
		return c.processReset(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID { // RFC 7540, section 5.3.1; else priorities are ignored
			return streamError(f.StreamID, http2.ErrCodeProtocol)
		}
	case *http2.GoAwayFrame:
		c.mu.Lock()
		c.goAwayLocked(http2.ErrCodeNo)
		c.mu.Unlock()
	case *http2.PushPromiseFrame: // section 8.4
		return connError(http2.ErrCodeProtocol)
	}
	return nil
}

// idleLocked reports whether a client has not begun the stream yet, section 5.1.1.
func (c *conn) isIdleLocked(id uint32) bool { return id%2 == 0 || id > c.lastID }

// refusesLocked reports whether frames of a new stream are ignored: GOAWAY said so, section 6.8.
func (c *conn) refusesLocked(id uint32) bool { return c.goAway && id > c.lastID }

func (c *conn) processHeaders(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	c.mu.Lock()
	switch st := c.streams[id]; {
	case st != nil:
		defer c.mu.Unlock()
		return c.processTrailer(st, f)
	case id%2 == 0: // section 5.1.1
		c.mu.Unlock()
		return connError(http2.ErrCodeProtocol)
	case id <= c.lastID:
		ours := c.resetHereLocked(id)
		c.mu.Unlock()
		if ours { // it was on its way
			return nil
		}
		return connError(http2.ErrCodeStreamClosed) // section 5.1
	case c.goAway:
		c.mu.Unlock()
		return nil
	}
	c.lastID = id
	if uint32(len(c.streams)) >= c.server.MaxConcurrentStreams { // section 5.1.2
		c.mu.Unlock()
		return streamError(id, http2.ErrCodeRefusedStream)
	}
	if f.HasPriority() && f.Priority.StreamDep == id { // RFC 7540, section 5.3.1
		c.mu.Unlock()
		return streamError(id, http2.ErrCodeProtocol)
	}
	st, ctx := c.openLocked(id)
	c.mu.Unlock()

	// Nobody else knows of st, but what may close it.
	if err := c.newRequest(ctx, st, f); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.closed {
		return nil
	}
	now := time.Now()
	if d := c.hs.ReadTimeout; d > 0 && !st.requestEnded {
		st.readDeadline = now.Add(d)
		c.armLocked(st.readDeadline)
	}
	if d := c.hs.WriteTimeout; d > 0 {
		st.writeDeadline = now.Add(d)
		c.armLocked(st.writeDeadline)
	}
	if !c.startLocked(st) { // closed faster than handlers can notice
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// processTrailer takes the second header block of a stream, section 8.1.
func (c *conn) processTrailer(st *stream, f *http2.MetaHeadersFrame) error {
	switch {
	case st.requestEnded: // section 5.1, half-closed
		return streamError(st.id, http2.ErrCodeStreamClosed)
	case !f.StreamEnded(), len(f.PseudoFields()) > 0, f.Truncated:
		return streamError(st.id, http2.ErrCodeProtocol)
	}
	if st.request.Trailer != nil {
		trailer := http.Header{}
		for _, field := range f.RegularFields() {
			name := c.canonicalName(field.Name)
			if !httpguts.ValidTrailerHeader(name) {
				return streamError(st.id, http2.ErrCodeProtocol)
			}
			trailer[name] = append(trailer[name], field.Value)
		}
		st.body.setTrailer(trailer)
	}
	return c.endRequestLocked(st)
}

// endRequestLocked ends the body of a request.
func (c *conn) endRequestLocked(st *stream) error {
	if st.declared >= 0 && st.declared != st.received { // section 8.1.1
		return c.misdeclaredLocked(st)
	}
	st.requestEnded = true
	st.body.end(io.EOF)
	return nil
}

// misdeclaredLocked closes a stream whose body is not as long as it says. Its handler, which is told so, is too late to answer.
func (c *conn) misdeclaredLocked(st *stream) error {
	st.body.end(io.ErrUnexpectedEOF)
	err := streamError(st.id, http2.ErrCodeProtocol)
	c.closeLocked(st, err)
	return err
}

func (c *conn) processData(f *http2.DataFrame) error {
	id, data := f.StreamID, f.Data()
	c.mu.Lock()
	if c.isIdleLocked(id) && !c.refusesLocked(id) { // section 5.1
		c.mu.Unlock()
		return connError(http2.ErrCodeProtocol)
	}
	if !c.inflow.take(f.Length) { // section 6.9.1
		c.mu.Unlock()
		return connError(http2.ErrCodeFlowControl)
	}
	// From here on the connection gets its window back, whatever becomes of the stream.
	st := c.streams[id]
	ours := c.refusesLocked(id) || c.resetHereLocked(id)
	var err error
	switch {
	case st == nil && ours:
	case st == nil, st.requestEnded: // section 6.1
		err = streamError(id, http2.ErrCodeStreamClosed)
	case !st.inflow.take(f.Length):
		err = streamError(id, http2.ErrCodeFlowControl)
	case st.declared >= 0 && st.received+int64(len(data)) > st.declared: // section 8.1.1
		err = c.misdeclaredLocked(st)
	}
	if err != nil || st == nil {
		c.giveLocked(nil, int(f.Length))
		c.mu.Unlock()
		return err
	}
	st.received += int64(len(data))
	kept := 0
	if len(data) > 0 && st.body.write(data, st.declared) {
		kept = len(data)
	}
	if f.StreamEnded() {
		err = c.endRequestLocked(st)
	}
	// None too: what was read before may be worth a frame, now that less of the window is left.
	c.giveLocked(nil, int(f.Length)-kept)
	if kept == len(data) { // of padding; what a handler does not want is not asked for
		if told := st.inflow.give(int(f.Length) - kept); told > 0 && !st.requestEnded {
			_ = c.framer.WriteWindowUpdate(id, told)
			c.overflowLocked()
		}
	}
	c.mu.Unlock()
	return err
}

func (c *conn) processWindowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID == 0 {
		if c.out.window += int64(f.Increment); c.out.window > maxWindow { // section 6.9.1
			return connError(http2.ErrCodeFlowControl)
		}
		c.wakeLocked()
		return nil
	}
	if c.isIdleLocked(f.StreamID) && !c.refusesLocked(f.StreamID) { // section 5.1
		return connError(http2.ErrCodeProtocol)
	}
	st := c.streams[f.StreamID]
	if st == nil {
		return nil
	}
	waits := st.window <= 0
	if st.window += int64(f.Increment); st.window > maxWindow {
		return streamError(f.StreamID, http2.ErrCodeFlowControl)
	}
	if waits && st.window > 0 {
		st.writable.Signal()
	}
	return nil
}

func (c *conn) processReset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdleLocked(f.StreamID) && !c.refusesLocked(f.StreamID) { // section 6.4
		return connError(http2.ErrCodeProtocol)
	}
	if st := c.streams[f.StreamID]; st != nil {
		c.closeLocked(st, http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode})
	}
	return nil
}

func (c *conn) processPing(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	if !c.closed {
		_ = c.framer.WritePing(true, f.Data)
		c.overflowLocked()
	}
	c.mu.Unlock()
	return nil
}

func (c *conn) processSettings(f *http2.SettingsFrame) error {
	c.mu.Lock()
	if f.IsAck() {
		defer c.mu.Unlock()
		if c.unackedSettings--; c.unackedSettings < 0 {
			return connError(http2.ErrCodeProtocol)
		}
		return nil
	}
	if f.NumSettings() > maxSettings {
		c.mu.Unlock()
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	window := c.out.firstWindow
	err := f.ForeachSetting(func(s http2.Setting) error {
		if s.ID == http2.SettingInitialWindowSize {
			window = int64(s.Val)
		}
		return c.applyLocked(s)
	})
	if err == nil {
		err = c.resizeLocked(window)
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	if !c.closed {
		_ = c.framer.WriteSettingsAck()
		c.overflowLocked()
	}
	c.mu.Unlock()
	return nil
}

// applyLocked applies a setting of the client, section 6.5.2, that of the windows apart.
func (c *conn) applyLocked(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.out.encoder.SetMaxDynamicTableSize(s.Val)
	case http2.SettingMaxFrameSize:
		c.out.maxFrame = int(s.Val)
	case http2.SettingNoRFC7540Priorities: // RFC 9218, section 2.1
		if s.Val > 1 {
			return connError(http2.ErrCodeProtocol)
		}
	}
	return nil
}

// resizeLocked changes the windows of all streams, section 6.9.2: once a frame, however often it has the setting.
func (c *conn) resizeLocked(window int64) error {
	more := window - c.out.firstWindow
	if more == 0 {
		return nil
	}
	c.out.firstWindow = window
	for _, st := range c.streams {
		if st.window += more; st.window > maxWindow {
			return connError(http2.ErrCodeFlowControl)
		}
		if st.window > 0 && st.window <= more { // it had none
			st.writable.Signal()
		}
	}
	return nil
}
