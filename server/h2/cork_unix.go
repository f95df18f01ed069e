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
	corked := &corkedConn{pacedConn: c, raw: raw}
	corked.attempt = corked.try
	return corked
}

// try writes what the socket takes at once. It always says that it is done, so that RawConn.Write does not wait. The
// caller holds mu.
func (c *corkedConn) try(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), c.gathered[c.taken:])
		switch {
		case err == nil:
			c.taken += n // less than all of it when the socket is full
			return true
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return true
		default:
			c.err = err
			return true
		}
	}
}
