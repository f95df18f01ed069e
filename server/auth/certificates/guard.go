// Package certificates guards CertificateSigningRequests: the server says who made one, and who approves or
// signs it must be allowed to for its signer.
package certificates

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// Resource is what the Guard is for.
var Resource = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}

// Guard is the layer of CertificateSigningRequests: what upstream's strategy (pkg/registry/certificates/certificates) and
// its admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction do.
type Guard struct {
	rest.NoHooks
	subresource string
	authorizer  authorizer.UnconditionalAuthorizer
	now         func() time.Time
}

var _ rest.Layer = (*Guard)(nil)

// NewGuard returns the Guard of a subresource: approval, status or "", the object itself.
func NewGuard(subresource string, a authorizer.UnconditionalAuthorizer) *Guard {
	return &Guard{subresource: subresource, authorizer: a, now: time.Now}
}

// Name implements rest.Layer.
func (*Guard) Name() string { return "certificates" }

// Implements implements rest.Layer.
func (g *Guard) Implements() rest.HookSet {
	if g.subresource != "" {
		return rest.HookSet(rest.HookPrepareForUpdate | rest.HookValidateUpdate)
	}
	return rest.HookSet(rest.HookPrepareForCreate | rest.HookValidate | rest.HookPrepareForUpdate)
}

// PrepareForCreate implements rest.Hooks: the user of the request, whatever the object says.
func (*Guard) PrepareForCreate(ctx context.Context, obj *document.Document) (*document.Document, error) {
	e := obj.Edit()
	for _, name := range []string{"username", "uid", "groups", "extra"} {
		e.Delete("spec", name)
	}
	u, ok := request.UserFrom(ctx)
	if !ok {
		return e.Document()
	}
	e.Set(u.GetName(), "spec", "username")
	if uid := u.GetUID(); uid != "" {
		e.Set(uid, "spec", "uid")
	}
	if groups := u.GetGroups(); len(groups) > 0 {
		e.Set(groups, "spec", "groups")
	}
	if extra := u.GetExtra(); len(extra) > 0 {
		e.Set(extra, "spec", "extra")
	}
	return e.Document()
}

// PrepareForUpdate implements rest.Hooks: the spec stays as it was. An update of the status leaves a decision as it was, too, and
// conditions without times get them.
func (g *Guard) PrepareForUpdate(_ context.Context, obj, old *document.Document) (*document.Document, error) {
	if g.subresource == "" {
		return obj.Edit().Set(old.Get("spec"), "spec").Document()
	}
	was, given := conditionsOf(old), conditionsOf(obj)
	conditions := make([]any, 0, len(given))
	changed := false
	for _, c := range given {
		if g.subresource == rest.SubresourceStatus && isDecision(c) {
			if i := slices.IndexFunc(was, func(before document.Value) bool { return before.Get("type").Equal(c.Get("type")) }); i >= 0 {
				changed = changed || !was[i].Equal(c)
				conditions = append(conditions, was[i])
				continue
			}
		}
		timed := g.timed(c, was)
		changed = changed || timed != nil
		if timed == nil {
			conditions = append(conditions, c)
		} else {
			conditions = append(conditions, timed)
		}
	}
	if !changed {
		return obj, nil
	}
	return obj.Edit().Set(conditions, "status", "conditions").Document()
}

// timed returns a condition with the times that it lacks, nil where it has both: it was updated now, and became what it is when one of
// its type and status did.
func (g *Guard) timed(c document.Value, was []document.Value) map[string]any {
	missing := func(name string) bool { return c.Get(name).String() == "" }
	if !missing("lastUpdateTime") && !missing("lastTransitionTime") {
		return nil
	}
	out, ok := c.Interface().(map[string]any)
	if !ok {
		return nil
	}
	now := g.now().UTC().Format(time.RFC3339)
	if missing("lastUpdateTime") {
		out["lastUpdateTime"] = now
	}
	if missing("lastTransitionTime") {
		out["lastTransitionTime"] = now
		for _, before := range was {
			if sameState(before, c) && before.Get("lastTransitionTime").String() != "" {
				out["lastTransitionTime"] = before.Get("lastTransitionTime").String()
				break
			}
		}
	}
	return out
}

func conditionsOf(obj *document.Document) (out []document.Value) {
	for _, c := range obj.Get("status", "conditions").Elements() {
		out = append(out, c)
	}
	return out
}

// sameState reports whether two conditions say the same.
func sameState(a, b document.Value) bool {
	return a.Get("type").Equal(b.Get("type")) && a.Get("status").Equal(b.Get("status"))
}

// isDecision reports whether a condition says that a request is approved or denied.
func isDecision(c document.Value) bool {
	kind := certificatesv1.RequestConditionType(c.Get("type").String())
	return kind == certificatesv1.CertificateApproved || kind == certificatesv1.CertificateDenied
}

