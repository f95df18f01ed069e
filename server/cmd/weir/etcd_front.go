package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"weir.dev/weir/server/storage/etcd3"
)

const (
	// frontPatience is how long a client may take to say what it speaks, and to take a short answer.
	frontPatience = 10 * time.Second
	// healthTimeout bounds the read behind /health.
	healthTimeout = 5 * time.Second
)

// etcdFront has an etcd answer gRPC and, at the same address, /health by HTTP/1.1, as etcd does. The embedded one speaks gRPC
// alone: what begins as HTTP/2 is passed on to it as it is.
type etcdFront struct {
	etcd   *etcd3.Embedded
	logger *slog.Logger
}

// serve returns when ctx is done and all connections are closed, or with an error when the etcd has ended by itself.
func (f *etcdFront) serve(ctx context.Context, listeners []net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()
	for _, l := range listeners {
		owned.Go(func() { f.accept(ctx, l, &owned) })
	}
	select {
	case <-ctx.Done():
		return nil
	case <-f.etcd.Done():
		return errors.New("etcd ended by itself; the log says why")
	}
}

func (f *etcdFront) accept(ctx context.Context, l net.Listener, owned *sync.WaitGroup) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			owned.Go(func() { f.connection(ctx, conn) })
		case ctx.Err() != nil:
			return
		default:
			f.logger.WarnContext(ctx, "a connection is not accepted; it is tried again", "error", err)
			timer := time.NewTimer(50 * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
	}
}

// connection serves one connection and closes it.
func (f *etcdFront) connection(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }() // it may be closed already
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(frontPatience)) // an error shows in what follows
	begin, err := in.Peek(len("PRI"))
	if err != nil {
		return
	}
	if string(begin) != "PRI" { // the preface of HTTP/2
		if req, err := http.ReadRequest(in); err == nil {
			status, body := f.answer(ctx, req.URL.Path)
			fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, http.StatusText(status), len(body))
			if req.Method != http.MethodHead {
				_, _ = conn.Write(body) // a client that is gone needs no answer
			}
		}
		return
	}
	_ = conn.SetDeadline(time.Time{})
	to, err := net.Dial("tcp", f.etcd.Addr().String())
	if err != nil {
		f.logger.WarnContext(ctx, "a client does not reach etcd", "error", err)
		return
	}
	defer func() { _ = to.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(conn, to) // how a connection ends is the client's to judge
		_ = conn.Close()
	}()
	_, _ = io.Copy(to, in)
	_ = to.Close()
	<-back
}

// answer is that of etcd at a path, by HTTP/1.1.
func (f *etcdFront) answer(ctx context.Context, path string) (int, []byte) {
	status, answer := http.StatusOK, map[string]string{"health": "true", "reason": ""}
	if path != "/health" {
		status, answer = http.StatusNotFound, map[string]string{"error": "there is /health, and gRPC"}
	} else if err := f.healthy(ctx); err != nil {
		status, answer = http.StatusServiceUnavailable, map[string]string{"health": "false", "reason": err.Error()}
	}
	body, _ := json.Marshal(answer) // of strings
	return status, body
}

func (f *etcdFront) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	_, err := f.etcd.Client().Get(ctx, "health")
	return errors.Join(err, f.etcd.Full())
}
