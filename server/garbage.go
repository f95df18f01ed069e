package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/controllers"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
)

// lineagePage is how many rows are read at a time when all are listed.
const lineagePage = 500

// lineageRows shows the garbage collector all rows of all clusters in one stream, without a cacher for any resource.
type lineageRows struct {
	clusters []lineageCluster
	prefix   string // with a slash at its end
	resource func(key string) schema.GroupResource
	logger   *slog.Logger
}

// lineageCluster is one etcd. Of what it has, only the resources that are placed there count: it may hold
// what was left behind when a resource was placed elsewhere.
type lineageCluster struct {
	name string
	rows storage.Interface
	has  func(key string) bool
	// near: it is in this process, and would be asked for what was before each change. The collector needs that of a deletion
	// only. Another one sends it along: to be asked for each deletion, one after the other, would take longer.
	near bool
}

var _ controllers.Rows = (*lineageRows)(nil)

func newLineageRows(s *storages, logger *slog.Logger) (*lineageRows, error) {
	resource, err := resourcesByKey(s.prefix + "/")
	if err != nil {
		return nil, err
	}
	out := &lineageRows{prefix: s.prefix + "/", resource: resource, logger: logger}
	for _, at := range s.clusters.all {
		transformer := &lineageTransformer{Transformer: s.encryption.ByKey(resource), logger: logger}
		rows, err := etcd3.New(etcd3.Config{Client: at.client, Prefix: s.prefix, Codec: newLineageCodec(), Transformer: transformer,
			Leases: at.leases, Health: at.health, Resource: "*"})
		if err != nil {
			return nil, err
		}
		out.clusters = append(out.clusters, lineageCluster{name: at.name, rows: rows, near: at.embedded != nil, has: func(key string) bool {
			return len(s.clusters.all) == 1 || s.clusters.of(resource(key)) == at
		}})
	}
	return out, nil
}

// Follow implements controllers.Rows. Changes come in the order of each cluster; clusters have none between them,
// which the collector does without: before it deletes, it asks for the owners themselves.
func (r *lineageRows) Follow(ctx context.Context, h controllers.RowHandler) error {
	if err := r.reach(ctx); err != nil {
		return err
	}
	h.Begin()
	from := make([]string, len(r.clusters))
	for i := range r.clusters {
		var err error
		if from[i], err = r.list(ctx, &r.clusters[i], h); err != nil {
			return err
		}
	}
	h.End()
	if len(r.clusters) == 1 {
		return r.watch(ctx, &r.clusters[0], from[0], h)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	one := &serialHandler{RowHandler: h}
	var watching sync.WaitGroup
	for i := range r.clusters {
		watching.Go(func() { cancel(r.watch(ctx, &r.clusters[i], from[i], one)) })
	}
	watching.Wait()
	return context.Cause(ctx)
}

// reach has an error where one of several clusters does not answer: not all of the others is read, again and again, to find that.
func (r *lineageRows) reach(ctx context.Context) error {
	if len(r.clusters) == 1 {
		return nil
	}
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = 1
	for i := range r.clusters {
		if _, err := r.clusters[i].rows.GetList(ctx, r.prefix, opts); err != nil {
			return fmt.Errorf("etcd %s: %w", r.clusters[i].name, err)
		}
	}
	return nil
}

// list puts all rows of a cluster, and returns the revision they are of. What was left behind when a resource was
// placed elsewhere is told.
func (r *lineageRows) list(ctx context.Context, at *lineageCluster, h controllers.RowHandler) (revision string, err error) {
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = lineagePage
	left := map[schema.GroupResource]int{}
	for {
		list, err := at.rows.GetList(ctx, r.prefix, opts)
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		for _, row := range list.Rows {
			obj := document.FromCanonical(row.Value.Bytes())
			if !at.has(row.Key) {
				left[r.resource(row.Key)]++
			}
			at.put(h, row.Key, obj)
		}
		if opts.Predicate.Continue = list.Continue; list.Continue == "" {
			for gr, objects := range left {
				r.logger.WarnContext(ctx, "objects are not served: --etcd-servers-overrides place their resource in another etcd than they are in; copy their keys there",
					"resource", gr, "objects", objects, "etcd", at.name)
			}
			return storage.FormatResourceVersion(list.ResourceVersion), nil
		}
	}
}

// watch tells of what changes in a cluster after a revision.
func (r *lineageRows) watch(ctx context.Context, at *lineageCluster, from string, h controllers.RowHandler) error {
	w, err := at.rows.Watch(ctx, r.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: from, Bare: at.near})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		for _, e := range events {
			switch {
			case e.Type == storage.Added, e.Type == storage.Modified:
				at.put(h, e.Row.Key, document.FromCanonical(e.Row.Value.Bytes()))
			case e.Type == storage.Deleted:
				last, err := at.last(ctx, e.Row)
				if err != nil {
					return fmt.Errorf("what was deleted: %w", err)
				}
				at.remove(h, e.Row.Key, r.resource(e.Row.Key), document.FromCanonical(last))
			}
		}
	}
}

