package recording

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// The queue between requests and the file, in records and in bytes of their objects.
const (
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
)

// maxParams is how many params a record has at most.
const maxParams = 64

// Recorder is an admission.Mutator and an admission.Validator that asks the policies of its Config and records what they
// say. It is safe for concurrent use.
type Recorder struct {
	cfg            Config
	redact, except map[schema.GroupResource]bool
	out            *file
	queue          chan *entry
	// queued are the bytes in queue.
	queued       atomic.Int64
	losses       losses
	drainTimeout time.Duration
}

var (
	_ admission.Mutator   = (*Recorder)(nil)
	_ admission.Validator = (*Recorder)(nil)
)

// New opens the file. The Recorder writes while Run runs; without it, Close closes the file.
func New(cfg Config) (*Recorder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.complete()
	out, err := open(cfg.File, cfg.MaxBytes, cfg.Backups)
	if err != nil {
		return nil, err
	}
	x := &Recorder{cfg: cfg, redact: groupResources(cfg.Redact), except: groupResources(cfg.Exclude), out: out,
		queue: make(chan *entry, maxQueued), drainTimeout: drainTimeout}
	x.losses.file = cfg.File
	return x, nil
}

// Close closes the file.
func (x *Recorder) Close() error { return x.out.close() }

// entry is one record that is not written yet. What it points to is immutable.
type entry struct {
	time          time.Time
	phase         string
	attributes    admission.Attributes
	before, after *document.Document
	verdicts      []Verdict
	params        []param
	namespace     *document.Document // nil: no policy read it
	mutated       bool
	secret        bool // a param was
	copied        bool // the object may hold what a mutation took from a secret param
	err           error
	size          int64
}

// Handles implements admission.Mutator and admission.Validator.
func (x *Recorder) Handles(op admission.Operation) bool {
	return x.cfg.Policies.Handles(op)
}

// observation is what the policies say of a request in one phase.
type observation struct {
	verdicts  []Verdict
	params    []param
	namespace *document.Document
	secret    bool // a param was
}

// param is an object that a policy judged by. Nothing of a secret one is written.
type param struct {
	policy *policy.Policy
	by     string
	object *document.Document
	secret bool
}

// observer returns what has o filled.
func (x *Recorder) observer(ctx context.Context, o *observation) *policy.Observer {
	return &policy.Observer{
		Judged: func(j policy.Judgement) {
			v := Verdict{Kind: j.Policy.Kind, Policy: j.Policy.Name, Outcome: j.Outcome, Message: j.Message}
			if j.Binding != nil {
				v.Binding = j.Binding.Name
			}
			o.verdicts = append(o.verdicts, v)
		},
		Bound: func(p *policy.Policy, b *policy.Binding, params []*document.Document) {
			secret := p.ParamKind != nil && x.secretKind(rest.CatalogFrom(ctx), *p.ParamKind)
			for _, obj := range params {
				o.secret = o.secret || secret && obj != nil
				if obj != nil && len(o.params) < maxParams {
					o.params = append(o.params, param{p, b.Name, obj, secret})
				}
			}
		},
		Namespace: func(namespace *document.Document) { o.namespace = namespace },
	}
}

// entry returns the record of an observation.
func (o *observation) entry(phase string, before *document.Document, err error) *entry {
	return &entry{phase: phase, before: before, verdicts: o.verdicts, params: o.params, namespace: o.namespace, secret: o.secret, err: err}
}

// Admit implements admission.Mutator.
func (x *Recorder) Admit(ctx context.Context, a *admission.Attributes) error {
	if !x.records(a) {
		return x.cfg.Policies.Admit(ctx, a)
	}
	seen, before := &observation{}, a.Object
	err := x.cfg.Policies.Admit(policy.WithObserver(ctx, x.observer(ctx, seen)), a)
	recorded := false
	if len(seen.verdicts) > 0 || err != nil {
		e := seen.entry(Mutate, before, err)
		if a.Object != before {
			e.after = a.Object
		}
		recorded = x.enqueue(e, a)
	}
	marksFrom(ctx).set(a, mark{recorded: recorded, secret: seen.secret && a.Object != before})
	return err
}

