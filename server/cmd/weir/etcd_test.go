package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/servertest/tools"
	"weir.dev/weir/server/storage/etcd3"
)

// TestServeEtcd speaks gRPC and HTTP/1.1 to one address, beside clients that say nothing or something else.
func TestServeEtcd(t *testing.T) {
	port, err := tools.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- serveEtcd(ctx, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)}, []string{"http://" + address})
	}()
	defer func() { // it writes to the directory
		stop()
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
		}
	}()
	health := func(path string) (int, string, error) {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		status, body, err := health("/health")
		if status == http.StatusOK && strings.Contains(body, `"health":"true"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("/health is %d %s, %v", status, body, err)
		}
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if status, body, err := health("/other"); err != nil || status != http.StatusNotFound {
		t.Errorf("another path: %d %s, %v", status, body, err)
	}
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()

	client, err := etcd3.Dial(etcd3.DialConfig{Endpoints: []string{"http://" + address}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	watch := client.Watch(ctx, "key")
	large := strings.Repeat("x", 1<<20)
	for i := range 8 {
		if _, err := client.Put(ctx, "key", large); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	for seen := 0; seen < 8; {
		select {
		case events := <-watch:
			if err := events.Err(); err != nil {
				t.Fatal(err)
			}
			seen += len(events.Events)
		case <-time.After(30 * time.Second):
			t.Fatalf("the watch has told %d events", seen)
		}
	}
	got, err := client.Get(ctx, "key")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != large {
		t.Errorf("read %d rows, %v", len(got.Kvs), err)
	}

	// It ends although a client is silent and a watch is open.
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("does not end")
	}
}

func TestClientAddresses(t *testing.T) {
	for _, tc := range []struct {
		urls, want, wantErr string
	}{
		{urls: "http://127.0.0.1:2379", want: "127.0.0.1:2379"},
		{urls: "http://127.0.0.1:2379,http://[::1]:2379/", want: "127.0.0.1:2379 [::1]:2379"},
		{urls: "https://127.0.0.1:2379", wantErr: "without TLS"},
		{urls: "127.0.0.1:2379", wantErr: "--listen-client-urls"},
		{urls: "http://127.0.0.1", wantErr: "give http://HOST:PORT"},
		{urls: "unix:///tmp/x", wantErr: "give http://HOST:PORT"},
		{urls: "", wantErr: "empty"},
	} {
		got, err := clientAddresses(strings.FieldsFunc(tc.urls, func(r rune) bool { return r == ',' }))
		if strings.Join(got, " ") != tc.want || tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("%q: got %q, %v; want %q, %q", tc.urls, got, err, tc.want, tc.wantErr)
		}
	}
}
