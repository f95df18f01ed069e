package endpoints

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// serveWatches serves a connection of HTTP/1.1 without a time for answers, and returns the client's end of it. closed is
// closed when the server has closed its own. A watch ends after timeout; a request of /other is answered after pause.
func serveWatches(timeout, pause time.Duration) (client net.Conn, closed <-chan struct{}) {
	client, conn := net.Pipe()
	ended := make(chan struct{})
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				time.Sleep(pause)
				return
			}
			_ = answerWatch(w, r, timeout, func() {}, func(stream) { time.Sleep(timeout) })
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(ended)
			}
		},
	}
	_ = s.Serve(&oneConn{conn: conn})
	return client, ended
}

// oneConn is a listener with one connection.
type oneConn struct{ conn net.Conn }

var errNoMore = errors.New("no more connections")

func (l *oneConn) Accept() (net.Conn, error) {
	conn := l.conn
	if l.conn = nil; conn == nil {
		return nil, errNoMore
	}
	return conn, nil
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// ask sends a request and reads the header of its answer.
func ask(t *testing.T, client net.Conn, answers *bufio.Reader, path string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// A client that does not read the end of a watch holds neither it nor a connection of HTTP/1.1 longer than watchDrain.
func TestEndOfWatchNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		client, closed := serveWatches(timeout, 0)
		defer client.Close()
		began := time.Now()
		ask(t, client, bufio.NewReader(client), "/") // to close its body would be to read it
		select {
		case <-closed:
		case <-time.After(24 * time.Hour):
			t.Error("the connection is open after a day")
		}
		if held := time.Since(began); held < timeout+watchDrain || held > timeout+watchDrain+time.Second {
			t.Errorf("held for %v", held)
		}
	})
}

// A connection of HTTP/1.1 whose watch has ended takes other requests, whose answers may take longer than watchDrain.
func TestConnectionAfterWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, closed := serveWatches(time.Second, 3*watchDrain)
		answers := bufio.NewReader(client)
		for _, path := range []string{"/", "/other", "/"} {
			response := ask(t, client, answers, path)
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			response.Body.Close()
			time.Sleep(2 * watchDrain)
		}
		client.Close()
		<-closed
	})
}
