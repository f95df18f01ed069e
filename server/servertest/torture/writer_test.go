package torture_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	namespace = "torture"
	// keysAtOnce are written at a time, by all writers, for opsPerKeys operations; then others follow, so that no
	// history is too long to be checked.
	keysAtOnce, opsPerKeys = 5, 300
	// sweptGroups is how many times as many keys are swept, the latest before those.
	sweptGroups = 10
	// steadyKey is written all the time.
	steadyKey = "steady"
	// lastKey is written at the end.
	lastKey = "zz-last"
)

// board is what the writers tell each other.
type board struct {
	mu     sync.Mutex
	count  int               // operations begun; guarded by mu
	latest map[string]object // as last heard of; guarded by mu
	batch  int               // of the leaser; guarded by mu
}

func (b *board) next() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	return b.count
}

func (b *board) known(key string) object {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest[key]
}

func (b *board) heard(o object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.latest[o.key].rv < o.rv {
		b.latest[o.key] = o
	}
}

// writer is one client that writes and reads objects.
type writer struct {
	id     int
	client *client
	run    *run
	random *rand.Rand
	made   int
}

// work writes until ctx is done.
func (w *writer) work(ctx context.Context) {
	defer w.client.close()
	ticker := time.NewTicker(w.run.pace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		op := w.choose()
		w.do(op)
		if op.outcome == unknown || op.outcome == refused {
			w.client.move()
			pause(ctx, time.Duration(5+w.random.IntN(45))*time.Millisecond)
		}
	}
}

// choose thinks of an operation.
func (w *writer) choose() *operation {
	n := w.run.board.next()
	key := fmt.Sprintf("k%05d-%d", n/opsPerKeys, w.random.IntN(keysAtOnce))
	switch roll := w.random.IntN(20); {
	case roll == 0:
		key = steadyKey
	case roll < 3 && w.run.leases:
		key = w.run.board.leased(w.random)
	}
	w.made++
	op := &operation{client: w.id, object: object{key: key}}
	if w.run.sweeps && w.random.IntN(10) == 0 {
		if group := n/opsPerKeys - 1 - w.random.IntN(sweptGroups); group >= 0 {
			op.kind, op.key = remove, fmt.Sprintf("k%05d-%d", group, w.random.IntN(keysAtOnce))
			return op
		}
	}
	known := w.run.board.known(key)
	roll := w.random.IntN(100)
	if known.rv == 0 && roll < 60 {
		roll = 0
	}
	switch {
	case roll < 15:
		op.kind = create
	case roll < 40:
		op.kind = get
	case roll < 60 && known.rv != 0:
		op.kind, op.rv, op.creates = update, known.rv, w.run.resource.creates
	case roll < 85:
		op.kind = patch
	default:
		op.kind = remove
		switch w.random.IntN(3) {
		case 0:
			op.rv = known.rv
		case 1:
			op.uid = known.uid
		}
	}
	if op.kind != get && op.kind != remove {
		op.value = fmt.Sprintf("w%d-%d", w.id, w.made)
		op.side = []string{"left", "right"}[w.random.IntN(2)]
	}
	return op
}

// do makes the request and notes what became of it. It is not cut off at the end of the run, so that few outcomes
// are unknown.
func (w *writer) do(op *operation) {
	ctx := context.WithoutCancel(w.run.context)
	pad := strings.Repeat("x", w.random.IntN(w.run.pad+1))
	of := w.run.resource
	if op.kind == remove {
		w.run.removals.RLock()
		defer w.run.removals.RUnlock()
	}
	path := of.path() + "/" + op.key
	op.call = w.run.now()
	var code int
	var answer wire
	var err error
	server := w.client.server()
	switch op.kind {
	case create:
		code, answer, err = w.client.ask(ctx, http.MethodPost, of.path(), of.body(op.object, pad))
	case get:
		code, answer, err = w.client.ask(ctx, http.MethodGet, path, "")
	case update:
		code, answer, err = w.client.ask(ctx, http.MethodPut, path, of.body(op.object, pad))
	case patch:
		code, answer, err = w.client.ask(ctx, http.MethodPatch, path, of.patch(op.object, pad))
	case remove:
		code, answer, err = w.client.ask(ctx, http.MethodDelete, path, preconditions(op.object))
	}
	op.end = w.run.now()
	op.judge(code, &answer, err)
	w.run.answers.add(server, op.kind.String(), code, &answer, err)
	if code == http.StatusTooManyRequests && strings.Contains(answer.Message, "embedded etcd is full") {
		w.run.note(fullAnswers)
	}
	if op.outcome == done && op.kind != remove {
		if op.acknowledged() {
			w.run.written.Add(int64(len(pad)))
		}
		w.run.board.heard(op.got)
	}
	w.run.operations.add(op)
}

// preconditions is the body of a delete, "" where there are none.
func preconditions(o object) string {
	switch {
	case o.rv != 0:
		return `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"` + strconv.FormatInt(o.rv, 10) + `"}}`
	case o.uid != "":
		return `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + o.uid + `"}}`
	}
	return ""
}

// judge says what an answer means.
func (o *operation) judge(code int, answer *wire, err error) {
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		o.outcome = refused
	case err != nil || code >= 500:
		o.outcome = unknown
	case code == http.StatusOK || code == http.StatusCreated:
		o.outcome = done
		if o.kind != remove {
			o.got = answer.object()
		}
	case code == http.StatusConflict && answer.Reason == "AlreadyExists":
		o.outcome = exists
	case code == http.StatusConflict:
		o.outcome = conflict
	case code == http.StatusNotFound && o.kind != create:
		o.outcome = missing
	case code == http.StatusTooManyRequests:
		o.outcome = refused
	default:
		o.outcome = odd
		o.said = fmt.Sprintf("%d %s %.200s", code, answer.Reason, answer.Message)
	}
}
