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

	certificatesv1 "k8s.io/api/certificates/v1"
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
}

var _ rest.Layer = (*Guard)(nil)

// NewGuard returns the Guard of a subresource: approval, status or "", the object itself.
func NewGuard(subresource string, a authorizer.UnconditionalAuthorizer) *Guard {
	return &Guard{subresource: subresource, authorizer: a}
}

// Name implements rest.Layer.
func (*Guard) Name() string { return "certificates" }

// Implements implements rest.Layer.
func (g *Guard) Implements() rest.HookSet {
	if g.subresource != "" {
		return rest.HookSet(rest.HookValidateUpdate)
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

// PrepareForUpdate implements rest.Hooks: the spec stays as it was.
func (*Guard) PrepareForUpdate(_ context.Context, obj, old *document.Document) (*document.Document, error) {
	return obj.Edit().Set(old.Get("spec"), "spec").Document()
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
	if errs := g.judgeDecision(obj, old); len(errs) > 0 {
		return errs, nil
	}
	verb := "approve"
	if g.subresource == rest.SubresourceStatus {
		if obj.Get("status", "certificate").Equal(old.Get("status", "certificate")) {
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
	case wasApproved && !approved || wasDenied && !denied:
		return field.ErrorList{field.Forbidden(path, "updates may not remove a condition of type Approved or Denied")}
	case g.subresource == rest.SubresourceStatus && (approved != wasApproved || denied != wasDenied):
		return field.ErrorList{field.Forbidden(path, "updates of the status may not add a condition of type Approved or Denied")}
	case approved && denied:
		return field.ErrorList{field.Invalid(path, certificatesv1.CertificateApproved, "Approved and Denied conditions are mutually exclusive")}
	}
	return nil
}

// has reports whether obj has a condition of a type.
func has(obj *document.Document, kind certificatesv1.RequestConditionType) bool {
	for _, c := range obj.Get("status", "conditions").Elements() {
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
