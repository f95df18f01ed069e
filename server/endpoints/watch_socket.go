package endpoints

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// bearerProtocol begins the sub-protocol in which a browser says who it is, as it can send no other header.
const bearerProtocol = "base64url.bearer.authorization.k8s.io."

// webSocketVersion is RFC 6455's.
const webSocketVersion = websocket.SupportedProtocolVersion

// wantsWebSocket reports whether a client asks for messages of a WebSocket, RFC 6455, which browsers and dashboards
// watch with. HTTP/2 has no such upgrade.
func wantsWebSocket(req *http.Request) bool {
	return req.ProtoMajor == 1 && strings.EqualFold(req.Header.Get("Upgrade"), "websocket") &&
		httpguts.HeaderValuesContainsToken(req.Header["Connection"], "upgrade")
}

// answerSocket is answerWatch on a WebSocket. Upstream's form: each event is one text message, the same line that a
// plain watch has; the end is a close frame of status 1000. Whatever the client sends is ignored, but for its pings
// and its close.
func answerSocket(w http.ResponseWriter, req *http.Request, timeout time.Duration, cancel func(), send func(stream)) error {
	if err := checkHandshake(w.Header(), req); err != nil {
		return err
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(timeout + watchDrain)); err != nil {
		_ = conn.Close()
		return nil // the connection is broken: nobody hears an error
	}
	websocket.Server{
		Config:    websocket.Config{Header: w.Header()}, // the audit id, warnings
		Handshake: chooseProtocol,
		Handler: func(ws *websocket.Conn) {
			left := make(chan struct{})
			go func() {
				defer close(left)
				defer cancel()
				ignoreMessages(ws)
				_ = conn.SetWriteDeadline(time.Now().Add(watchDrain)) // for what is being written
			}()
			send(&socketStream{ws: ws})
			_ = ws.Close() // of a client that may be gone
			<-left
		},
	}.ServeHTTP(&hijacked{w, conn, buffered}, req)
	return nil
}

// checkHandshake refuses what websocket.Server would, RFC 6455 section 4.2.1, while there still is an answer of HTTP to
// give: a connection that is taken over is audited and counted as a watch.
func checkHandshake(answer http.Header, req *http.Request) error {
	if req.Header.Get("Sec-WebSocket-Version") != webSocketVersion {
		answer.Set("Sec-WebSocket-Version", webSocketVersion)
		return apierrors.NewBadRequest("the WebSocket is to be of Sec-WebSocket-Version " + webSocketVersion)
	}
	if req.Header.Get("Sec-WebSocket-Key") == "" {
		return apierrors.NewBadRequest("a WebSocket needs a Sec-WebSocket-Key")
	}
	if _, err := url.ParseRequestURI("wss://" + req.Host + req.URL.RequestURI()); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("a WebSocket needs a Host: %v", err))
	}
	return nil
}

// chooseProtocol takes the first of the protocols that a client names, whatever it is: all mean the same. As upstream,
// pages of any origin may watch; unlike upstream, a client that names no origin may as well, and one that names several
// protocols.
func chooseProtocol(config *websocket.Config, _ *http.Request) error {
	config.Protocol = slices.DeleteFunc(config.Protocol, func(name string) bool { return strings.HasPrefix(name, bearerProtocol) })
	if len(config.Protocol) > 1 {
		config.Protocol = config.Protocol[:1]
	}
	return nil
}

// ignoreMessages reads until the client leaves. Pings are answered by the reader.
func ignoreMessages(ws *websocket.Conn) {
	var discarded [512]byte
	for {
		if _, err := ws.Read(discarded[:]); err != nil {
			return
		}
	}
}

// socketStream sends each frame as a text message.
type socketStream struct {
	ws  *websocket.Conn
	err error
}

func (s *socketStream) write(chunks [][]byte, _ bool) {
	if s.err == nil {
		_, s.err = s.ws.Write(slices.Concat(chunks...))
	}
}

func (s *socketStream) flush() bool { return s.err == nil }

func (s *socketStream) offers() (connection uint64, ok bool) { return 0, false }

func (s *socketStream) offer([][]byte) (taken bool, later func()) { return false, nil }

// hijacked is what websocket.Server wants: it takes a connection over by itself.
type hijacked struct {
	http.ResponseWriter
	conn     net.Conn
	buffered *bufio.ReadWriter
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, h.buffered, nil }
