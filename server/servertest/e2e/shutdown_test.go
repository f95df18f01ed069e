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

	"weir.dev/weir/server/servertest"
)

// TestShutdownWithClientsThatDoNotRead ends a server whose clients have asked for much and take nothing of it: lists and
// watches, by HTTP/1.1, HTTP/2 and WebSocket. They do not hold it for the whole of its time.
func TestShutdownWithClientsThatDoNotRead(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
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
	start := time.Now()
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 12*time.Second { // of 20, the default
		t.Errorf("the server has ended after %s", took)
	}
}
