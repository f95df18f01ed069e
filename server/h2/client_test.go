package h2_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"weir.dev/weir/server/h2"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(b)
	return b
}

// large is n, or less where the race detector makes it take long.
func large(n int) int {
	if raceEnabled {
		return n / 10
	}
	return n
}

// Bodies of many sizes arrive, both ways.
func TestBodies(t *testing.T) {
	data := randomBytes(4 << 20)
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		s := start(options{}, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if r.URL.Query().Has("length") {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			}
			piece, _ := strconv.Atoi(r.URL.Query().Get("piece"))
			for len(body) > 0 {
				n := min(piece, len(body))
				if _, err := w.Write(body[:n]); err != nil {
					t.Error(err)
				}
				body = body[n:]
				if r.URL.Query().Has("flush") {
					w.(http.Flusher).Flush()
				}
			}
		})
		client := s.client(t)
		for _, size := range []int{0, 1, 100, 4095, 4096, 4097, 16384, 65535, 65536, 65537, 1<<20 + 1, large(4 << 20)} {
			for _, query := range []string{"piece=10000000", "piece=10000000&length", "piece=65536&length", "piece=4096", "piece=50000&flush", "piece=9000&length&flush"} {
				response, err := client.Post("https://"+s.address+"/?"+query, "application/octet-stream", bytes.NewReader(data[:size]))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(response.Body)
				if err != nil || !bytes.Equal(got, data[:size]) {
					t.Fatalf("%d bytes, %s: got %d, %v", size, query, len(got), err)
				}
				if response.ProtoMajor != 2 {
					t.Fatal(response.Proto)
				}
			}
		}
	})
}

// Many streams of one connection run at once, some slowly, some with small windows.
func TestManyStreams(t *testing.T) {
	const streams = 1000
	data := randomBytes(large(90 << 10))
	want := sha256.Sum256(data)
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		var running atomic.Int64
		all := make(chan struct{})
		s := start(options{config: h2.Config{MaxConcurrentStreams: streams}}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/first" {
				return
			}
			if running.Add(1) == streams {
				close(all)
			}
			w.(http.Flusher).Flush()
			select {
			case <-all:
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write(data)
		})
		client := s.client(t)
		first, err := client.Get("https://" + s.address + "/first") // else each of them dials
		if err != nil {
			t.Fatal(err)
		}
		_ = first.Body.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var group sync.WaitGroup
		for range streams {
			r := request(t, ctx, http.MethodGet, "https://"+s.address, nil)
			group.Go(func() {
				response, err := client.Do(r)
				if err != nil {
					cancel() // the others wait for it
					t.Error(err)
					return
				}
				defer response.Body.Close()
				h := sha256.New()
				if _, err := io.Copy(h, response.Body); err != nil || [32]byte(h.Sum(nil)) != want {
					t.Errorf("body: %v", err)
				}
			})
		}
		group.Wait()
	})
}

// A client that goes away ends the context of its request, and its body.
func TestCancel(t *testing.T) {
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		ended := make(chan error, 2)
		s := start(options{}, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
			<-r.Context().Done()
			ended <- r.Context().Err()
			_, err = w.Write(make([]byte, 10<<20))
			ended <- err
		})
		p := newPeer(t, s)
		p.hello()
		p.post(1, "/")
		p.must(p.framer.WriteData(1, false, []byte("x")))
		for {
			if _, ok := p.next().(*http2.MetaHeadersFrame); ok {
				break
			}
		}
		p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
		var reset http2.StreamError
		if err := within(t, ended, "body"); !errors.As(err, &reset) || reset.Code != http2.ErrCodeCancel {
			t.Errorf("body ends with %v", err)
		}
		if err := within(t, ended, "context"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := within(t, ended, "write"); err == nil {
			t.Error("a write to a stream that was reset says nothing")
		}
	})
}

// A connection that breaks ends the contexts of its requests.
func TestConnectionBreaks(t *testing.T) {
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		ended := make(chan error, 1)
		begun := make(chan struct{})
		s := start(options{}, func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
			ended <- r.Context().Err()
		})
		p := newPeer(t, s)
		p.hello()
		p.get(1, "/")
		within(t, begun, "handler")
		_ = p.conn.NetConn().Close()
		within(t, ended, "context")
	})
}

