//go:build !unix

package h2

import (
	"errors"
	"net"
)

// newCorkedConn returns c: there is no way here to write to a socket without waiting for it.
func newCorkedConn(c *pacedConn) net.Conn { return c }

func writeNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
