package policy

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// Admit implements admission.Mutator. Mutating policies run in the order of their names, each on what the ones before
// made; those that ask for it run once more when a later one has changed the object.
func (x *Admission) Admit(ctx context.Context, a *admission.Attributes) error {
	if a.Operation == admission.Delete || a.Object == nil {
		return nil
	}
	found, catalog := x.candidates(ctx, a)
	if found.mutating.isEmpty() {
		return nil
	}
	q := x.inquire(ctx, a, catalog)
	defer q.end()
	open := found.mutating.open(q)
	if len(open) == 0 {
		return nil
	}
	m := mutation{evaluation: q.begin()}
	m.after = func(p *Policy) []*Policy {
		open := found.mutating.open(q)
		return open[sort.Search(len(open), func(i int) bool { return open[i].rank > p.rank }):]
	}
	if err := m.all(open); err != nil {
		return err
	}
	m.audit.publish(ctx)
	m.warnOverlaps()
	if len(m.denials) > 0 {
		return deny(a, m.denials)
	}
	return nil
}

// mutation is what the mutating policies do to one request.
type mutation struct {
	*evaluation
	denials []denial
	audit   auditor
	// runs are the judgements that were made, in their order.
	runs []mutatorRun
	// step counts them; changedAt is the last that changed the object.
	step, changedAt int
	again           bool
	// ledger has the paths that each policy has written.
	ledger ledger
	// after returns the policies behind one that concern what it made of the object; nil: those that there are.
	after func(p *Policy) []*Policy
}

// mutatorRun is one judgement by a mutating policy.
type mutatorRun struct {
	policy  *Policy
	binding *Binding
	as      *target
	param   *document.Document
	at      int
	// changed is set when its last run changed the object.
	changed bool
}

