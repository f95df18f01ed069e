package filters

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/server/request"
)

// Drain tracks what is being served, so that a shutdown ends watches cleanly and waits for
// everything else. The zero value is ready.
type Drain struct {
	// Patience is how long a client may send nothing of the body of its request, once Close was called. Zero: as long as
	// the server lets it at any time. It is set before the first request.
	Patience time.Duration

	mu      sync.Mutex
	closed  bool                                 // guarded by mu
	bodies  map[*drainedBody]struct{}            // guarded by mu; those of requests that are being served
	active  int                                  // guarded by mu
	idle    chan struct{}                        // guarded by mu; closed when active is 0 after Close
	watches map[*http.Request]context.CancelFunc // guarded by mu
}

// Close makes new requests fail with 503, ends the watches and waits until all requests are done, or ctx is. A request
// whose body is still coming has to go on coming.
func (d *Drain) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	for _, cancel := range d.watches {
		cancel()
	}
	for body := range d.bodies {
		body.hurry(d.Patience)
	}
	if d.active == 0 {
		d.mu.Unlock()
		return nil
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter counts a request; ok is false when the server shuts down. A watch gets a context that Close ends.
func (d *Drain) enter(r *http.Request, watch bool) (tracked *http.Request, leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, false
	}
	d.active++
	if !watch {
		return r, func() { d.leave(nil) }, true
	}
	ctx, cancel := context.WithCancel(r.Context())
	tracked = r.WithContext(ctx)
	if d.watches == nil {
		d.watches = map[*http.Request]context.CancelFunc{}
	}
	d.watches[tracked] = cancel
	return tracked, func() { cancel(); d.leave(tracked) }, true
}

func (d *Drain) leave(watch *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if watch != nil {
		delete(d.watches, watch)
	}
	d.active--
	if d.active == 0 && d.closed && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}

// track has Close hurry the body of a request that has one. The request is returned with it; done is nil where there is
// none, and is called when the request was served.
func (d *Drain) track(w http.ResponseWriter, r *http.Request) (tracked *http.Request, done func()) {
	if r.Body == nil || r.Body == http.NoBody || d.Patience == 0 {
		return r, nil
	}
	body := &drainedBody{ReadCloser: r.Body, control: http.NewResponseController(w)}
	d.mu.Lock()
	if d.bodies == nil {
		d.bodies = map[*drainedBody]struct{}{}
	}
	d.bodies[body] = struct{}{}
	if d.closed { // since the request entered
		body.hurry(d.Patience)
	}
	d.mu.Unlock()
	copied := *r // net/http looks at the body of the one that it has made
	copied.Body = body
	return &copied, func() {
		// HTTP/1.1 reads what nobody has read, before the answer goes out. That is done here, while it is tracked. A client
		// that waits for 100 Continue is not told to send it; its connection is closed.
		switch {
		case r.ProtoMajor != 1 || body.atEnd():
		case r.Header.Get("Expect") == "":
			_ = body.ReadCloser.Close()
		default:
			_ = body.control.SetReadDeadline(time.Now().Add(d.Patience))
		}
		d.mu.Lock()
		delete(d.bodies, body)
		d.mu.Unlock()
		body.leave()
	}
}

// drainedBody is the body of a request, which once it is in a hurry has to make progress.
type drainedBody struct {
	io.ReadCloser
	control *http.ResponseController

	mu       sync.Mutex
	patience time.Duration // guarded by mu; 0: in no hurry
	ended    bool          // guarded by mu; there is no more to read, or the request was served
}

// Read implements io.Reader.
func (b *drainedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 || err != nil {
		b.came(err)
	}
	return n, err
}

// came notes that the client has sent something, or that err has ended the body.
func (b *drainedBody) came(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = err != nil
	switch {
	case b.patience == 0:
	case err == nil:
		_ = b.control.SetReadDeadline(time.Now().Add(b.patience)) // where there is none, ctx of Close is the end
	case errors.Is(err, io.EOF):
		// The rest of the request takes its time: net/http reads on, to see whether the client leaves.
		_ = b.control.SetReadDeadline(time.Time{})
	}
}

// hurry bounds how long nothing may come from now on.
func (b *drainedBody) hurry(patience time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.patience = patience; !b.ended && patience > 0 {
		_ = b.control.SetReadDeadline(time.Now().Add(patience))
	}
}

func (b *drainedBody) atEnd() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// leave ends the use of the ResponseWriter, which is that of another request next.
func (b *drainedBody) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

func withDrain(handler http.Handler, drain *Drain) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.InfoFrom(r.Context())
		tracked, leave, ok := drain.enter(r, isLongRunning(info))
		if !ok {
			if drain.Patience > 0 && r.Body != nil && r.Body != http.NoBody {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drain.Patience)) // nobody wants it
			}
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			request.WriteError(w, apierrors.NewServiceUnavailable("the server is shutting down; try another, or again in a second"))
			return
		}
		defer leave()
		tracked, done := drain.track(w, tracked)
		if done != nil {
			defer done()
		}
		handler.ServeHTTP(w, tracked)
	})
}