// Validate implements admission.Validator.
func (x *Recorder) Validate(ctx context.Context, a *admission.Attributes) error {
	if !x.records(a) {
		return x.cfg.Policies.Validate(ctx, a)
	}
	seen := &observation{}
	err := x.cfg.Policies.Validate(policy.WithObserver(ctx, x.observer(ctx, seen)), a)
	e := seen.entry(Validate, a.Object, err)
	m := marksFrom(ctx).get(a)
	e.mutated, e.copied = m.recorded, m.secret
	x.enqueue(e, a)
	return err
}

// records reports whether requests like this one are recorded: policies may concern them.
func (x *Recorder) records(a *admission.Attributes) bool {
	return !policy.IsExempt(a.Resource.Group, a.Resource.Resource) && !x.except[a.Resource.GroupResource()]
}

// enqueue hands a record to Run, or drops it and returns false.
func (x *Recorder) enqueue(e *entry, a *admission.Attributes) bool {
	e.time, e.attributes = time.Now(), *a
	for _, d := range []*document.Document{e.before, e.after, a.OldObject, e.namespace} {
		if d != nil {
			e.size += int64(len(d.Bytes()))
		}
	}
	for _, p := range e.params {
		e.size += int64(len(p.object.Bytes()))
	}
	if x.queued.Add(e.size) > maxQueuedBytes {
		x.queued.Add(-e.size)
		x.drop(droppedQueue, 1)
		return false
	}
	select {
	case x.queue <- e:
		return true
	default:
		x.queued.Add(-e.size)
		x.drop(droppedQueue, 1)
		return false
	}
}

// flushInterval bounds how long a record is in memory only.
const flushInterval = time.Second

// namespaceTimeout bounds the wait for a namespace, which a cache has.
const namespaceTimeout = time.Second

// drainTimeout bounds how long a server that ends waits until what is queued is written.
const drainTimeout = 5 * time.Second

// Run writes what is recorded until ctx is done, then what is left and can be written in some seconds, and closes the file.
func (x *Recorder) Run(ctx context.Context) {
	flush := time.NewTicker(flushInterval)
	defer flush.Stop()
	for ctx.Err() == nil {
		select {
		case e := <-x.queue:
			x.write(ctx, e)
		case <-flush.C:
			x.note(x.out.flush())
		case <-ctx.Done():
		}
	}
	x.drain(context.WithoutCancel(ctx))
	x.note(x.out.close())
	x.losses.end(x.cfg.Logger, time.Now())
}

// drain writes what is queued. What is left when its time is over is dropped.
func (x *Recorder) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, x.drainTimeout)
	defer cancel()
	for {
		select {
		case e := <-x.queue:
			if ctx.Err() == nil {
				x.write(ctx, e)
				continue
			}
			x.queued.Add(-e.size)
			x.drop(droppedEnd, 1)
		default:
			return
		}
	}
}

// write writes one record.
func (x *Recorder) write(ctx context.Context, e *entry) {
	x.queued.Add(-e.size)
	line, err := x.line(ctx, e)
	if err != nil {
		x.drop(droppedWrite, 1)
	} else {
		err = x.out.write(line)
	}
	x.note(err)
}

// drop counts requests that are not recorded.
func (x *Recorder) drop(reason string, requests int) {
	x.cfg.Metrics.drop(reason, requests)
	x.losses.add(reason, requests)
}

// note counts what became of records, and tells of those that are lost, though not of each.
func (x *Recorder) note(err error) {
	t := x.out.take()
	x.cfg.Metrics.wrote(t)
	x.drop(droppedWrite, t.lost)
	x.losses.tell(x.cfg.Logger, time.Now(), t.written, err)
}

