package upstream

import (
	"context"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	upstorage "k8s.io/apiserver/pkg/storage"

	"weir.dev/weir/server/storage"
)

const (
	// root is the prefix of all keys in etcd, resource that of the suite's pods below it.
	root     = "/registry"
	resource = "/pods/"
)

// newCodec returns the codec between the pods of the suite and their JSON.
func newCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
}

// adapter is upstream's storage.Interface over one of this server's. It does what
// the registry does in front of the storage: it refuses a create with a
// resourceVersion and drops the selfLink.
type adapter struct {
	storage.Interface
	codec     runtime.Codec
	versioner upstorage.APIObjectVersioner
	// lean pods have a resourceVersion only, where nobody looks at more; see the benchmarks.
	lean bool
	// attributes is the storage.AttrFunc of a cacher; nil means attrs.
	attributes storage.AttrFunc
	// compacted is the revision that the fixture has compacted last.
	compacted atomic.Int64

	mu     sync.Mutex
	blanks []example.Pod // guarded by mu
}

var _ upstorage.Interface = (*adapter)(nil)

// key returns the whole key of one that upstream takes. Upstream's own check comes first.
func (a *adapter) key(key string, recursive bool) (string, error) {
	prepared, err := upstorage.PrepareKey(resource, key, recursive)
	if err != nil {
		return "", err
	}
	clean := path.Join(root, prepared)
	if recursive {
		clean += "/"
	}
	return clean, nil
}

// encode returns a pod as it is served: canonical JSON.
func (a *adapter) encode(obj runtime.Object) ([]byte, error) {
	pod := obj.(*example.Pod)
	if pod.SelfLink != "" {
		pod = pod.DeepCopy()
		pod.SelfLink = ""
	}
	text, err := runtime.Encode(a.codec, pod)
	if err != nil {
		return nil, err
	}
	value := jsontext.Value(text)
	err = value.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return value, err
}

// decode returns the pod of a served object.
func (a *adapter) decode(value []byte) (*example.Pod, error) {
	obj, err := runtime.Decode(a.codec, value)
	if err != nil {
		return nil, err
	}
	return obj.(*example.Pod), nil
}

// put decodes a row into out, which may be nil.
func (a *adapter) put(row storage.Row, out runtime.Object) error {
	switch {
	case out == nil:
		return nil
	case a.lean:
		out.(*example.Pod).ResourceVersion = storage.FormatResourceVersion(row.ResourceVersion)
		return nil
	}
	return a.fill(row, out)
}

// fill decodes a row into out, lean or not.
func (a *adapter) fill(row storage.Row, out runtime.Object) error {
	pod := &example.Pod{}
	if !row.Value.IsZero() {
		var err error
		if pod, err = a.decode(row.Value.Bytes()); err != nil {
			return err
		}
	}
	*out.(*example.Pod) = *pod
	return nil
}

// cached returns the row of an object that a caller believes to be current.
func (a *adapter) cached(key string, obj runtime.Object) (storage.Row, error) {
	if obj == nil {
		return storage.Row{}, nil
	}
	rv, err := a.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return storage.Row{}, err
	}
	value, err := a.encode(obj)
	return storage.Row{Key: key, Value: storage.NewText(value), ResourceVersion: rv}, err
}

func preconditions(p *upstorage.Preconditions) *storage.Preconditions {
	if p == nil {
		return nil
	}
	return &storage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
}

func (a *adapter) predicate(p upstorage.SelectionPredicate) storage.SelectionPredicate {
	out := storage.SelectionPredicate{
		Label: p.Label, Field: p.Field, Limit: p.Limit, Continue: p.Continue, AllowWatchBookmarks: p.AllowWatchBookmarks,
	}
	if p.GetAttrs != nil {
		out.GetAttrs = func(value []byte) (labels.Set, fields.Set, error) {
			pod, err := a.decode(value)
			if err != nil {
				return nil, nil, err
			}
			return p.GetAttrs(pod)
		}
	}
	return out
}

func (a *adapter) listOptions(opts upstorage.ListOptions) storage.ListOptions {
	return storage.ListOptions{
		ResourceVersion:      opts.ResourceVersion,
		ResourceVersionMatch: opts.ResourceVersionMatch,
		Predicate:            a.predicate(opts.Predicate),
		Recursive:            opts.Recursive,
		SendInitialEvents:    opts.SendInitialEvents,
		Progress:             opts.ProgressNotify,
	}
}

// blank returns n pods that all who ask share.
func (a *adapter) blank(n int) []example.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.blanks) < n {
		a.blanks = make([]example.Pod, n)
	}
	return a.blanks[:n:n]
}

// Versioner implements upstream's storage.Interface, as all methods from here on do.
func (a *adapter) Versioner() upstorage.Versioner { return a.versioner }

