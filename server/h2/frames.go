package h2

import (
	"io"
	"time"

	"golang.org/x/net/http2"
)

const (
	// maxContinuations is how many frames a header block may have after its first. One of the longest that is read has
	// 64 in the frames of common clients; empty ones would never end.
	maxContinuations = 256
	// maxNoise is how many frames that bring nothing a client may send within noiseWindow: pings, settings, resets,
	// priorities, DATA that is empty, and what is refused. Each costs the server more than the client.
	maxNoise    = 20_000
	noiseWindow = 10 * time.Second
)

// frameReader reads for the Framer, which follows a header block through all its frames by itself, and counts these.
type frameReader struct {
	r      io.Reader
	header [9]byte
	have   int // how much of header is read
	left   int // how much of the payload is not
	// continuations is how many CONTINUATION frames came since the last frame of another type.
	continuations int
}

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	if f.continuations > maxContinuations {
		return 0, connError(http2.ErrCodeEnhanceYourCalm)
	}
	n, err := f.r.Read(p)
	f.follow(p[:n])
	return n, err
}

// follow finds the frames in what was read.
func (f *frameReader) follow(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have < len(f.header) {
			return
		}
		f.have = 0
		f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		if http2.FrameType(f.header[3]) == http2.FrameContinuation {
			f.continuations++
		} else {
			f.continuations = 0
		}
	}
}

// noise counts the frames that bring nothing. It belongs to the goroutine that reads.
type noise struct {
	frames int
	since  time.Time
}

// count notes one. It reports whether there are too many.
func (n *noise) count(now func() time.Time) bool {
	if n.frames++; n.frames <= maxNoise {
		return false
	}
	at := now()
	if at.Sub(n.since) < noiseWindow {
		return true
	}
	n.frames, n.since = 0, at
	return false
}

// isNoise reports whether a frame brings neither a request, nor a part of one, nor room for answers.
func isNoise(f http2.Frame) bool {
	switch f := f.(type) {
	case *http2.DataFrame:
		return len(f.Data()) == 0 && !f.StreamEnded()
	case *http2.SettingsFrame, *http2.PingFrame, *http2.RSTStreamFrame, *http2.PriorityFrame:
		return true
	}
	return false
}
