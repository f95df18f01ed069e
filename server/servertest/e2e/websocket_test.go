package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// TestWatchByWebSocket watches as a dashboard does: over TLS, its token in a sub-protocol. The server's end is the
// watch's.
func TestWatchByWebSocket(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("secret,dashboard,dashboard,system:masters\nweak,nobody,nobody,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := servertest.Start(t, servertest.Options{Config: server.Config{TokenAuthFile: tokens}})
	if code, body := send(t, env, "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"watched"},"data":{"n":"0"}}`); code != 201 {
		t.Fatalf("%d %s", code, body)
	}
	dial := func(path string, protocols ...string) (*websocket.Conn, error) {
		config, err := websocket.NewConfig("wss"+strings.TrimPrefix(env.URL(), "https")+path, "https://dashboard.example.com")
		if err != nil {
			t.Fatal(err)
		}
		config.Protocol = protocols
		anonymous := rest.AnonymousClientConfig(env.RESTConfig())
		if config.TlsConfig, err = rest.TLSConfigFor(anonymous); err != nil {
			t.Fatal(err)
		}
		ws, err := config.DialContext(t.Context())
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = ws.Close() })
		return ws, ws.SetDeadline(time.Now().Add(patience))
	}
	token := func(text string) string {
		return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	for _, refused := range [][]string{nil, {"base64.binary.k8s.io"}, {token("wrong"), "base64.binary.k8s.io"}, {token("weak"), "base64.binary.k8s.io"}, {token("secret")}} {
		if _, err := dial(configMapsPath+"?watch=true", refused...); err == nil {
			t.Errorf("protocols %q: not refused", refused)
		}
	}
	ws, err := dial(configMapsPath+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		token("secret"), "base64.binary.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	if got := ws.Config().Protocol; len(got) != 1 || got[0] != "base64.binary.k8s.io" {
		t.Errorf("protocol agreed on: %q", got)
	}
	expect := func(kind, n string) {
		t.Helper()
		var text string
		if err := websocket.Message.Receive(ws, &text); err != nil {
			t.Fatal(err)
		}
		var event struct {
			Type   string
			Object struct{ Data map[string]string }
		}
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if event.Type != kind || event.Object.Data["n"] != n {
			t.Errorf("got %s, want %s %s", text, kind, n)
		}
	}
	expect("ADDED", "0")
	expect("BOOKMARK", "")
	path := configMapsPath + "/watched"
	if code, body := send(t, env, "PATCH", path, "application/merge-patch+json", `{"data":{"n":"1"}}`); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	expect("MODIFIED", "1")
	if code, body := send(t, env, "DELETE", path, "", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	expect("DELETED", "1")
	other, err := dial(configMapsPath+"?watch=true", token("secret"), "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	const counted = `apiserver_request_total{code="101",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"} 1`
	for end := time.Now().Add(patience); ; { // when the watch has ended
		if _, metrics := send(t, env, "GET", "/metrics", "", ""); strings.Contains(string(metrics), counted) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no %s", counted)
		}
	}
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	var rest string
	for err == nil { // a bookmark may come before the end
		err = websocket.Message.Receive(ws, &rest)
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v, want that of a close frame", err)
	}
}
