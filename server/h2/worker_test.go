package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"weir.dev/weir/server/h2"
)

// goroutine returns the number of the one that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	number, _, _ := bytes.Cut(bytes.TrimPrefix(stack[:runtime.Stack(stack, false)], []byte("goroutine ")), []byte(" "))
	return string(number)
}

// TestWorkers: requests one after another are handled by few goroutines; one that a handler ends is replaced.
func TestWorkers(t *testing.T) {
	var (
		mu   sync.Mutex
		seen = map[string]int{}
	)
	s := serve(t, ours, options{config: h2.Config{MaxConcurrentStreams: 2}}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[goroutine()]++
		mu.Unlock()
		if r.URL.Path == "/exit" {
			runtime.Goexit()
		}
		_, _ = io.WriteString(w, "x")
	})
	client := s.client(t)
	get := func(path string) error {
		resp, err := client.Get("https://" + s.address + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	}
	for range 50 {
		if err := get("/"); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) > 5 {
		t.Errorf("50 requests had %d goroutines", len(seen))
	}
	for range 5 { // more than may run at a time
		if err := get("/exit"); err == nil {
			t.Error("a handler that ended its goroutine answered")
		}
		if err := get("/"); err != nil {
			t.Fatal(err)
		}
	}
}