// The deadlines of a ResponseController hold, and end a request that waits for its client.
func TestDeadlines(t *testing.T) {
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		ended := make(chan error, 1)
		s := start(options{}, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			at := time.Now().Add(100 * time.Millisecond)
			if r.URL.Query().Has("past") {
				at = time.Now().Add(-time.Second)
			}
			var err error
			if r.URL.Query().Has("read") {
				err = control.SetReadDeadline(at)
			} else {
				err = control.SetWriteDeadline(at)
			}
			if err != nil {
				t.Error(err)
			}
			if r.URL.Query().Has("read") {
				_, err = io.ReadAll(r.Body)
			} else {
				for err == nil { // the client reads nothing
					_, err = w.Write(make([]byte, 1<<20))
				}
			}
			ended <- err
		})
		for _, query := range []string{"read", "read&past", "write", "write&past"} {
			body, more := io.Pipe()
			answered := make(chan *http.Response, 1)
			go func() {
				response, err := s.client(t).Do(request(t, t.Context(), http.MethodPost, "https://"+s.address+"?"+query, body))
				if err != nil {
					response = nil
				}
				answered <- response
			}()
			if err := within(t, ended, query); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: ends with %v", query, err)
			}
			_ = more.Close()
			if response := within(t, answered, query); response != nil {
				_ = response.Body.Close()
			}
		}
	})
}

// Shutdown lets requests end and takes no more.
func TestShutdown(t *testing.T) {
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		begun, ended := make(chan struct{}), make(chan struct{})
		end := sync.OnceFunc(func() { close(ended) })
		defer end()
		s := start(options{}, func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-ended
			_, _ = io.WriteString(w, "whole")
		})
		client := s.client(t)
		got := make(chan string, 1)
		go func() {
			response, err := client.Get("https://" + s.address)
			if err != nil {
				got <- err.Error()
				return
			}
			body, err := io.ReadAll(response.Body)
			got <- fmt.Sprint(string(body), err)
		}()
		within(t, begun, "handler")
		down := make(chan error, 1)
		go func() { down <- s.server.Shutdown(t.Context()) }()
		for { // until the listener is closed
			c, err := net.Dial("tcp", s.address)
			if err != nil {
				break
			}
			_ = c.Close()
		}
		end()
		if text := within(t, got, "answer"); text != "whole<nil>" {
			t.Error(text)
		}
		if err := within(t, down, "shutdown"); err != nil {
			t.Error(err)
		}
	})
}

// A client that never reads does not hold up others, nor other streams of its connection whose window is open.
func TestStalledClient(t *testing.T) {
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		s := start(options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/endless" {
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
				return
			}
			_, _ = io.WriteString(w, "small")
		})
		client := s.client(t)
		var stalled []*http.Response
		for range 5 { // their windows fill
			response, err := client.Get("https://" + s.address + "/endless")
			if err != nil {
				t.Fatal(err)
			}
			stalled = append(stalled, response)
		}
		for range 100 {
			response, err := client.Get("https://" + s.address)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(response.Body); err != nil || string(body) != "small" {
				t.Fatal(string(body), err)
			}
		}
		for _, response := range stalled {
			_ = response.Body.Close()
		}
	})
}

// What a request's handler writes arrives although its client's windows are tiny.
func TestTinyWindows(t *testing.T) {
	data := randomBytes(100_000)
	bothServers(t, func(t *testing.T, start func(options, http.HandlerFunc) *serving) {
		s := start(options{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
		p := newPeer(t, s)
		p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		for id := uint32(1); id < 20; id += 2 {
			p.get(id, "/")
		}
		got := map[uint32][]byte{}
		for ended := 0; ended < 10; {
			f, ok := p.next().(*http2.DataFrame)
			if !ok {
				continue
			}
			got[f.StreamID] = append(got[f.StreamID], f.Data()...)
			if f.StreamEnded() {
				ended++
				continue
			}
			if n := uint32(len(f.Data())); n > 0 {
				p.must(p.framer.WriteWindowUpdate(f.StreamID, n+rand.Uint32N(1000)))
				p.must(p.framer.WriteWindowUpdate(0, n))
			}
		}
		for id, b := range got {
			if !bytes.Equal(b, data) {
				t.Errorf("stream %d: %d bytes", id, len(b))
			}
		}
	})
}
