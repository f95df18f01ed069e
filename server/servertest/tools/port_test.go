package tools_test

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"weir.dev/weir/server/servertest/tools"
)

// TestFreePort: those who ask at the same time get ports of their own, on which they can listen.
func TestFreePort(t *testing.T) {
	const askers, each = 8, 100
	var mu sync.Mutex
	seen := map[int]bool{} // guarded by mu
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for range each {
				port, err := tools.FreePort()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[port] {
					t.Errorf("port %d is given twice", port)
				}
				seen[port] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for port := range seen {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		break
	}
}