// line is a record as it is written.
func (x *Recorder) line(ctx context.Context, e *entry) ([]byte, error) {
	a := &e.attributes
	gvk, gvr := metav1.GroupVersionKind(a.Kind), metav1.GroupVersionResource(a.Resource)
	r := &Record{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &Request{UID: a.UID, Kind: gvk, Resource: gvr, SubResource: a.Subresource, RequestKind: &gvk, RequestResource: &gvr,
			RequestSubResource: a.Subresource, Name: admission.NameOf(a), Namespace: a.Namespace, Operation: string(a.Operation),
			DryRun: a.DryRun, Options: raw(a.Options)},
		Response: &Response{UID: a.UID, Allowed: e.err == nil},
		Weir:     &Details{Time: e.time.UTC(), Phase: e.phase, Verdicts: e.verdicts, Mutated: e.mutated},
	}
	if u := a.User; u != nil {
		r.Request.UserInfo = authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
		for name, values := range u.GetExtra() {
			if r.Request.UserInfo.Extra == nil {
				r.Request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
			}
			r.Request.UserInfo.Extra[name] = values
		}
	}
	if e.err != nil {
		status := metav1.Status{Status: metav1.StatusFailure, Message: e.err.Error()}
		var known apierrors.APIStatus
		if errors.As(e.err, &known) {
			status = known.Status()
		}
		r.Response.Status = &metav1.Status{Status: status.Status, Message: status.Message, Reason: status.Reason, Code: status.Code}
	}
	own := x.redact[a.Resource.GroupResource()] || a.Resource.GroupResource() == schema.GroupResource{Resource: "secrets"} || x.secretKind(nil, a.Kind)
	secret := own || e.secret || e.copied
	for _, p := range e.params {
		if p.secret {
			p.object = stub(p.object)
		}
		r.Weir.Params = append(r.Weir.Params, Param{Kind: p.policy.Kind, Policy: p.policy.Name, Binding: p.by, Object: raw(p.object)})
	}
	object, old, patched := e.before, a.OldObject, e.after
	if own {
		object, old, patched = stub(object), stub(old), stub(patched)
	}
	if e.secret { // a mutation may have copied it
		patched = stub(patched)
	}
	if e.copied {
		object = stub(object)
	}
	r.Request.Object, r.Request.OldObject, r.Weir.Patched = raw(object), raw(old), raw(patched)
	switch {
	case !x.redact[schema.GroupResource{Resource: "namespaces"}]:
		r.Weir.Namespace = raw(x.namespaceOf(ctx, e))
	case e.namespace != nil:
		secret = true
		r.Weir.Namespace = raw(stub(e.namespace))
	}
	if secret {
		r.hide()
	}
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// namespaceOf returns the namespace of a request: as the policies read it, or as it is now where none did, for one that
// will; nil where there is none.
func (x *Recorder) namespaceOf(ctx context.Context, e *entry) *document.Document {
	if e.namespace != nil || e.attributes.Namespace == "" {
		return e.namespace
	}
	ctx, cancel := context.WithTimeout(request.WithNamespace(ctx, ""), namespaceTimeout)
	defer cancel()
	namespace, err := x.cfg.Namespaces.Get(ctx, e.attributes.Namespace, &metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	return namespace
}

// hide leaves out what may quote a secret.
func (r *Record) hide() {
	r.Weir.Redacted = true
	for i := range r.Weir.Verdicts {
		r.Weir.Verdicts[i].Message = ""
	}
	if s := r.Response.Status; s != nil {
		s.Message = ""
	}
	r.Request.Options = nil
}

// secretKind reports whether nothing may be written of objects of a kind. Without a catalog, what Config.Redact names is
// not known by its kind.
func (x *Recorder) secretKind(catalog rest.Catalog, kind schema.GroupVersionKind) bool {
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "Secret"}, schema.GroupKind{Group: "authentication.k8s.io", Kind: "TokenRequest"}:
		return true
	}
	if catalog == nil {
		return false
	}
	for gr := range x.redact {
		if r := catalog.Resource(gr.Group, gr.Resource); r != nil && r.Group == kind.Group && r.Kind == kind.Kind {
			return true
		}
	}
	return false
}

// stub is what is written of a secret object.
func stub(obj *document.Document) *document.Document {
	if obj == nil {
		return nil
	}
	meta := rest.MetaOf(obj)
	metadata := map[string]any{"name": meta.Name()}
	if ns := meta.Namespace(); ns != "" {
		metadata["namespace"] = ns
	}
	out, err := document.FromValue(map[string]any{"apiVersion": obj.Get("apiVersion").String(), "kind": obj.Get("kind").String(), "metadata": metadata})
	if err != nil {
		return nil
	}
	return out
}

func raw(d *document.Document) json.RawMessage {
	if d == nil {
		return nil
	}
	return d.Bytes()
}
