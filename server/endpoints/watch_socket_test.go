package endpoints

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"golang.org/x/net/websocket"
)

// socket watches a path by a WebSocket.
func (w *world) socket(t *testing.T, path string, change func(*websocket.Config)) *websocket.Conn {
	t.Helper()
	config, err := websocket.NewConfig("ws"+strings.TrimPrefix(w.URL, "http")+path, "http://dashboard.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(config)
	}
	ws, err := config.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	if err := ws.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return ws
}

// message reads one, "" at the end.
func message(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	var text string
	if err := websocket.Message.Receive(ws, &text); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return text
}

// A message is what the line of a plain watch is.
func TestWatchByWebSocket(t *testing.T) {
	w := newWorld(t, Config{})
	path := widgetsPath + "?watch=1&resourceVersion=0&allowWatchBookmarks=true"
	ws := w.socket(t, path, nil)
	_, next := w.openWatch(t, path)
	for _, do := range []func(){
		func() {},
		func() { w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`)) },
		func() {
			w.do(t, "PATCH", widgetsPath+"/a", `{"spec":{"color":"blue"}}`, "Content-Type: application/merge-patch+json")
		},
		func() { w.do(t, "DELETE", widgetsPath+"/a", "") },
		func() { w.do(t, "POST", widgetsPath, widget("last", `{}`)) },
	} {
		do()
		if got, want := message(t, ws), next(); got != want || got == "" {
			t.Errorf("message\n%s want\n%s", got, want)
		}
	}
	if got := message(t, ws); got != "" {
		t.Errorf("after the end: %s", got)
	}
}

func TestWebSocketForms(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`))
	w.do(t, "POST", widgetsPath, widget("last", `{}`))
	ws := w.socket(t, widgetsPath+"?watch=true&resourceVersion=1", func(c *websocket.Config) {
		c.Header = http.Header{"Accept": {"application/json;as=Table;g=meta.k8s.io;v=v1"}}
	})
	if first := parse(t, message(t, ws)); first.Get("object", "columnDefinitions").Len() != 2 {
		t.Errorf("first row: %s", first.Bytes())
	}
	if second := parse(t, message(t, ws)); second.Get("object", "columnDefinitions").Len() != 0 || second.Get("object", "rows").Len() != 1 {
		t.Errorf("second row: %s", second.Bytes())
	}

	w.widgets.failWatch = apierrors.NewResourceExpired("too old resource version: 1 (5)")
	ws = w.socket(t, widgetsPath+"?watch=true&resourceVersion=1", nil)
	if got := message(t, ws); !strings.HasPrefix(got, `{"type":"ERROR"`) || !strings.Contains(got, `"code":410`) {
		t.Errorf("expired: %s", got)
	}
	if got := message(t, ws); got != "" {
		t.Errorf("after an error: %s", got)
	}
}

// The handshake, as bytes: what is agreed on and what is refused.
func TestWebSocketHandshake(t *testing.T) {
	token := bearerProtocol + base64.RawURLEncoding.EncodeToString([]byte("x"))
	tests := []struct {
		name, path string
		headers    []string
		want       []string
	}{
		{"no protocol, no origin", "?watch=true&resourceVersion=100&timeoutSeconds=1", nil,
			[]string{"HTTP/1.1 101 ", "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "\x88\x02\x03\xe8"}},
		{"origin of a sandbox", "?watch=true&resourceVersion=100&timeoutSeconds=1", []string{"Origin: null"}, []string{"HTTP/1.1 101 "}},
		{"protocol", "?watch=true&resourceVersion=100&timeoutSeconds=1", []string{"Sec-WebSocket-Protocol: base64.binary.k8s.io"},
			[]string{"HTTP/1.1 101 ", "Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n"}},
		{"a token is not echoed", "?watch=true&resourceVersion=100&timeoutSeconds=1", []string{"Sec-WebSocket-Protocol: " + token + ", b"},
			[]string{"HTTP/1.1 101 ", "Sec-WebSocket-Protocol: b\r\n"}},
		{"protocols", "?watch=true&resourceVersion=100&timeoutSeconds=1", []string{"Sec-WebSocket-Protocol: a, b"},
			[]string{"HTTP/1.1 101 ", "Sec-WebSocket-Protocol: a\r\n"}},
		{"no time", "?watch=true&timeoutSeconds=-1", nil, []string{"HTTP/1.1 101 ", "\r\n\r\n\x88\x02\x03\xe8"}},
		{"other version", "?watch=true", []string{"Sec-WebSocket-Version: 8"}, []string{"HTTP/1.1 400 ", "Sec-Websocket-Version: 13\r\n", `"kind":"Status"`, `"code":400`}},
		{"no version", "?watch=true", nil, []string{"HTTP/1.1 400 ", "Sec-Websocket-Version: 13\r\n", `"kind":"Status"`, `"code":400`}},
		{"no key", "?watch=true", nil, []string{"HTTP/1.1 400 ", `"kind":"Status"`, `"code":400`}},
		{"no host", "?watch=true", nil, []string{"HTTP/1.1 400 ", `"kind":"Status"`, `"code":400`}},
		{"options", "?watch=true&sendInitialEvents=true", nil, []string{"HTTP/1.1 422 ", `"kind":"Status"`}},
		{"a list", "", nil, []string{"HTTP/1.1 200 ", `"kind":"WidgetList"`}},
	}
	w := newWorld(t, Config{})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			host := "a"
			if tc.name == "no host" {
				host = "a:b"
			}
			headers := append([]string{"Host: " + host, "Upgrade: WebSocket", "Connection: keep-alive, Upgrade"}, tc.headers...)
			if tc.name != "no key" {
				headers = append(headers, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
			}
			if !strings.HasSuffix(tc.name, " version") {
				headers = append(headers, "Sec-WebSocket-Version: 13")
			}
			if tc.path == "" {
				headers = append(headers, "X: y")
			}
			conn := w.dial(t)
			if _, err := fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\n%s\r\n\r\n", widgetsPath, tc.path, strings.Join(headers, "\r\n")); err != nil {
				t.Fatal(err)
			}
			got := ""
			for end := tc.want[len(tc.want)-1]; !strings.Contains(got, end); {
				part := make([]byte, 4<<10)
				n, err := conn.Read(part)
				if got += string(part[:n]); err != nil {
					break
				}
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
			if strings.Contains(got, bearerProtocol) {
				t.Errorf("the token is in %q", got)
			}
		})
	}
}

func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A ping is answered, what else a client sends is ignored, and its close ends the watch.
func TestWebSocketFramesOfAClient(t *testing.T) {
	w := newWorld(t, Config{})
	conn := w.dial(t)
	if _, err := fmt.Fprintf(conn, "GET %s?watch=true&resourceVersion=100 HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", widgetsPath); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	mask := "\x00\x00\x00\x00"
	for _, frame := range []string{
		"\x81\x83" + mask + "abc",      // a message
		"\x01\x81" + mask + "a",        // the first half of one
		"\x80\x81" + mask + "b",        // the other
		"\x89\x85" + mask + "hello",    // a ping
		"\x8a\x80" + mask,              // a pong nobody asked for
		"\x88\x82" + mask + "\x03\xe8", // the close
	} {
		if _, err := io.WriteString(conn, frame); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := io.ReadAll(reader)
	if want := "\x8a\x05hello\x88\x02\x03\xe8"; string(rest) != want || err != nil {
		t.Errorf("%q, %v, want %q", rest, err, want)
	}
}
