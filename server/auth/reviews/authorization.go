package reviews

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/request"
)

func (c *Config) subjectAccessReview(ctx context.Context, in *authorizationv1.SubjectAccessReview, admit func() error) error {
	errs := append(validateSubject(in.Spec), validateEmptyMeta(in.ObjectMeta, false)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview").GroupKind(), "", errs)
	}
	if err := admit(); err != nil {
		return err
	}
	in.Status = c.status(ctx, subjectAttributes(in.Spec))
	return nil
}

func (c *Config) localSubjectAccessReview(ctx context.Context, in *authorizationv1.LocalSubjectAccessReview, admit func() error) error {
	if errs := validateLocal(in); len(errs) > 0 {
		return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview").GroupKind(), "", errs)
	}
	namespace, _ := request.NamespaceFrom(ctx)
	if namespace == "" || namespace != in.Namespace {
		return apierrors.NewBadRequest("spec.resourceAttributes.namespace must match namespace: " + namespace)
	}
	if err := admit(); err != nil {
		return err
	}
	in.Status = c.status(ctx, subjectAttributes(in.Spec))
	return nil
}

func (c *Config) selfSubjectAccessReview(ctx context.Context, in *authorizationv1.SelfSubjectAccessReview, admit func() error) error {
	errs := append(validateAttributes(in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes), validateEmptyMeta(in.ObjectMeta, false)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview").GroupKind(), "", errs)
	}
	u, err := caller(ctx)
	if err != nil {
		return err
	}
	if err := admit(); err != nil {
		return err
	}
	in.Status = c.status(ctx, attributes(u, in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes))
	return nil
}

func (c *Config) selfSubjectRulesReview(ctx context.Context, in *authorizationv1.SelfSubjectRulesReview, admit func() error) error {
	u, err := caller(ctx)
	if err != nil {
		return err
	}
	if in.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	if err := admit(); err != nil {
		return err
	}
	resources, others, incomplete, err := c.Rules.RulesFor(ctx, u, in.Spec.Namespace)
	// Upstream answers with the status alone.
	*in = authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{}, Incomplete: incomplete}}
	if err != nil {
		in.Status.EvaluationError = err.Error()
	}
	for _, r := range resources {
		in.Status.ResourceRules = append(in.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(), Resources: r.GetResources(), ResourceNames: r.GetResourceNames()})
	}
	for _, r := range others {
		in.Status.NonResourceRules = append(in.Status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: r.GetVerbs(), NonResourceURLs: r.GetNonResourceURLs()})
	}
	return nil
}

// status asks the authorizer.
func (c *Config) status(ctx context.Context, a authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := c.Authorizer.Authorize(ctx, a)
	var evaluation []string
	if err != nil {
		evaluation = append(evaluation, err.Error())
	}
	for _, s := range []struct {
		name string
		some bool
		err  error
	}{
		{"fieldSelector", len(a.FieldSelectorRequirements) > 0, a.FieldSelectorParsingErr},
		{"labelSelector", len(a.LabelSelectorRequirements) > 0, a.LabelSelectorParsingErr},
	} {
		switch {
		case s.err == nil:
		case s.some:
			evaluation = append(evaluation, "spec.resourceAttributes."+s.name+" partially ignored due to parse error")
		default:
			evaluation = append(evaluation, "spec.resourceAttributes."+s.name+" ignored due to parse error")
		}
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed:         decision == authorizer.DecisionAllow,
		Denied:          decision == authorizer.DecisionDeny,
		Reason:          reason,
		EvaluationError: strings.Join(evaluation, "; "),
	}
}

func subjectAttributes(spec authorizationv1.SubjectAccessReviewSpec) authorizer.AttributesRecord {
	u := &user.DefaultInfo{Name: spec.User, Groups: spec.Groups, UID: spec.UID}
	for key, values := range spec.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = values
	}
	return attributes(u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

// attributes returns the question: one of the two is nil.
func attributes(u user.Info, resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		return authorizer.AttributesRecord{User: u, Path: other.Path, Verb: other.Verb}
	}
	out := authorizer.AttributesRecord{
		User: u, Verb: resource.Verb, Namespace: resource.Namespace, APIGroup: resource.Group, APIVersion: resource.Version,
		Resource: resource.Resource, Subresource: resource.Subresource, Name: resource.Name, ResourceRequest: true,
	}
	if out.APIVersion == "" {
		out.APIVersion = "*"
	}
	if s := resource.LabelSelector; s != nil {
		out.LabelSelectorRequirements, out.LabelSelectorParsingErr = labelRequirements(s)
	}
	if s := resource.FieldSelector; s != nil {
		out.FieldSelectorRequirements, out.FieldSelectorParsingErr = fieldRequirements(s)
	}
	return out
}
