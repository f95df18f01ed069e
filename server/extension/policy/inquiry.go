package policy

import (
	"context"
	"unique"

	"weir.dev/weir/server/admission"
)

// answers are what selectors say of one request. Equal ones are asked once. A nil one remembers nothing.
type answers struct {
	namespaces, objects map[unique.Handle[string]]bool
	// object and oldObject are the labels of the objects, where seen.
	object, oldObject documentLabels
	seen              bool
}

// forget what was said of an object that has changed since. The labels of a namespace that is written are its own.
func (x *answers) forget(a *admission.Attributes) {
	if x == nil {
		return
	}
	clear(x.objects)
	x.object, x.oldObject, x.seen = documentLabels{}, documentLabels{}, false
	if isNamespaces(a) {
		clear(x.namespaces)
	}
}

// selectsObject asks the labels of the object, or of what it was.
func (x *answers) selectsObject(a *admission.Attributes, s *selector) bool {
	if x == nil {
		return a.Object != nil && s.Matches(labelsOf(a.Object)) || a.OldObject != nil && s.Matches(labelsOf(a.OldObject))
	}
	if yes, known := x.objects[s.text]; known {
		return yes
	}
	if !x.seen {
		x.object, x.oldObject, x.seen = labelsOfAny(a.Object), labelsOfAny(a.OldObject), true
	}
	yes := a.Object != nil && s.Matches(&x.object) || a.OldObject != nil && s.Matches(&x.oldObject)
	x.objects[s.text] = yes
	return yes
}

// inquiry is one request as the index looks at it, before it is known whether a policy has to judge. One goroutine uses it,
// and ends it.
type inquiry struct {
	answers
	admission  *Admission
	ctx        context.Context //nolint:containedctx // lives as long as one call of Admit or Validate
	attributes *admission.Attributes
	catalog    Catalog

	evaluation *evaluation
	cancel     context.CancelFunc
}

// inquire returns the inquiry of a request. The caller has to end it.
func (x *Admission) inquire(ctx context.Context, a *admission.Attributes, catalog Catalog) *inquiry {
	q, ok := x.inquiries.Get().(*inquiry)
	if !ok {
		q = &inquiry{answers: newAnswers()}
	}
	q.admission, q.ctx, q.attributes, q.catalog = x, ctx, a, catalog
	return q
}

func newAnswers() answers {
	return answers{namespaces: map[unique.Handle[string]]bool{}, objects: map[unique.Handle[string]]bool{}}
}

// end gives up what the inquiry holds.
func (q *inquiry) end() {
	if q.cancel != nil {
		q.cancel()
		q.evaluation.answers = nil
		q.evaluation.idle.Release()
		q.evaluation.counting.flush(q.evaluation.metrics)
	}
	x := q.admission
	clear(q.namespaces)
	clear(q.objects)
	*q = inquiry{answers: answers{namespaces: q.namespaces, objects: q.objects}}
	x.inquiries.Put(q)
}

// begin returns what the policies of the request share. Their time begins with it.
func (q *inquiry) begin() *evaluation {
	if q.evaluation == nil {
		q.evaluation, q.cancel = q.admission.begin(q.ctx, q.attributes, q.catalog)
		q.evaluation.answers = &q.answers
	}
	return q.evaluation
}

// meets reports whether selectors select the request, or whether that cannot be told.
func (q *inquiry) meets(w wants) bool {
	if w.objects != nil && !q.selectsObject(q.attributes, w.objects) {
		return false
	}
	if w.namespaces == nil || isNowhere(q.attributes) {
		return true
	}
	yes, err := q.begin().selectsNamespace(w.namespaces)
	return yes || err != nil
}

// isNowhere reports whether a request is about what is in no namespace, and is none.
func isNowhere(a *admission.Attributes) bool { return a.Namespace == "" && !isNamespaces(a) }
