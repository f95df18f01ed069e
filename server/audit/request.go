package audit

import (
	"context"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Request is what is audited of one request. The goroutine that serves it uses it; the contexts that it is given are those
// of the request. A nil *Request records no objects and no Status.
type Request struct {
	event             *audit.AuditContext
	level             auditinternal.Level
	omitManagedFields bool
	// secret is whether the request is about a Secret, of which the level records no content.
	secret bool
	most   int
}

type requestKey struct{}

// From returns the Request of a context, nil where it is not audited.
func From(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Disable turns annotations of a request off that nobody will audit: they cost nothing then.
func Disable(ctx context.Context) {
	if event := audit.AuditContextFrom(ctx); event != nil {
		_ = event.Init(audit.RequestAuditConfig{Level: auditinternal.LevelNone}, nil) // once a request
	}
}

// Begin asks the policy about a request, whose context has an audit context, and notes what is known of it. It returns nil
// where the policy says that it is not audited. The Request is in the context that it returns.
func (a *Audit) Begin(r *http.Request, attributes authorizer.Attributes) (context.Context, *Request) {
	ctx := r.Context()
	event := audit.AuditContextFrom(ctx)
	if a == nil || event == nil {
		return ctx, nil
	}
	config := a.policy.EvaluatePolicyRule(attributes)
	audit.ObservePolicyLevel(ctx, config.Level)
	if err := event.Init(config, a.backend); err != nil || config.Level == auditinternal.LevelNone {
		return ctx, nil
	}
	received, ok := apirequest.ReceivedTimestampFrom(ctx)
	if !ok {
		received = time.Now()
	}
	audit.LogRequestMetadata(ctx, r, received, attributes)
	out := &Request{event: event, level: config.Level, omitManagedFields: config.OmitManagedFields, most: a.most,
		secret: config.Level.Less(auditinternal.LevelRequest) && attributes.IsResourceRequest() &&
			attributes.GetAPIGroup() == "" && attributes.GetResource() == "secrets"}
	return context.WithValue(ctx, requestKey{}, out), out
}

// Received tells that a request has come. It reports whether it may go on: with a strict backend, not where its event
// could not be written.
func (r *Request) Received(ctx context.Context) bool {
	if r.event.ProcessEventStage(ctx, auditinternal.StageRequestReceived) {
		return true
	}
	audit.ApiserverAuditDroppedCounter.WithContext(ctx).Inc()
	return false
}

// Started tells the code of the answer. announce writes an event at once, of a request that will take long.
func (r *Request) Started(ctx context.Context, code int, announce bool) {
	r.event.SetEventResponseStatusCode(int32(code))
	if announce {
		r.event.ProcessEventStage(ctx, auditinternal.StageResponseStarted)
	}
}

// Complete tells that a request is over. One that has not answered is told as answered 200, as net/http does; announce is
// what Started was to be called with.
func (r *Request) Complete(ctx context.Context, announce bool) {
	if r.event.GetEventResponseStatus() == nil {
		r.event.SetEventResponseStatus(&metav1.Status{
			Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"})
		if announce {
			r.event.ProcessEventStage(ctx, auditinternal.StageResponseStarted)
		}
	}
	r.event.ProcessEventStage(ctx, auditinternal.StageResponseComplete)
}

// Panicked tells that the server failed while it served a request.
func (r *Request) Panicked(ctx context.Context, cause string) {
	r.event.SetEventResponseStatus(&metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: "APIServer panic'd: " + cause,
	})
	r.event.ProcessEventStage(ctx, auditinternal.StagePanic)
}
