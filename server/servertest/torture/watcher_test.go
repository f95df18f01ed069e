package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// watcher is one client that watches and begins again after each end.
type watcher struct {
	stream
	client *client
	run    *run
	random *rand.Rand

	// initial: it begins with initial events instead of a list.
	initial bool
	// slow is how long it takes over each event until the writers have ended.
	slow time.Duration
	// bookmarked: it resumes from bookmarks only from the point it knows them, and breaks off at each.
	bookmarked bool
	// roams: it resumes on another server.
	roams bool
	// quits: it breaks off at deletions, also between those of one revision.
	quits bool
	// stalled: it does not read before this is closed; nil reads at once. leaves: it reads little then.
	stalled <-chan struct{}
	leaves  bool
	// past: it begins at the first revision of the run.
	past bool

	last     int64
	expired  int
	breaks   int
	arrivals []arrival
	// held: it has not read what the server was ready to send. left: it has read a little and gone, as it should.
	held, left bool
	taken      int // events
	proved     bool
}

// arrival is when an event came.
type arrival struct{ rv, at int64 }

// errAnew says that a watcher cannot resume.
var errAnew = errors.New("begin anew")

// follow watches until the last revision of the run has been seen, or ctx is done.
func (w *watcher) follow(ctx context.Context) {
	defer w.client.close()
	if w.stalled != nil {
		select {
		case <-w.run.admit:
		case <-ctx.Done():
		}
	}
	var g *segment
	for ctx.Err() == nil {
		if g == nil {
			var err error
			if g, err = w.begin(ctx); err != nil {
				w.client.move()
				pause(ctx, 20*time.Millisecond)
				continue
			}
			w.segments = append(w.segments, g)
		}
		err := w.once(ctx, g)
		if w.left {
			return
		}
		if end := w.run.end.Load(); end > 0 && w.last >= end && (g.from > 0 || w.last > 0) {
			g.complete = true
			return
		}
		w.breaks++
		if errors.Is(err, errAnew) || g.from == 0 && w.last == 0 {
			g = nil
		} else {
			w.resumes++
		}
		if w.roams || err != nil {
			w.client.move()
		}
		if err != nil {
			pause(ctx, time.Duration(5+w.random.IntN(30))*time.Millisecond)
		}
	}
}

// begin lists, or leaves that to the initial events.
func (w *watcher) begin(ctx context.Context) (*segment, error) {
	w.last = 0
	if w.initial {
		return &segment{}, nil
	}
	if w.past && w.breaks == 0 { // later it lists, as what it was told is too old
		w.last = w.run.recorder.from
		return &segment{from: w.last}, nil
	}
	p, err := w.run.list(ctx, w.client, w.selector)
	if err != nil {
		return nil, err
	}
	w.last = p.rv
	return &segment{from: p.rv}, nil
}

// path of the next request of a segment.
func (w *watcher) path() string {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(3 + w.random.IntN(w.run.longest-2))}}
	if w.stalled != nil {
		query.Set("timeoutSeconds", "3600")
	}
	w.selector.query(query)
	if w.last > 0 {
		query.Set("resourceVersion", strconv.FormatInt(w.last, 10))
	} else {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	return w.run.resource.path() + "?" + query.Encode()
}

func (s selector) query(query url.Values) {
	if s.side != "" {
		query.Set("labelSelector", "side="+s.side)
	}
	if s.name != "" {
		query.Set("fieldSelector", "metadata.name="+s.name)
	}
}

// once watches until the stream ends. A clean end is nil.
func (w *watcher) once(ctx context.Context, g *segment) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := w.client.server()
	// The answer's head comes at once from a server that is there.
	head := time.AfterFunc(requestTime, cancel)
	resp, err := w.client.open(ctx, http.MethodGet, w.path(), "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	head.Stop()
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		answer, _ := parse(data)
		w.run.answers.add(server, "watch", resp.StatusCode, &answer, nil)
		if resp.StatusCode == http.StatusGone {
			w.expired++
			return errAnew
		}
		return fmt.Errorf("%d: %.200s", resp.StatusCode, data)
	}
	if w.stalled != nil {
		if !w.held {
			w.held = true
			w.run.note(stalledWatches)
		}
		select {
		case <-w.stalled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err = w.read(ctx, g, resp.Body, server)
	if w.stalled != nil && !w.left {
		w.prove(nil, 0)
	}
	return err
}

// read takes the events of one connection.
func (w *watcher) read(ctx context.Context, g *segment, body io.Reader, server string) error {
	events := json.NewDecoder(body)
	resumed := true
	for {
		var e struct {
			Type   string
			Object wire
		}
		if err := events.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if e.Type == "ERROR" {
			w.run.answers.add(server, "watch", e.Object.Code, &e.Object, nil)
			if e.Object.Code == http.StatusGone {
				w.expired++
				return errAnew
			}
			return fmt.Errorf("%d: %s", e.Object.Code, e.Object.Message)
		}
		it := item{event: event{kind: e.Type, object: e.Object.object()}, resumed: resumed, on: server}
		resumed = false
		if e.Type == "BOOKMARK" {
			it.bookmark = true
			it.initialEnd = e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" && w.last == 0
		}
		g.items = append(g.items, it)
		switch {
		case it.bookmark:
			w.last = max(w.last, it.rv)
		case w.last > 0: // initial events are in no order of revisions
			w.last = max(w.last, it.rv)
			w.arrivals = append(w.arrivals, arrival{it.rv, w.run.now()})
		}
		if w.stalled != nil {
			w.taken++
			w.prove(&it, events.InputOffset())
			if w.leaves && w.taken >= fewEvents && w.last > 0 {
				w.left = true
				return nil
			}
		}
		if w.quits && it.kind == "DELETED" && w.random.IntN(3) == 0 {
			return nil
		}
		end := w.run.end.Load()
		if end > 0 && w.last >= end {
			return nil
		}
		if w.bookmarked && it.bookmark && !it.initialEnd {
			return nil
		}
		if w.slow > 0 && end == 0 {
			pause(ctx, w.slow)
		}
	}
}