// Validate implements rest.Hooks.
func (*Guard) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	path := field.NewPath("spec", "request")
	text := obj.Get("spec", "request").String()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}, nil
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return field.ErrorList{field.Invalid(path, text, "PEM block type must be CERTIFICATE REQUEST")}, nil
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}, nil
	}
	if obj.Get("spec", "signerName").String() == certificatesv1.KubeAPIServerClientSignerName &&
		slices.Contains(parsed.Subject.Organization, user.SystemPrivilegedGroup) {
		return nil, forbidden(obj, fmt.Sprintf("use of %s signer with %s group is not allowed",
			certificatesv1.KubeAPIServerClientSignerName, user.SystemPrivilegedGroup))
	}
	return nil, nil
}

// ValidateUpdate implements rest.Hooks, for approval and status.
func (g *Guard) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	if errs := append(g.judgeDecision(obj, old), judgeConditions(obj, old)...); len(errs) > 0 {
		return errs, nil
	}
	verb := "approve"
	if g.subresource == rest.SubresourceStatus {
		was, is := old.Get("status", "certificate"), obj.Get("status", "certificate")
		switch {
		case was.String() != is.String() && was.String() != "":
			return field.ErrorList{field.Forbidden(field.NewPath("status", "certificate"), "updates may not modify existing certificate data")}, nil
		case was.String() == is.String() && slices.EqualFunc(conditionsOf(old), conditionsOf(obj), document.Value.Equal):
			return nil, nil
		}
		verb = "sign"
	}
	signer := old.Get("spec", "signerName").String()
	if g.allowed(ctx, verb, signer) {
		return nil, nil
	}
	return nil, forbidden(old, fmt.Sprintf("user not permitted to %s requests with signerName %q", verb, signer))
}

// judgeDecision says whether a request may become approved or denied: by approval alone, once, and for good.
func (g *Guard) judgeDecision(obj, old *document.Document) field.ErrorList {
	path := field.NewPath("status", "conditions")
	approved, denied := has(obj, certificatesv1.CertificateApproved), has(obj, certificatesv1.CertificateDenied)
	wasApproved, wasDenied := has(old, certificatesv1.CertificateApproved), has(old, certificatesv1.CertificateDenied)
	switch {
	case has(old, certificatesv1.CertificateFailed) && !has(obj, certificatesv1.CertificateFailed):
		return field.ErrorList{field.Forbidden(path, "updates may not remove a condition of type Failed")}
	case wasApproved && !approved || wasDenied && !denied:
		return field.ErrorList{field.Forbidden(path, "updates may not remove a condition of type Approved or Denied")}
	case g.subresource == rest.SubresourceStatus && (approved != wasApproved || denied != wasDenied):
		return field.ErrorList{field.Forbidden(path, "updates of the status may not add a condition of type Approved or Denied")}
	case approved && denied:
		return field.ErrorList{field.Invalid(path, certificatesv1.CertificateApproved, "Approved and Denied conditions are mutually exclusive")}
	}
	return nil
}

// judgeConditions says what is wrong with the conditions that are new: what a request has come to is so, or is not said.
func judgeConditions(obj, old *document.Document) (errs field.ErrorList) {
	was := conditionsOf(old)
	for i, c := range conditionsOf(obj) {
		path := field.NewPath("status", "conditions").Index(i)
		kind := certificatesv1.RequestConditionType(c.Get("type").String())
		switch {
		case slices.ContainsFunc(was, func(before document.Value) bool { return sameState(before, c) }):
		case kind == "":
			errs = append(errs, field.Required(path.Child("type"), ""))
		case (isDecision(c) || kind == certificatesv1.CertificateFailed) && c.Get("status").String() != string(corev1.ConditionTrue):
			errs = append(errs, field.NotSupported(path.Child("status"), c.Get("status").String(), []corev1.ConditionStatus{corev1.ConditionTrue}))
		}
	}
	return errs
}

// has reports whether obj has a condition of a type.
func has(obj *document.Document, kind certificatesv1.RequestConditionType) bool {
	for _, c := range conditionsOf(obj) {
		if c.Get("type").String() == string(kind) {
			return true
		}
	}
	return false
}

// allowed asks for the signer, then for all of its domain.
func (g *Guard) allowed(ctx context.Context, verb, signer string) bool {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	names := []string{signer}
	if domain, _, ok := strings.Cut(signer, "/"); ok {
		names = append(names, domain+"/*")
	}
	for _, name := range names {
		decision, _, err := g.authorizer.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: verb, Name: name,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

func forbidden(obj *document.Document, text string) error {
	return apierrors.NewForbidden(Resource, obj.Get("metadata", "name").String(), errors.New(text))
}
