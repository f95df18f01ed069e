package extension

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/request"
)

// scope is what the guests of one request share.
type scope struct {
	budget *host.Budget

	mu    sync.Mutex
	metas []scopedMeta // guarded by mu; the last of each operation
}

// scopedMeta is an encoded request. One request may be about many objects, when it deletes
// a collection.
type scopedMeta struct {
	operation                   abi.Operation
	apiVersion, namespace, name string
	meta                        *document.Document
}

type scopeKey struct{}

// WithBudget returns a context whose guests share a budget, and for which the request
// is encoded once. budget may be nil: then only the limits of each module hold.
func WithBudget(ctx context.Context, budget *host.Budget) context.Context {
	return context.WithValue(ctx, scopeKey{}, &scope{budget: budget})
}

// BudgetFrom returns the budget of a context, or nil.
func BudgetFrom(ctx context.Context) *host.Budget {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s.budget
	}
	return nil
}

// metaOf gives guests the request: who sent it, and what about. obj is the object that
// it is about, in its stored version.
func metaOf(ctx context.Context, operation abi.Operation, obj *document.Document) (*document.Document, error) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return newMeta(ctx, operation, obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want := scopedMeta{
		operation:  operation,
		apiVersion: obj.Get("apiVersion").String(),
		namespace:  obj.Get("metadata", "namespace").String(),
		name:       obj.Get("metadata", "name").String(),
	}
	at := slices.IndexFunc(s.metas, func(m scopedMeta) bool { return m.operation == operation })
	if at >= 0 {
		have := s.metas[at]
		if have.apiVersion == want.apiVersion && have.namespace == want.namespace && have.name == want.name {
			return have.meta, nil
		}
	}
	meta, err := newMeta(ctx, operation, obj)
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

func newMeta(ctx context.Context, operation abi.Operation, obj *document.Document) (*document.Document, error) {
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
	if uid, ok := audit.AuditIDFrom(ctx); ok {
		m.UID = string(uid)
	}
	if info, ok := request.InfoFrom(ctx); ok && info.IsResourceRequest {
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
