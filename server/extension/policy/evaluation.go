package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// evaluation is what the policies that concern one request share. What it takes to judge is made when it is first
// needed, once. One goroutine uses it.
type evaluation struct {
	attributes *admission.Attributes
	// ctx reads namespaces and params, and judges. It ends when the time for policies is over; request, nil where there is
	// no such time, is that of the request.
	ctx        context.Context //nolint:containedctx // lives as long as one call of Admit or Validate
	request    context.Context //nolint:containedctx // as ctx
	namespaces rest.Getter
	catalog    rest.Catalog
	index      *Index
	// answers are those of selectors; nil: they are not kept.
	answers *answers

	metrics  *Metrics
	counting counting // of metrics
	// watch takes what is judged in place of the counters, where it is only asked what would be; given are params that
	// stand before the stored ones.
	watch *findings
	given []*document.Document
	// observer is told of each judgement; nil: nobody is. spent is the cost since the last one.
	observer *Observer
	spent    policies.Cost

	resource *rest.Resource
	served   []string

	namespace      *document.Document
	namespaceErr   error
	namespaceKnown bool

	views []*view
	// asked is the review that is under way, of by and param: the next one takes its place.
	asked  policies.Review
	by     *view
	param  *document.Document
	late   lateInputs // of asked
	params []*paramSet
	memo   policies.Memo
	idle   policies.Runs // of the policy before
	// held is which match conditions of the policy that judges hold, where shared says that it judges more than once.
	held   policies.Held
	shared bool
	// authorizer is what expressions may ask, time the request's.
	authorizer any
	time       time.Time
	// clocked is when the first judgement began, ended how long after it the last one did.
	clocked time.Time
	ended   time.Duration
	// own is the request in its own version.
	own target
	// selected is what the rules said that were asked last.
	selected selected
}

// view is the request as seen in one version.
type view struct {
	as                *target
	object, oldObject *document.Document
	// request is made when it is asked for.
	request *document.Document
	err     error
}

// requestOf returns the variable request, which it makes first if there is none.
func (v *view) requestOf(a *admission.Attributes) *document.Document {
	if v.request == nil {
		v.request = newRequest(a, *v.as)
	}
	return v.request
}

// versions returns those that the resource is served in.
func (e *evaluation) versions() []string {
	if e.served == nil {
		e.served = []string{}
		if r := e.resourceOf(); r != nil {
			for _, v := range r.Versions {
				e.served = append(e.served, v.Name)
			}
		}
	}
	return e.served
}

func (e *evaluation) resourceOf() *rest.Resource {
	if e.resource == nil {
		e.resource = e.catalog.Resource(e.attributes.Resource.Group, e.attributes.Resource.Resource)
	}
	return e.resource
}

// targetIn returns the request in another version of its resource. A subresource with a kind of its own keeps that.
func (e *evaluation) targetIn(version string) *target {
	as := &target{resource: e.attributes.Resource, kind: e.attributes.Kind}
	as.resource.Version = version
	if r := e.resourceOf(); r != nil && as.kind.Group == r.Group && as.kind.Kind == r.Kind {
		as.kind.Version = version
	}
	return as
}

// itself returns the request in its own version.
func (e *evaluation) itself() *target {
	if e.own.resource.Resource == "" {
		e.own = target{resource: e.attributes.Resource, kind: e.attributes.Kind}
	}
	return &e.own
}

// view returns the request in the version of a target.
func (e *evaluation) view(as *target) (*view, error) {
	for _, v := range e.views {
		if v.as == as || *v.as == *as {
			return v, v.err
		}
	}
	a := e.attributes
	v := &view{as: as}
	if v.object, v.err = e.convert(a.Object, as.kind); v.err == nil {
		v.oldObject, v.err = e.convert(a.OldObject, as.kind)
	}
	if v.err != nil {
		v.err = fmt.Errorf("failed to convert object version: %w", v.err)
	}
	e.views = append(e.views, v)
	return v, v.err
}

