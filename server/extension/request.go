package extension

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// scope is what the guests of one request share.
type scope struct {
	budget *host.Budget

	mu    sync.Mutex
	metas []scopedMeta // guarded by mu; the last of each operation, and of each resource that admission judges

	told *toldLookups // shared by the scopes of one request
}

// toldLookups is what the audit event of a request tells of look-ups.
type toldLookups struct {
	mu    sync.Mutex
	texts []string // guarded by mu
}

// scopedMeta is an encoded request. One request may be about many objects, when it deletes
// a collection.
type scopedMeta struct {
	operation                   abi.Operation
	apiVersion, namespace, name string
	resource, subresource       string // those that admission judges
	meta                        *document.Document
}

type scopeKey struct{}

// WithBudget returns a context whose guests share a budget, and for which the request
// is encoded once. budget may be nil: then only the limits of each module hold.
func WithBudget(ctx context.Context, budget *host.Budget) context.Context {
	s := &scope{budget: budget}
	if outer, ok := ctx.Value(scopeKey{}).(*scope); ok {
		s.told = outer.told
	} else {
		s.told = &toldLookups{}
	}
	return context.WithValue(ctx, scopeKey{}, s)
}

// Allowance is what the guests of one request may use together: those of all layers and policies, retries included. A
// module whose own limits are wider than those that modules have by default widens it for the request.
type Allowance struct {
	// Fuel in units, see host.Limits.
	Fuel uint64
	// Timeout by the wall clock, from the beginning of the request.
	Timeout time.Duration
}

// Begin returns the context of a request that begins now. Each object of a request about many has an allowance of its own.
func (a Allowance) Begin(ctx context.Context) context.Context {
	fresh := func(ctx context.Context) context.Context {
		return WithBudget(ctx, host.NewBudget(a.Fuel, time.Now().Add(a.Timeout)))
	}
	return rest.WithEach(fresh(ctx), fresh)
}

// BudgetFrom returns the budget of a context, or nil.
func BudgetFrom(ctx context.Context) *host.Budget {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s.budget
	}
	return nil
}

// maxLookupAnnotations bounds how many look-ups of a request are told in its audit event.
const maxLookupAnnotations = 64

// auditCall tells in the audit event of the request what a module looked up, and how it failed: the class of the failure,
// by the hook.
func auditCall(ctx context.Context, module string, op abi.Op, res *host.Result, err error) {
	if !audit.AuditContextFrom(ctx).Enabled() {
		return
	}
	if class, failed := host.ClassOf(err); failed {
		audit.AddAuditAnnotation(ctx, module+".module.weir.dev/failure-"+op.String(), class.String())
	}
	auditLookups(ctx, module, op, res, err)
}

// auditLookups tells in the audit event of the request what a module looked up, and in which state: once, where a retry
// looked up the same. err is the error of the call, whose look-ups count too.
func auditLookups(ctx context.Context, module string, op abi.Op, res *host.Result, err error) {
	var found []host.Lookup
	var failed *host.Error
	switch {
	case res != nil:
		found = res.Lookups
	case errors.As(err, &failed):
		found = failed.Lookups
	}
	if len(found) == 0 {
		return
	}
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return // of no request
	}
	told := s.told
	told.mu.Lock()
	defer told.mu.Unlock()
	for i := range found {
		text := op.String() + " " + found[i].String()
		if len(told.texts) == maxLookupAnnotations || slices.Contains(told.texts, module+" "+text) {
			continue
		}
		told.texts = append(told.texts, module+" "+text)
		audit.AddAuditAnnotation(ctx, module+".module.weir.dev/lookup-"+strconv.Itoa(len(told.texts)), text)
	}
}

// metaOf gives guests the request: who sent it, and what about. obj is the object that
// it is about, in its stored version. judged is the AdmissionRequest that a policy judges, which need not be what the
// client sent: a survey judges what is stored. Without it, the request is the client's.
func metaOf(ctx context.Context, operation abi.Operation, obj *document.Document, judged document.Value) (*document.Document, error) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return newMeta(ctx, operation, obj, judged)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want := scopedMeta{
		operation:  operation,
		apiVersion: obj.Get("apiVersion").String(),
		namespace:  obj.Get("metadata", "namespace").String(),
		name:       obj.Get("metadata", "name").String(),
		resource:   judged.Get("requestResource", "resource").String(), subresource: judged.Get("requestSubResource").String(),
	}
	at := slices.IndexFunc(s.metas, func(m scopedMeta) bool {
		return m.operation == operation && m.resource == want.resource && m.subresource == want.subresource
	})
	if at >= 0 {
		have := s.metas[at]
		if want.meta = have.meta; have == want {
			return have.meta, nil
		}
	}
	meta, err := newMeta(ctx, operation, obj, judged)
	if err != nil {
		return nil, err
	}
	want.meta = meta
	if at >= 0 {
		s.metas[at] = want
	} else {
		s.metas = append(s.metas, want)
	}
	return meta, nil
}

func newMeta(ctx context.Context, operation abi.Operation, obj *document.Document, judged document.Value) (*document.Document, error) {
	received, ok := apirequest.ReceivedTimestampFrom(ctx)
	if !ok {
		received = time.Unix(0, 0) // no request: what the guest sees must not depend on when
	}
	m := abi.Meta{
		Operation: operation,
		Time:      host.FormatTime(received),
		Kind:      obj.Get("kind").String(),
		Name:      obj.Get("metadata", "name").String(),
		Namespace: obj.Get("metadata", "namespace").String(),
	}
	m.Group, m.Version = splitAPIVersion(obj.Get("apiVersion").String())
	m.UID = audit.GetAuditIDTruncated(ctx)
	if judged.Exists() {
		m.Resource, m.Subresource = judged.Get("requestResource", "resource").String(), judged.Get("requestSubResource").String()
		m.Name, m.Namespace = cmp.Or(m.Name, judged.Get("name").String()), cmp.Or(m.Namespace, judged.Get("namespace").String())
		m.DryRun, _ = judged.Get("dryRun").Bool()
	} else if info, ok := request.InfoFrom(ctx); ok && info.IsResourceRequest {
		m.Resource, m.Subresource = info.Resource, info.Subresource
		if m.Name == "" {
			m.Name = info.Name
		}
		if m.Namespace == "" {
			m.Namespace = info.Namespace
		}
	}
	if user, ok := request.UserFrom(ctx); ok {
		m.User = abi.User{Username: user.GetName(), UID: user.GetUID(), Groups: user.GetGroups(), Extra: user.GetExtra()}
	}
	return host.NewMeta(m)
}

func splitAPIVersion(s string) (group, version string) {
	for i := range len(s) {
		if s[i] == '/' {
			return s[:i], s[i+1:]
		}
	}
	return "", s
}
