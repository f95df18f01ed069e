package endpoints

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// watchDrain is how long a client that does not read may hold a watch beyond its end.
const watchDrain = 30 * time.Second

// watch serves the events of a collection until the client leaves, the time is up
// or the context of the request ends, which is how a server shuts down.
//
// An error before the first event is an HTTP error only where the client is to
// come back with the same request (429, 503) or has asked for nonsense (400, 422);
// every other one is an ERROR event, as upstream.
func (s *server) watch(w http.ResponseWriter, req *http.Request, sc *scope, opts *internalversion.ListOptions) error {
	watcher, ok := sc.storage.(rest.Watcher)
	if !ok {
		return sc.errNotSupported("watch")
	}
	out, ok := negotiate(req, streamMediaTypes{})
	if !ok {
		return newNotAcceptable([]string{mediaTypeJSON + ";stream=watch"})
	}
	frames, err := s.newFrames(req, sc, out)
	if err != nil {
		return err
	}
	timeout := s.watchTimeout(opts)
	if timeout < 0 { // upstream's watch of no time: it begins and ends
		return answerWatch(w, req, 0, func() {}, func(stream) {})
	}
	ctx, cancel := context.WithTimeout(sc.context(req.Context()), timeout)
	defer cancel()

	cursor, err := watcher.Watch(ctx, opts)
	if err != nil {
		if !isWatchEvent(err) {
			return err
		}
		return answerWatch(w, req, timeout, cancel, func(out stream) { writeWatchError(out, err) })
	}
	defer cursor.Stop()
	if sc.converter == nil {
		rest.Release(ctx) // a watch outlives what was in force when it started
	}
	return answerWatch(w, req, timeout, cancel, func(out stream) {
		if err := sendEvents(ctx, cursor, frames, out); err != nil {
			s.logInternal(req, err)
			writeWatchError(out, err)
		}
	})
}

// sendEvents sends events until there are no more, the time is up or the client is gone. Its error is for the client.
func sendEvents(ctx context.Context, cursor rest.Watch, frames *frames, out stream) error {
	if offerer, ok := cursor.(rest.Offerer); ok && frames.cheap() {
		if connection, ok := out.offers(); ok {
			offerer.Offer(func(events []rest.Event) (taken bool, later func()) {
				defer frames.forget()
				chunks, err := frames.encode(ctx, events)
				if err != nil {
					return false, nil // comes again below
				}
				return out.offer(chunks)
			}, connection)
		}
	}
	for {
		events, err := cursor.Next(ctx)
		for i := range events {
			chunks, err := frames.encode(ctx, events[i:i+1])
			if err != nil {
				return err
			}
			out.write(chunks, i == len(events)-1)
			frames.forget()
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			out.flush()
			return nil
		default:
			return err
		}
		if !out.flush() {
			return nil
		}
	}
}

// watchTimeout is timeoutSeconds, else random, so that clients that came together
// do not come back together. It is negative when the client's is.
func (s *server) watchTimeout(opts *internalversion.ListOptions) time.Duration {
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds != 0 {
		return time.Duration(min(max(*opts.TimeoutSeconds, -1), int64((100*365*24*time.Hour)/time.Second))) * time.Second
	}
	return time.Duration(float64(s.MinRequestTimeout) * (1 + rand.Float64()))
}

// isWatchEvent reports whether an error at the start of a watch is told in the stream.
func isWatchEvent(err error) bool {
	switch statusOf(err).Code {
	case http.StatusGone, http.StatusGatewayTimeout, http.StatusInternalServerError:
		return true
	default:
		return false
	}
}

// The parts of a frame around an object. They are never written to.
var (
	frameAdded    = []byte(`{"type":"ADDED","object":`)
	frameModified = []byte(`{"type":"MODIFIED","object":`)
	frameDeleted  = []byte(`{"type":"DELETED","object":`)
	frameBookmark = []byte(`{"type":"BOOKMARK","object":`)
	frameError    = []byte(`{"type":"ERROR","object":`)
	frameEnd      = []byte("}\n")
)