// review is what the judge or mutator of a policy is asked. Its error ends the request.
func (e *evaluation) review(p *Policy, seen *view, param *document.Document) (*policies.Review, error) {
	reads := p.reads
	if !reads.known { // it is in no index
		reads = readsOf(p.Judge)
	}
	r := &e.asked
	if e.by != seen || e.param != param || reads.late || r.Late != nil {
		*r = policies.Review{Object: rootOf(seen.object), OldObject: rootOf(seen.oldObject), Params: rootOf(param),
			Authorizer: e.authorizer, Time: e.time, Memo: &e.memo, Runs: &e.idle}
		if e.observer != nil {
			r.Spent = &e.spent
		}
		e.by, e.param = seen, param
	}
	switch {
	case !e.shared && r.Held != nil:
		r.Held = nil
	case e.shared && r.Held == nil:
		r.Held = &e.held
	}
	if reads.late {
		e.late = lateInputs{e, seen}
		r.Late = &e.late
	}
	if reads.request && !r.Request.Exists() {
		r.Request = seen.requestOf(e.attributes).Root()
	}
	if reads.namespace {
		namespace, err := e.namespaceObject(e.ctx)
		if err != nil {
			return nil, err
		}
		r.NamespaceObject = rootOf(namespace)
	}
	return r, nil
}

// reads are the inputs that a judge or mutator wants to find in its review, and whether it takes others from it late.
type reads struct{ known, request, namespace, late bool }

// readsOf asks a Judge or Mutator.
func readsOf(by any) reads {
	m, _ := by.(Mentioner)
	late, _ := by.(LateReader)
	r := reads{known: true}
	wants := func(input string) bool {
		switch {
		case m != nil && !m.Mentions(input):
			return false
		case late != nil && late.ReadsLate(input):
			r.late = true
			return false
		}
		return true
	}
	r.request, r.namespace = wants("request"), wants("namespaceObject")
	return r
}

// lateInputs are those of the review that is under way.
type lateInputs struct {
	evaluation *evaluation
	seen       *view
}

var _ policies.LateInputs = (*lateInputs)(nil)

// Request implements policies.LateInputs.
func (l *lateInputs) Request() document.Value {
	return l.seen.requestOf(l.evaluation.attributes).Root()
}

// NamespaceObject implements policies.LateInputs.
func (l *lateInputs) NamespaceObject(ctx context.Context) (document.Value, error) {
	namespace, err := l.evaluation.namespaceObject(ctx)
	return rootOf(namespace), err
}

// unread returns why the namespace could not be read, where that is what an error of a LateReader comes from: it ends the
// request, as it would have if the namespace had been read before. nil: it is another error.
func (e *evaluation) unread(err error) error {
	if e.namespaceErr != nil && !e.overdue() && errors.Is(err, e.namespaceErr) {
		return e.namespaceErr
	}
	return nil
}

// rootOf is the value of a document, absent for nil.
func rootOf(d *document.Document) document.Value {
	if d == nil {
		return document.Value{}
	}
	return d.Root()
}

// bound returns the params by which a binding has a policy judge a request; ok is false where the binding does not
// concern the request. The error says that the binding cannot be used.
func (e *evaluation) bound(p *Policy, b *Binding) (params []*document.Document, ok bool, err error) {
	if _, ok, err = b.Match.matches(e); err != nil || !ok {
		return nil, false, err
	}
	if b.Err != nil {
		return nil, true, b.Err
	}
	params, err = e.paramsFor(p.ParamKind, b.Params)
	e.observer.bound(p, b, params)
	return params, true, err
}

// convert brings an object of the request's version to another.
func (e *evaluation) convert(obj *document.Document, to schema.GroupVersionKind) (*document.Document, error) {
	from := e.attributes.Kind
	if obj == nil || from == to {
		return obj, nil
	}
	r := e.resourceOf()
	if r == nil {
		return nil, fmt.Errorf("%s is not served", e.attributes.Resource.GroupResource())
	}
	return Convert(e.ctx, r, obj, from.Version, to.Version)
}

// Convert brings an object from one version of its resource to another. Both are versions that it has.
func Convert(ctx context.Context, r *rest.Resource, obj *document.Document, from, to string) (*document.Document, error) {
	var err error
	if from != r.StorageVersion {
		if obj, err = convertBy(ctx, r, from, obj, r.StorageVersion); err != nil {
			return nil, err
		}
	}
	if to != r.StorageVersion {
		return convertBy(ctx, r, to, obj, to)
	}
	return obj, nil
}

func convertBy(ctx context.Context, r *rest.Resource, version string, obj *document.Document, to string) (*document.Document, error) {
	v := r.Version(version)
	if v == nil {
		return nil, fmt.Errorf("version %s of %s is not served", version, r.GroupResource())
	}
	if v.Converter == nil {
		return obj, nil
	}
	return v.Converter.Convert(ctx, obj, to)
}

// namespaceObject returns the namespace that the object is in, nil for what is in none. A namespace is in none.
func (e *evaluation) namespaceObject(ctx context.Context) (*document.Document, error) {
	if e.attributes.Namespace == "" || isNamespaces(e.attributes) {
		return nil, nil
	}
	return e.readNamespace(ctx)
}