// all runs policies, those again that ask for it, and asks whether they settle.
func (m *mutation) all(policies []*Policy) error {
	for len(policies) > 0 {
		p, before := policies[0], m.attributes.Object
		if err := m.policy(p); err != nil {
			return err
		}
		policies = policies[1:]
		if m.after != nil && m.attributes.Object != before {
			policies = m.after(p)
		}
	}
	m.again, m.shared = true, false
	for i, n := 0, len(m.runs); i < n; i++ {
		r := &m.runs[i]
		if !r.policy.Reinvoke || m.changedAt <= r.at {
			continue
		}
		if err := m.run(r); err != nil {
			return err
		}
	}
	for i := range m.runs {
		if err := m.settle(&m.runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// policy runs a policy by all its bindings.
func (m *mutation) policy(p *Policy) error {
	as, ok, err := p.matches(m.evaluation)
	switch {
	case err != nil:
		m.misconfigured(p, nil, err)
		return nil
	case !ok:
		return nil
	case p.Err != nil:
		m.misconfigured(p, nil, p.Err)
		return nil
	}
	if err := m.paramKindServed(p); err != nil {
		m.misconfigured(p, nil, err)
		return nil
	}
	m.held.Reset()
	for _, b := range p.Bindings {
		params, ok, err := m.bound(p, b)
		switch {
		case err != nil:
			m.misconfigured(p, b, err)
			continue
		case !ok:
			continue
		}
		m.shared = len(p.Bindings) > 1 || len(params) > 1
		for _, param := range params {
			if err := m.run(&mutatorRun{policy: p, binding: b, as: as, param: param}); err != nil {
				return err
			}
		}
	}
	return nil
}

// run lets one policy change the object.
func (m *mutation) run(r *mutatorRun) error {
	started := m.clock()
	p, b := r.policy, r.binding
	mutator, ok := p.Judge.(Mutator)
	if !ok {
		m.misconfigured(p, b, errors.New("it has nothing to mutate by"))
		return nil
	}
	seen, err := m.view(r.as)
	if err != nil {
		m.misconfigured(p, b, err)
		return nil
	}
	review, err := m.review(p, seen, r.param)
	switch {
	case err != nil && m.overdue():
		return m.failed(p, b, err, started)
	case err != nil:
		return err
	}
	holds, err := mutator.Holds(m.ctx, review)
	if err != nil {
		return m.failed(p, b, err, started)
	}
	if !holds {
		return nil
	}
	m.step++
	r.at, r.changed = m.step, false
	if !m.again {
		m.runs = append(m.runs, *r)
		r = &m.runs[len(m.runs)-1]
	}
	changed, err := mutator.Mutate(m.ctx, seen.object, review, changer{evaluation: m.evaluation, as: r.as})
	if err != nil {
		return m.failed(p, b, err, started)
	}
	if changed == seen.object || changed.Equal(seen.object) {
		m.observe(p, b, outcomeAllow, "", started)
		return nil
	}
	if field := rest.IdentityChange(seen.object, changed); field != "" {
		return m.failed(p, b, fmt.Errorf("%s may not be changed", field), started)
	}
	back, err := m.convertBack(changed, r.as)
	if err != nil {
		return m.failed(p, b, err, started)
	}
	if !b.enforces(m.attributes) {
		m.shadow(p, b, outcomeShadowMutate, strings.Join(changedPaths(nil, "", m.attributes.Object.Root(), back.Root()), ", "), started)
		return nil
	}
	r.changed = true
	m.ledger.note(p, b, m.attributes.Object, back)
	m.attributes.Object = back
	m.views = nil // they are of what was before
	m.answers.forget(m.attributes)
	m.changedAt = m.step
	message := ""
	if m.watch != nil {
		message = strings.Join(changedPaths(nil, "", seen.object.Root(), changed.Root()), ", ")
	}
	m.observe(p, b, outcomeMutate, message, started)
	return nil
}

// settle asks a Policy that may be called again, and that changed the object, what it makes of the result. One that would
// change it further would do so with each write. Policies of admissionregistration.k8s.io are not asked: upstream does not.
func (m *mutation) settle(r *mutatorRun) error {
	mutator, ok := r.policy.Judge.(Mutator)
	if !ok || !r.changed || !r.policy.Reinvoke || r.policy.Kind == mutatingKind {
		return nil
	}
	started := m.clock()
	seen, err := m.view(r.as)
	if err != nil {
		m.misconfigured(r.policy, r.binding, err)
		return nil
	}
	review, err := m.review(r.policy, seen, r.param)
	if err != nil {
		return err
	}
	changed, err := mutator.Mutate(m.ctx, seen.object, review, changer{evaluation: m.evaluation, as: r.as})
	if err != nil {
		return m.failed(r.policy, r.binding, err, started)
	}
	if changed == seen.object || changed.Equal(seen.object) {
		return nil
	}
	return m.failed(r.policy, r.binding, fmt.Errorf("it does not settle: a further pass would change %s again",
		strings.Join(changedPaths(nil, "", seen.object.Root(), changed.Root()), ", ")), started)
}

// convertBack brings what a policy made to the version of the request.
func (m *mutation) convertBack(obj *document.Document, as *target) (*document.Document, error) {
	want := m.attributes.Kind
	if as.kind == want {
		return obj, nil
	}
	return Convert(m.ctx, m.resourceOf(), obj, as.kind.Version, want.Version)
}

// failed does what the failure policy says.
func (m *mutation) failed(p *Policy, b *Binding, err error, started time.Duration) error {
	if m.abandoned() {
		return timeout(m.ctx)
	}
	if unread := m.unread(err); unread != nil {
		return unread
	}
	var refusal Refusal
	if errors.As(err, &refusal) {
		for _, d := range refusal {
			if !b.enforces(m.attributes) {
				m.shadow(p, b, outcomeShadowDeny, d.Message, started)
				break
			}
			m.observe(p, b, outcomeDeny, d.Message, started)
			m.denials = append(m.denials, denial{policy: p, binding: b, message: d.Message, reason: metav1.StatusReason(d.Reason), code: d.Code, field: d.Field})
		}
		return nil
	}
	if m.ignored(p, b, err.Error(), started) {
		return nil
	}
	if !b.enforces(m.attributes) {
		m.shadow(p, b, outcomeShadowDeny, err.Error(), started)
		return nil
	}
	m.observe(p, b, outcomeError, err.Error(), started)
	m.denials = append(m.denials, denial{policy: p, binding: b, message: err.Error(), reason: metav1.StatusReasonInvalid})
	return nil
}

// shadow notes what a binding in shadow would have done.
func (m *mutation) shadow(p *Policy, b *Binding, outcome, message string, started time.Duration) {
	m.observe(p, b, outcome, message, started)
	m.audit.shadowMutation(p, b, outcome, message)
}

// misconfigured denies, as the failure policy says, by a policy or binding that cannot be used.
func (m *mutation) misconfigured(p *Policy, b *Binding, err error) {
	if d, ok := m.misconfiguration(p, b, err); ok {
		d.reason = metav1.StatusReasonForbidden // as upstream, where it is no validation that fails
		m.denials = append(m.denials, d)
	}
}

// warnOverlaps tells the client which policies wrote the same fields: the order of their names decided.
func (m *mutation) warnOverlaps() {
	for _, o := range m.ledger.overlaps() {
		for i, b := range o.bindings {
			if b != nil && m.watch == nil {
				b.Tally.conflict(fmt.Sprintf("%s is set by %s too", o.path, o.policies[1-i]))
			}
		}
		warning.AddWarning(m.ctx, "", fmt.Sprintf("mutating policies %s both set %s; the value of the last one stays",
			strings.Join(o.policies, " and "), o.path))
	}
}

// changer is the Changer of a request in the version of a target.
type changer struct {
	*evaluation
	as *target
}

var _ Changer = changer{}

// Merge implements Changer.
func (c changer) Merge(ctx context.Context, obj, configuration *document.Document) (*document.Document, error) {
	r := c.resourceOf()
	if r == nil {
		return nil, fmt.Errorf("%s is not served", c.attributes.Resource.GroupResource())
	}
	v := r.Version(c.as.resource.Version)
	if v == nil {
		return nil, fmt.Errorf("version %s of %s is not served", c.as.resource.Version, r.GroupResource())
	}
	fields := v.Fields
	if name := c.attributes.Subresource; name != "" {
		if sub := v.Subresources[name]; sub != nil && sub.Kind != "" && sub.Kind != r.Kind {
			fields = sub.Fields
		}
	}
	merger, ok := fields.(rest.Merger)
	if !ok {
		return nil, fmt.Errorf("the fields of %s are not known, so that no configuration can be merged; a JSONPatch can", c.as.kind.Kind)
	}
	return merger.Merge(ctx, obj, configuration)
}

// Default implements Changer.
func (c changer) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	a := c.attributes
	if a.Default == nil {
		return obj, nil
	}
	if c.as.kind == a.Kind {
		return a.Default(ctx, obj)
	}
	r := c.resourceOf()
	asked, err := Convert(ctx, r, obj, c.as.kind.Version, a.Kind.Version)
	if err != nil {
		return nil, err
	}
	if asked, err = a.Default(ctx, asked); err != nil {
		return nil, err
	}
	return Convert(ctx, r, asked, a.Kind.Version, c.as.kind.Version)
}