// frames encodes events in the form agreed with a client.
type frames struct {
	scope *scope
	out   output
	// table is set where that form is a Table.
	table *table
	// begins is how an object of the version begins that was both stored and served when the watch began, where there are
	// others. A watch outlives the definition: another may be stored meanwhile, and has to be converted.
	begins []byte
	// chunks is the memory of what encode returns.
	chunks [][]byte
}

// maxKeptChunks is how much of that memory a watch that waits keeps.
const maxKeptChunks = 16

func (s *server) newFrames(req *http.Request, sc *scope, out output) (*frames, error) {
	f := &frames{scope: sc, out: out}
	if sc.converter == nil && sc.version.Converter != nil {
		f.begins = []byte(`{"apiVersion":"` + sc.kind.GroupVersion().String() + `"`)
	}
	if out.convert == nil || out.convert.Kind != kindTable {
		return f, nil
	}
	var err error
	f.table, err = s.newTable(req, sc, out.convert.GroupVersion())
	return f, err
}

// cheap reports whether a frame is little more than the bytes of its object.
func (f *frames) cheap() bool { return f.scope.converter == nil && f.table == nil }

// encode gives the frames of events, valid until forget. The bytes of their objects are not copied.
func (f *frames) encode(ctx context.Context, events []rest.Event) ([][]byte, error) {
	f.forget()
	for i := range events {
		if err := f.add(ctx, &events[i]); err != nil {
			return nil, err
		}
	}
	return f.chunks, nil
}

// forget ends what encode has given: a watch that waits holds no objects.
func (f *frames) forget() {
	clear(f.chunks)
	f.chunks = f.chunks[:0]
	if cap(f.chunks) > maxKeptChunks {
		f.chunks = nil
	}
}

// add adds the frame of an event to the chunks.
func (f *frames) add(ctx context.Context, event *rest.Event) error {
	prefix := frameAdded
	switch event.Type {
	case "MODIFIED":
		prefix = frameModified
	case "DELETED":
		prefix = frameDeleted
	case "BOOKMARK":
		prefix = frameBookmark
	}
	obj := event.Object
	var err error
	if event.Type == "BOOKMARK" {
		obj, err = f.bookmark(event)
	} else {
		obj, err = f.scope.fromStored(ctx, obj)
	}
	if err != nil {
		return err
	}
	chunks := append(f.chunks, prefix)
	switch {
	case f.table != nil:
		if obj, err = f.served(ctx, obj, obj.Bytes()); err != nil {
			return err
		}
		rv := obj.Get("metadata", "resourceVersion").String()
		table := *f.table
		if event.InitialEventsEnd && table.include == metav1.IncludeNone {
			table.include = metav1.IncludeMetadata // the annotation says that this is the end
		}
		body, err := table.encode(&rest.List{Items: []*document.Document{obj}, ResourceVersion: rv})
		if err != nil {
			return err
		}
		f.table.noHeaders = true // only the first event has them
		chunks = append(chunks, body...)
	case f.out.convert != nil:
		chunks = append(chunks, partial(obj, f.out.convert.GroupVersion())...)
	default:
		before := len(chunks)
		if chunks = obj.Pieces(chunks); len(chunks) == before {
			break
		}
		served, err := f.served(ctx, obj, chunks[before])
		if err != nil {
			return err
		}
		if served != obj {
			chunks = served.Pieces(chunks[:before])
		}
	}
	f.chunks = append(chunks, frameEnd)
	return nil
}

// served returns an object, whose text begins with some bytes, in the version that is served: itself but where another is
// stored than when the watch began.
func (f *frames) served(ctx context.Context, obj *document.Document, text []byte) (*document.Document, error) {
	if bytes.HasPrefix(text, f.begins) || obj.Get("apiVersion").String() == f.scope.kind.GroupVersion().String() {
		return obj, nil
	}
	return f.scope.version.Converter.Convert(ctx, obj, f.scope.version.Name)
}

// bookmark is an object of the kind that has a resourceVersion and nothing else.
func (f *frames) bookmark(event *rest.Event) (*document.Document, error) {
	meta := map[string]any{"resourceVersion": event.ResourceVersion}
	if event.InitialEventsEnd {
		meta["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	return document.FromValue(map[string]any{
		"apiVersion": f.scope.kind.GroupVersion().String(),
		"kind":       f.scope.kind.Kind,
		"metadata":   meta,
	})
}