// readNamespace reads the namespace, once: an error is final unless it is that the time of ctx was over, and more is left.
func (e *evaluation) readNamespace(ctx context.Context) (*document.Document, error) {
	if e.namespaceKnown {
		return e.namespace, e.namespaceErr
	}
	namespace, err := e.namespaces.Get(request.WithNamespace(ctx, ""), e.attributes.Namespace, &metav1.GetOptions{})
	if err != nil && ctx.Err() != nil && e.ctx.Err() == nil {
		return nil, err
	}
	e.namespace, e.namespaceErr, e.namespaceKnown = namespace, err, true
	if err == nil {
		e.observer.readNamespace(namespace)
	}
	return namespace, err
}

// namespaceLabels returns the labels that a namespace selector asks.
func (e *evaluation) namespaceLabels() (labels.Labels, error) {
	a := e.attributes
	if isNamespaces(a) && a.Subresource == "" && (a.Operation == admission.Create || a.Operation == admission.Update) {
		return labelsOf(a.Object), nil // as it will be
	}
	if isNamespaces(a) && a.Namespace == "" {
		return labels.Set{}, nil // a collection of namespaces
	}
	ns, err := e.readNamespace(e.ctx)
	if err != nil {
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			return nil, err
		}
		return nil, apierrors.NewInternalError(err)
	}
	return labelsOf(ns), nil
}

// selectsNamespace asks the labels of the namespace that the object is in, or is.
func (e *evaluation) selectsNamespace(s *selector) (bool, error) {
	if e.answers != nil {
		if yes, known := e.answers.namespaces[s.text]; known {
			return yes, nil
		}
	}
	set, err := e.namespaceLabels()
	if err != nil {
		return false, err
	}
	yes := s.Matches(set)
	if e.answers != nil {
		e.answers.namespaces[s.text] = yes
	}
	return yes, nil
}

// abandoned reports whether the time of the request itself is over, so that nobody waits for a judgement.
func (e *evaluation) abandoned() bool {
	if e.request != nil {
		return e.request.Err() != nil
	}
	return e.ctx.Err() != nil
}

// overdue reports whether the time for policies is over, and not that of the request.
func (e *evaluation) overdue() bool { return e.ctx.Err() != nil && !e.abandoned() }

// observe counts a judgement.
func (e *evaluation) observe(p *Policy, b *Binding, outcome, message string, started time.Duration) {
	if e.watch != nil {
		e.watch.note(p, b, outcome, message)
		return
	}
	e.ended = e.clock()
	took := e.ended - started
	counted := outcome
	if outcome == outcomeDeny && b != nil && !b.Deny && !mutates(p) {
		counted = outcomeWarn
	}
	e.counting.observe(e.metrics, p, b, counted, took)
	if e.observer != nil {
		e.observer.judged(Judgement{Policy: p, Binding: b, Outcome: outcome, Message: message, Cost: e.spent})
		e.spent = policies.Cost{}
	}
	if message != "" && quotesSecrets(p, e.attributes) {
		message = secretText
	}
	now := e.clocked
	if counted != outcomeAllow { // nobody asks when it was
		now = now.Add(e.ended)
	}
	p.Tally.note(counted, took, message, e.attributes, now)
	if b != nil {
		b.Tally.note(counted, took, message, e.attributes, now)
	}
}

// start returns when a judgement starts. The end of the one before will do: a look at the clock costs as much as a small
// expression.
func (e *evaluation) start() time.Duration {
	if e.clocked.IsZero() {
		return e.clock()
	}
	return e.ended
}

// clock returns how long ago the first judgement began: one look at the clock, where time.Now takes two.
func (e *evaluation) clock() time.Duration {
	if e.clocked.IsZero() {
		e.clocked = time.Now()
		return 0
	}
	return time.Since(e.clocked)
}

// secretText is kept in the place of a message that may quote a secret: who reads a binding need not read secrets.
const secretText = "(not kept: it may quote a secret)"

// quotesSecrets reports whether what a policy says of a request may quote a secret: the object, or a param.
func quotesSecrets(p *Policy, a *admission.Attributes) bool {
	secret := schema.GroupKind{Kind: "Secret"}
	switch {
	case p.ParamKind != nil && p.ParamKind.GroupKind() == secret, a.Kind.GroupKind() == secret:
		return true
	case a.Resource.Group == "" && a.Resource.Resource == "secrets":
		return true
	}
	return a.Resource.Group == "" && a.Resource.Resource == "serviceaccounts" && a.Subresource == "token"
}
