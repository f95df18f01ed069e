package e2e_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// drains is the configuration of a server that may take long to end, and soon how long it may take on a machine that has
// much else to do.
var drains = servertest.Options{Config: server.Config{ShutdownTimeout: 3 * time.Minute}}

const soon = time.Minute

// stop ends a server and sees that its clients do not hold it for the whole of its time.
func stop(t *testing.T, env *servertest.Environment) {
	t.Helper()
	start := time.Now()
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > soon {
		t.Errorf("the server has ended after %s", took)
	}
}

// TestShutdownWithClientsThatDoNotRead ends a server whose clients have asked for much and take nothing of it: lists and
// watches, by HTTP/1.1, HTTP/2 and WebSocket. They do not hold it for the whole of its time.
func TestShutdownWithClientsThatDoNotRead(t *testing.T) {
	env := servertest.Start(t, drains)
	filler := strings.Repeat("x", 900<<10)
	for i := range 20 {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large-%d"},"data":{"a":"%s"}}`, i, filler)
		if code, answer := send(t, env, "POST", configMapsPath, "", body); code != 201 {
			t.Fatalf("%d %s", code, answer)
		}
	}
	trust, err := rest.TLSConfigFor(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	const upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for path, headers := range map[string]string{"": "", "?watch=true": "", "?watch=true&resourceVersion=0": upgrade} {
		config := trust.Clone()
		config.NextProtos = []string{"http/1.1"}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(env.URL(), "https://"), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: a\r\n%s\r\n", configMapsPath, path, headers); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, 20<<10); err != nil { // it has begun
			t.Fatal(err)
		}
	}
	for _, path := range []string{"", "?watch=true"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", env.URL()+configMapsPath+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true} // of its own, as its window is
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("HTTP/%d", resp.ProtoMajor)
		}
	}
	stop(t, env)
}

// TestShutdownWithClientsThatDoNotSend ends a server whose clients have sent a part of the body of a request and send no
// more of it: of a write, of a read, of a watch, of a request that is refused.
func TestShutdownWithClientsThatDoNotSend(t *testing.T) {
	env := servertest.Start(t, drains)
	trust, err := rest.TLSConfigFor(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	nobody := trust.Clone()
	nobody.Certificates, nobody.GetClientCertificate = nil, nil
	tests := []struct {
		method, path, header string
		trust                *tls.Config
	}{
		{"POST", configMapsPath, "", trust}, {"GET", configMapsPath, "", trust}, {"GET", configMapsPath + "?watch=true", "", trust},
		{"POST", configMapsPath, "", nobody}, {"POST", configMapsPath, "Expect: 100-continue\r\n", trust}, {"POST", configMapsPath, "Expect: 100-continue\r\n", nobody},
	}
	for _, tc := range tests {
		config := tc.trust.Clone()
		config.NextProtos = []string{"http/1.1"}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(env.URL(), "https://"), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: 1000\r\n\r\n{    ", tc.method, tc.path, tc.header); err != nil {
			t.Fatal(err)
		}

		req, err := http.NewRequestWithContext(t.Context(), tc.method, env.URL()+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, client := io.Pipe()
		defer client.Close()
		req.Body, req.ContentLength = body, 1000
		transport := &http.Transport{TLSClientConfig: tc.trust.Clone(), ForceAttemptHTTP2: true}
		go func() {
			if resp, err := transport.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		// Who is refused may have been before the body is asked for.
		if _, err := io.WriteString(client, "{    "); err != nil && tc.trust != nobody {
			t.Fatal(err)
		}
	}
	for range 20 { // the requests above have come by then
		if code, answer := send(t, env, "GET", configMapsPath, "", ""); code != 200 {
			t.Fatalf("%d %s", code, answer)
		}
	}
	stop(t, env)
}
