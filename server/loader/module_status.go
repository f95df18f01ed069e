package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host/source"
	"weir.dev/weir/server/apis/v1alpha1"
)

// Reasons of conditions, of Modules and Strategies alike.
const (
	// reasonInProgress: it is not known yet.
	reasonInProgress = "InProgress"
	// reasonRefused: it failed and nothing is in force.
	reasonRefused = "Refused"
	// reasonNotReached: an earlier step failed.
	reasonNotReached = "NotReached"
	// reasonInForce: the newest generation serves requests.
	reasonInForce = "InForce"
	// reasonLastKnownGood: the newest generation failed and an earlier one serves requests.
	reasonLastKnownGood = "LastKnownGood"
	// reasonPolicyNotFound: a binding names a policy that is not there. reasonPolicyNotReady: it cannot judge.
	reasonPolicyNotFound = "PolicyNotFound"
	reasonPolicyNotReady = "PolicyNotReady"
	// reasonParamKindNotFound: the kind of the params of a policy is not served.
	reasonParamKindNotFound = "ParamKindNotFound"
	// reasonSuspended: the server judges by no policy at all.
	reasonSuspended = "Suspended"
	// reasonUnavailable: a strategy was in force before the server started and cannot be made.
	reasonUnavailable = "Unavailable"
	// reasonCapabilityNotGranted: a Module waits for a capability; an earlier artefact may serve requests meanwhile.
	reasonCapabilityNotGranted = "CapabilityNotGranted"
	// reasonSourceAway: a Module is in force, and it is not known whether its tag has something newer.
	reasonSourceAway = "SourceAway"
)

// enqueueModuleStatus has the conditions of a Module written.
func (l *Loader) enqueueModuleStatus(name string) {
	l.status.enqueue("module/"+name, func(ctx context.Context) error {
		err := l.updateStatus(ctx, moduleResource, name, func(old *document.Document) (any, error) {
			object, err := decodeModule(old)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			s := l.modules[name]
			if s == nil || s.object.UID != object.UID {
				return nil, nil
			}
			l.moduleStatus(&object.Status, s)
			return &object.Status, nil
		})
		if err == nil {
			l.pruneArtefacts(ctx)
		}
		return err
	})
}

// moduleStatus says how far the newest generation came and what is in force. A digest that is not in force,
// after a restart, is kept: it is what may come back.
func (l *Loader) moduleStatus(status *v1alpha1.ModuleStatus, s *moduleState) {
	p := s.progress
	status.ObservedGeneration, status.LastError = p.generation, ""
	if p.err != nil {
		status.LastError = bounded(p.err.Error())
	}
	if s.inForce != nil {
		status.Digest, status.Hooks, status.Image = s.inForce.digest, s.inForce.hooks, s.inForce.image
		status.Capabilities = s.inForce.asked
	}
	failed := false
	for _, step := range []struct {
		kind, failure, message string
		done                   bool
	}{
		{v1alpha1.ModuleFetched, "FetchFailed", p.from, p.fetched},
		{v1alpha1.ModuleVerified, verifyFailure(p.err), p.by, p.verified},
		{v1alpha1.ModuleCompiled, "CompileFailed", "", p.compiled},
	} {
		c := metav1.Condition{Type: step.kind, Status: metav1.ConditionTrue, Reason: step.kind}
		switch {
		case step.done && p.ended && p.err == nil && step.kind == v1alpha1.ModuleFetched && s.source.isAway() != nil:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonSourceAway, bounded(s.source.isAway().Error())
		case step.done:
			c.Message = bounded(step.message)
		case !p.ended:
			c.Status, c.Reason = metav1.ConditionUnknown, reasonInProgress
		case failed:
			c.Status, c.Reason = metav1.ConditionUnknown, reasonNotReached
		default:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, step.failure, status.LastError
			failed = true
		}
		setCondition(&status.Conditions, c, p.generation, l.cfg.Clock.Now())
	}
	ready := metav1.Condition{Type: v1alpha1.ModuleReady, Status: metav1.ConditionTrue, Reason: reasonInForce, Message: "this generation is in force"}
	switch {
	case !p.ended:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, reasonInProgress, ""
		if s.inForce != nil {
			ready.Message = s.inForce.digest + " stays in force meanwhile"
		}
	case p.err != nil && s.inForce != nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, reasonLastKnownGood
		but := ""
		if failing := s.inForce.failing(); failing != "" {
			but = ", but " + failing
		}
		ready.Message = bounded(fmt.Sprintf("%s stays in force%s: %s", s.inForce.digest, but, strings.TrimPrefix(p.err.Error(), s.inForce.digest+": ")))
	case p.err != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonRefused, status.LastError
	}
	if p.ended && waitsForGrant(p.err) {
		ready.Reason = reasonCapabilityNotGranted
	}
	setCondition(&status.Conditions, ready, p.generation, l.cfg.Clock.Now())
}

// verifyFailure is the reason of a failed verification.
func verifyFailure(err error) string {
	switch {
	case errors.Is(err, source.ErrDigest):
		return "DigestMismatch"
	case errors.Is(err, source.ErrSignature):
		return "SignatureInvalid"
	}
	return "VerificationFailed"
}

// pruneArtefacts removes the artefacts that no Module has or had in force.
func (l *Loader) pruneArtefacts(ctx context.Context) {
	l.mu.Lock()
	if !l.seen.modules {
		l.mu.Unlock()
		return
	}
	keep := map[string]bool{}
	for _, s := range l.modules {
		keep[s.object.Status.Digest] = true
		if s.inForce != nil {
			keep[s.inForce.digest] = true
		}
	}
	l.mu.Unlock()
	if err := l.artefacts.prune(keep, l.cfg.Clock.Now()); err != nil {
		l.cfg.Logger.WarnContext(ctx, "artefacts that are not used any more remain", "error", err)
	}
}
