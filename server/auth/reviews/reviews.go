package reviews

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// Config is what answers.
type Config struct {
	// Tokens says whose a bearer token is.
	Tokens authenticator.Token
	// Authorizer decides.
	Authorizer authorizer.UnconditionalAuthorizer
	// Rules says which rules a user has.
	Rules authorizer.RuleResolver
}

// Validate reports what is missing.
func (c *Config) Validate() error {
	if c.Tokens == nil || c.Authorizer == nil || c.Rules == nil {
		return errors.New("reviews: Config needs Tokens, Authorizer and Rules")
	}
	return nil
}

// New returns what serves each of the resources: a rest.Creater.
func New(c Config) (map[schema.GroupResource]rest.Creater, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	authn := func(name string) schema.GroupResource {
		return schema.GroupResource{Group: authenticationv1.GroupName, Resource: name}
	}
	authz := func(name string) schema.GroupResource {
		return schema.GroupResource{Group: authorizationv1.GroupName, Resource: name}
	}
	return map[schema.GroupResource]rest.Creater{
		authn("tokenreviews"):              review[authenticationv1.TokenReview]{c.tokenReview},
		authn("selfsubjectreviews"):        review[authenticationv1.SelfSubjectReview]{selfSubjectReview},
		authz("subjectaccessreviews"):      review[authorizationv1.SubjectAccessReview]{c.subjectAccessReview},
		authz("localsubjectaccessreviews"): review[authorizationv1.LocalSubjectAccessReview]{c.localSubjectAccessReview},
		authz("selfsubjectaccessreviews"):  review[authorizationv1.SelfSubjectAccessReview]{c.selfSubjectAccessReview},
		authz("selfsubjectrulesreviews"):   review[authorizationv1.SelfSubjectRulesReview]{c.selfSubjectRulesReview},
	}, nil
}

// review serves one kind, T.
type review[T any] struct {
	// answer fills in the status. admit is called on a valid question before it is answered.
	answer func(ctx context.Context, in *T, admit func() error) error
}

// Create implements rest.Creater. Nothing is stored, so a dry run is answered like any other.
func (r review[T]) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (*document.Document, error) {
	in := new(T)
	if err := json.Unmarshal(obj.Bytes(), in); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: %v", obj.Get("kind").String(), err))
	}
	admit := func() error {
		if validate == nil {
			return nil
		}
		return validate(ctx, obj)
	}
	if err := r.answer(ctx, in, admit); err != nil {
		return nil, err
	}
	out, err := document.FromValue(in)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return out.Edit().Set(obj.Get("apiVersion"), "apiVersion").Set(obj.Get("kind"), "kind").Document()
}

// caller returns who sent the request.
func caller(ctx context.Context) (user.Info, error) {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return u, nil
}
