//go:build unix

package h2

import (
	"errors"
	"net"
	"syscall"
)

// newCorkedConn returns c as a corkedConn, or c itself if it is not a socket.
func newCorkedConn(c *pacedConn) net.Conn {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	c.raw = raw
	corked := &corkedConn{pacedConn: c}
	corked.attempt = corked.try
	return corked
}

// try writes what the socket takes at once. It always says that it is done, so that RawConn.Write does not wait. The
// caller holds mu.
func (c *corkedConn) try(fd uintptr) bool {
	n, err := writeNow(fd, c.gathered[c.taken:])
	c.taken += n // less than all of it when the socket is full
	if err != nil {
		c.err = err
	}
	return true
}

// writeNow writes what a socket takes at once.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		default:
			return 0, err
		}
	}
}
