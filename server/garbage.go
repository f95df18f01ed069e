package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/controllers"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
)

// lineagePage is how many rows are read at a time when all are listed.
const lineagePage = 500

// lineageRows shows the garbage collector all rows in one stream, without a cacher for any resource.
type lineageRows struct {
	rows   storage.Interface
	prefix string // with a slash at its end
}

var _ controllers.Rows = (*lineageRows)(nil)

func newLineageRows(s *storages, logger *slog.Logger) (*lineageRows, error) {
	resource, err := resourcesByKey(s.prefix + "/")
	if err != nil {
		return nil, err
	}
	transformer := &lineageTransformer{Transformer: s.encryption.ByKey(resource), logger: logger}
	rows, err := etcd3.New(etcd3.Config{Client: s.client, Prefix: s.prefix, Codec: lineageCodec{}, Transformer: transformer, Leases: s.leases, Resource: "*"})
	if err != nil {
		return nil, err
	}
	return &lineageRows{rows: rows, prefix: s.prefix + "/"}, nil
}

// Follow implements controllers.Rows.
func (r *lineageRows) Follow(ctx context.Context, h controllers.RowHandler) error {
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = lineagePage
	h.Begin()
	for {
		list, err := r.rows.GetList(ctx, r.prefix, opts)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for _, row := range list.Rows {
			h.Put(document.FromCanonical(row.Value))
		}
		if opts.Predicate.Continue = list.Continue; list.Continue == "" {
			opts.ResourceVersion = storage.FormatResourceVersion(list.ResourceVersion)
			break
		}
	}
	h.End()
	opts.Predicate = storage.Everything
	w, err := r.rows.Watch(ctx, r.prefix, opts)
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
			switch e.Type {
			case storage.Added, storage.Modified:
				h.Put(document.FromCanonical(e.Row.Value))
			case storage.Deleted:
				h.Remove(document.FromCanonical(e.Row.Value))
			}
		}
	}
}

// lineageCodec decodes of a row only what says who it is, whose it is and how it ends. A row that is no JSON
// object decodes to an empty one: one such row must not end the stream of all.
type lineageCodec struct{}

var _ storage.Codec = lineageCodec{}

var errReadOnly = errors.New("rows are only read here")

// Encode implements storage.Codec.
func (lineageCodec) Encode([]byte) ([]byte, error) { return nil, errReadOnly }

// Decode implements storage.Codec.
func (lineageCodec) Decode(stored []byte, _ uint64) ([]byte, error) {
	obj := document.FromCanonical(stored)
	if obj.Err() != nil {
		var err error
		if obj, err = document.Parse(stored); err != nil { // what another writer stored
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
