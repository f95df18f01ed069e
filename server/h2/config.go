package h2

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Defaults and limits of Config.
const (
	defaultMaxConcurrentStreams = 250
	defaultMaxReadFrameSize     = 1 << 20
	defaultWindow               = 1 << 20

	minFrameSize = 1 << 14   // RFC 9113, section 6.5.2
	maxFrameSize = 1<<24 - 1 // likewise
	firstWindow  = 1<<16 - 1 // of a connection, and of a stream unless settings say otherwise; section 6.9.2
	maxWindow    = 1<<31 - 1
	tableSize    = 4096 // of header compression, both ways; RFC 7541
)

// Config bounds connections. The zero value has the defaults. The times of requests are those of the http.Server.
type Config struct {
	// MaxConcurrentStreams is how many requests a client may have open on one connection. Default 250.
	MaxConcurrentStreams uint32
	// MaxReadFrameSize is the longest payload of a frame that is read, in bytes: 16 KiB to 16 MiB - 1. Default 1 MiB.
	MaxReadFrameSize uint32
	// ConnectionWindow and StreamWindow are how many bytes of request bodies a client may send that no handler has
	// read yet. A connection's is at least 65,535, as RFC 9113 has it. Default 1 MiB each.
	ConnectionWindow, StreamWindow uint32
	// IdleTimeout ends connections without a request. Default: IdleTimeout of the http.Server, else its ReadTimeout.
	IdleTimeout time.Duration
}

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.MaxReadFrameSize != 0 && (c.MaxReadFrameSize < minFrameSize || c.MaxReadFrameSize > maxFrameSize) {
		errs = append(errs, fmt.Errorf("maximum frame size %d is not in %d to %d", c.MaxReadFrameSize, minFrameSize, maxFrameSize))
	}
	if c.ConnectionWindow != 0 && c.ConnectionWindow < firstWindow {
		errs = append(errs, fmt.Errorf("window %d of a connection is less than %d", c.ConnectionWindow, firstWindow))
	}
	if max(c.ConnectionWindow, c.StreamWindow) > maxWindow {
		errs = append(errs, fmt.Errorf("window %d is more than %d", max(c.ConnectionWindow, c.StreamWindow), maxWindow))
	}
	return errors.Join(errs...)
}

// complete sets defaults.
func (c *Config) complete(s *http.Server) {
	c.MaxConcurrentStreams = cmp.Or(c.MaxConcurrentStreams, defaultMaxConcurrentStreams)
	c.MaxReadFrameSize = cmp.Or(c.MaxReadFrameSize, defaultMaxReadFrameSize)
	c.ConnectionWindow = cmp.Or(c.ConnectionWindow, defaultWindow)
	c.StreamWindow = cmp.Or(c.StreamWindow, defaultWindow)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, s.IdleTimeout, s.ReadTimeout)
}

// Configure makes s serve HTTP/2 by this package. It must be called before s begins to serve; s should serve a
// Listener.
func Configure(s *http.Server, c Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("http2: %w", err)
	}
	c.complete(s)
	serving := &server{Config: c, conns: map[*conn]struct{}{}}
	if s.TLSConfig == nil {
		s.TLSConfig = &tls.Config{}
	}
	for _, protocol := range []string{http2.NextProtoTLS, "http/1.1"} {
		if !slices.Contains(s.TLSConfig.NextProtos, protocol) {
			s.TLSConfig.NextProtos = append(s.TLSConfig.NextProtos, protocol)
		}
	}
	if s.TLSNextProto == nil {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	s.TLSNextProto[http2.NextProtoTLS] = serving.serve
	s.RegisterOnShutdown(serving.shutdown)
	return nil
}

// server is what the connections of an http.Server share.
type server struct {
	Config

	date    atomic.Pointer[dateText]
	scratch sync.Pool // of *scratch
	buffers buffers
	// connections is how many there have been.
	connections atomic.Uint64

	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	stopping bool               // guarded by mu
}

// serve serves a connection until it ends. Its type is that of http.Server.TLSNextProto.
func (s *server) serve(hs *http.Server, t *tls.Conn, h http.Handler) {
	ctx := context.Background()
	// net/http passes the context of the connection by this method of its handler.
	if b, ok := h.(interface{ BaseContext() context.Context }); ok {
		ctx = b.BaseContext()
	}
	c := newConn(s, hs, t, h)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	stopping := s.stopping
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	c.serve(ctx, stopping)
}

// shutdown lets connections end when their streams have.
func (s *server) shutdown() {
	s.mu.Lock()
	s.stopping = true
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		c.goAwayLocked(http2.ErrCodeNo)
		c.unlockAndFlush()
	}
}