func (a *adapter) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	full, err := a.key(key, false)
	if err != nil {
		return err
	}
	if rv, err := a.versioner.ObjectResourceVersion(obj); err == nil && rv != 0 {
		return upstorage.ErrResourceVersionSetOnCreate
	}
	value, err := a.encode(obj)
	if err != nil {
		return err
	}
	row, err := a.Interface.Create(ctx, full, value, ttl)
	if err != nil {
		return upstreamError(key, err)
	}
	return a.put(row, out)
}

func (a *adapter) Delete(ctx context.Context, key string, out runtime.Object, p *upstorage.Preconditions,
	validate upstorage.ValidateObjectFunc, cached runtime.Object, opts upstorage.DeleteOptions) error {
	full, err := a.key(key, false)
	if err != nil {
		return err
	}
	guess, err := a.cached(full, cached)
	if err != nil {
		return err
	}
	row, err := a.Interface.Delete(ctx, full, storage.DeleteOptions{
		Preconditions: preconditions(p),
		Validate: func(ctx context.Context, current storage.Row) error {
			if current.Value.IsZero() {
				return validate(ctx, nil)
			}
			pod := &example.Pod{}
			if err := a.put(current, pod); err != nil {
				return err
			}
			return validate(ctx, pod)
		},
		Cached:     guess,
		Unreadable: opts.ExpectTransformOrDecodeError,
	})
	if err != nil {
		return upstreamError(key, err)
	}
	return a.put(row, out)
}

func (a *adapter) Get(ctx context.Context, key string, opts upstorage.GetOptions, out runtime.Object) error {
	full, err := a.key(key, false)
	if err != nil {
		return err
	}
	row, err := a.Interface.Get(ctx, full, storage.GetOptions{IgnoreNotFound: opts.IgnoreNotFound, ResourceVersion: opts.ResourceVersion})
	if err != nil {
		return upstreamError(key, err)
	}
	return a.put(row, out)
}

func (a *adapter) GetList(ctx context.Context, key string, opts upstorage.ListOptions, out runtime.Object) error {
	full, err := a.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	list, failed := a.Interface.GetList(ctx, full, a.listOptions(opts))
	var pods []example.Pod
	if a.lean {
		pods = a.blank(len(list.Rows)) // only their number is looked at
	} else {
		pods = make([]example.Pod, len(list.Rows))
		for i, row := range list.Rows {
			if err := a.put(row, &pods[i]); err != nil {
				return err
			}
		}
	}
	out.(*example.PodList).Items = pods
	if failed != nil {
		return upstreamError(key, failed)
	}
	return a.versioner.UpdateList(out, list.ResourceVersion, list.Continue, list.RemainingItemCount)
}

func (a *adapter) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	p *upstorage.Preconditions, update upstorage.UpdateFunc, cached runtime.Object) error {
	full, err := a.key(key, false)
	if err != nil {
		return err
	}
	guess, err := a.cached(full, cached)
	if err != nil {
		return err
	}
	opts := storage.UpdateOptions{IgnoreNotFound: ignoreNotFound, Preconditions: preconditions(p), Cached: guess}
	row, err := a.Interface.GuaranteedUpdate(ctx, full, opts, func(current storage.Row) ([]byte, uint64, error) {
		pod := &example.Pod{}
		if err := a.fill(current, pod); err != nil {
			return nil, 0, err
		}
		updated, ttl, err := update(pod, upstorage.ResponseMeta{ResourceVersion: current.ResourceVersion})
		if err != nil {
			return nil, 0, err
		}
		value, err := a.encode(updated)
		if err != nil || ttl == nil {
			return value, 0, err
		}
		return value, *ttl, nil
	})
	if err != nil {
		return upstreamError(key, err)
	}
	return a.put(row, out)
}

func (a *adapter) Watch(ctx context.Context, key string, opts upstorage.ListOptions) (watch.Interface, error) {
	full, err := a.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	w, err := a.Interface.Watch(ctx, full, a.listOptions(opts))
	if err != nil {
		return nil, upstreamError(key, err)
	}
	return a.stream(w), nil
}

func (a *adapter) Stats(ctx context.Context) (upstorage.Stats, error) {
	n, err := a.Count(ctx, strings.TrimSuffix(root+resource, "/")+"/")
	return upstorage.Stats{ObjectCount: n}, err
}

func (a *adapter) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return a.Interface.GetCurrentResourceVersion(ctx)
}

func (a *adapter) EnableResourceSizeEstimation(upstorage.KeysFunc) error { return nil }

func (a *adapter) CompactRevision() int64 { return a.compacted.Load() }

// attrs is the storage.AttrFunc of a cacher of pods.
func (a *adapter) attrs(value []byte) (labels.Set, fields.Set, error) {
	obj, err := runtime.Decode(a.codec, value)
	if err != nil {
		return nil, nil, err
	}
	pod := obj.(*example.Pod)
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"status.phase":       string(pod.Status.Phase),
	}, nil
}

func parse(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		panic(err) // a revision that the storage has just given
	}
	return n
}
