package filters

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/server/request"
)

// Drain tracks what is being served, so that a shutdown ends watches cleanly and waits for
// everything else. The zero value is ready.
type Drain struct {
	mu      sync.Mutex
	closed  bool                                 // guarded by mu
	active  int                                  // guarded by mu
	idle    chan struct{}                        // guarded by mu; closed when active is 0 after Close
	watches map[*http.Request]context.CancelFunc // guarded by mu
}

// Close makes new requests fail with 503, ends the watches and waits until all requests are done, or ctx is.
func (d *Drain) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	for _, cancel := range d.watches {
		cancel()
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

func withDrain(handler http.Handler, drain *Drain) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.InfoFrom(r.Context())
		tracked, leave, ok := drain.enter(r, isLongRunning(info))
		if !ok {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			request.WriteError(w, apierrors.NewServiceUnavailable("the server is shutting down; try another, or again in a second"))
			return
		}
		defer leave()
		handler.ServeHTTP(w, tracked)
	})
}
