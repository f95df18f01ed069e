package tools

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that FreePort chooses from are below those that systems give to outgoing connections, so that none of these
// takes one before who asked for it listens, or while a server that is started again does not.
const firstPort, lastPort = 12000, 30000

// given are the ports that FreePort has returned.
var given sync.Map

// FreePort returns a port of loopback on which nobody listens, another one each time that this process asks.
func FreePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port from %d to %d", firstPort, lastPort)
}
