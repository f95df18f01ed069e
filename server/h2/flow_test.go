package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
)

// A body that nobody reads takes from the others of its connection only the part of the window that it fills.
func TestUnreadBody(t *testing.T) {
	const unread, other = 900 << 10, 300 << 10 // of 1 MiB, and more than what is left of it
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		begun, read := make(chan struct{}), make(chan struct{})
		end := sync.OnceFunc(func() { close(read) })
		defer end()
		s := start(options{}, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/unread" {
				close(begun)
				<-read
			}
			_, _ = io.Copy(io.Discard, r.Body)
		})
		client := s.client(t)
		post := func(path string, size int) <-chan error {
			done := make(chan error, 1)
			go func() {
				response, err := client.Post("https://"+s.address+path, "", bytes.NewReader(make([]byte, size)))
				if err == nil {
					err = response.Body.Close()
				}
				done <- err
			}()
			return done
		}
		first := post("/unread", unread)
		within(t, begun, "first request")
		// While the first is on its way there is more of the window: only the later ones meet all of it.
		for range 5 {
			if err := within(t, post("/", other), "another body"); err != nil {
				t.Error(err)
			}
		}
		end()
		if err := within(t, first, "first body"); err != nil {
			t.Error(err)
		}
	})
}