// put gives the collector an object. What was left behind when a resource was placed elsewhere is there, though no request finds it.
func (c *lineageCluster) put(h controllers.RowHandler, key string, obj *document.Document) {
	if c.foreign(key, obj) {
		h.Foreign(obj)
	} else {
		h.Put(obj)
	}
}

// remove tells the collector of the last state of an object that is deleted.
func (c *lineageCluster) remove(h controllers.RowHandler, key string, resource schema.GroupResource, obj *document.Document) {
	if c.foreign(key, obj) {
		h.RemoveForeign(obj)
	} else {
		h.Remove(resource, obj)
	}
}

func (c *lineageCluster) foreign(key string, obj *document.Document) bool {
	return obj.Get(foreignMember).Exists() || !c.has(key)
}

// last returns the last state of a row that is deleted.
func (c *lineageCluster) last(ctx context.Context, deleted storage.Row) ([]byte, error) {
	if !deleted.Value.IsZero() {
		return deleted.Value.Bytes(), nil
	}
	list, err := c.rows.GetList(ctx, deleted.Key, storage.ListOptions{Predicate: storage.Everything,
		ResourceVersion: storage.FormatResourceVersion(deleted.ResourceVersion - 1), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err != nil {
		return nil, err
	}
	if len(list.Rows) == 0 {
		return []byte("{}"), nil // it was made and deleted by one transaction
	}
	return list.Rows[0].Value.Bytes(), nil
}

// serialHandler lets one cluster speak at a time.
type serialHandler struct {
	controllers.RowHandler
	mu sync.Mutex
}

// Put implements controllers.RowHandler.
func (h *serialHandler) Put(obj *document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.RowHandler.Put(obj)
}

// Foreign implements controllers.RowHandler.
func (h *serialHandler) Foreign(obj *document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.RowHandler.Foreign(obj)
}

// Remove implements controllers.RowHandler.
func (h *serialHandler) Remove(resource schema.GroupResource, obj *document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.RowHandler.Remove(resource, obj)
}

// RemoveForeign implements controllers.RowHandler.
func (h *serialHandler) RemoveForeign(obj *document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.RowHandler.RemoveForeign(obj)
}

// lineageCodec decodes of a row only what says who it is, whose it is and how it ends. One that kube-apiserver stored as
// protobuf decodes to who it is, with the member foreign. Any other row that is no JSON object decodes to an empty one: one
// such row must not end the stream of all.
type lineageCodec struct {
	scratches *sync.Pool // of *document.Scratch
}

var _ storage.Codec = lineageCodec{}

func newLineageCodec() lineageCodec {
	return lineageCodec{&sync.Pool{New: func() any { return new(document.Scratch) }}}
}

var errReadOnly = errors.New("rows are only read here")

// Encode implements storage.Codec.
func (lineageCodec) Encode([]byte) ([]byte, error) { return nil, errReadOnly }

// Decode implements storage.Codec.
func (c lineageCodec) Decode(stored []byte, _ uint64) ([]byte, error) {
	if protobuf, ok := bytes.CutPrefix(stored, []byte(storage.ProtobufPrefix)); ok {
		return foreignLineage(protobuf), nil
	}
	scratch := c.scratches.Get().(*document.Scratch)
	defer c.scratches.Put(scratch)
	obj := scratch.FromCanonical(stored)
	if obj.Err() != nil {
		var err error
		if obj, _, err = document.Ingest(stored, document.IngestOptions{}); err != nil { // what another writer stored
			return []byte(`{}`), nil
		}
	}
	// Both lists are in the order of the names, as canonical JSON has them.
	out := append(make([]byte, 0, 512), '{')
	out = appendMembers(out, obj.Root(), "apiVersion", "kind")
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"metadata":{`...)
	out = appendMembers(out, obj.Get("metadata"), "deletionTimestamp", "finalizers", "name", "namespace", "ownerReferences", "uid")
	return append(out, "}}"...), nil
}

const foreignMember = "foreign"

// foreignLineage returns who an object of kube-apiserver is.
func foreignLineage(protobuf []byte) []byte {
	var envelope runtime.Unknown
	var obj metav1.PartialObjectMetadata
	if envelope.Unmarshal(protobuf) != nil || obj.Unmarshal(envelope.Raw) != nil || obj.UID == "" {
		return []byte(`{}`)
	}
	metadata := map[string]any{"name": obj.Name, "uid": string(obj.UID)}
	if obj.Namespace != "" {
		metadata["namespace"] = obj.Namespace
	}
	out, err := document.FromValue(map[string]any{"apiVersion": envelope.APIVersion, "kind": envelope.Kind, "metadata": metadata, foreignMember: true})
	if err != nil {
		return []byte(`{}`)
	}
	return out.Bytes()
}

// Check implements storage.Codec: Decode takes anything.
func (lineageCodec) Check(stored []byte) ([]byte, error) { return stored, nil }

// appendMembers appends those members of an object that have one of the names.
func appendMembers(out []byte, object document.Value, names ...string) []byte {
	first := true
	for _, name := range names {
		v := object.Get(name)
		if !v.Exists() {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(append(out, '"'), name...), '"', ':')
		out = append(out, v.Raw()...)
	}
	return out
}
