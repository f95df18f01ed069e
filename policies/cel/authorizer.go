package cel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"weir.dev/weir/policies"
)

// The variables of an expression that may ask an authorizer, upstream's.
const (
	authorizerVariable      = "authorizer"
	requestResourceVariable = "authorizer.requestResource"
)

// Resource is what authorizer.requestResource is about.
type Resource = library.Resource

// Authorizer is what the variables authorizer and authorizer.requestResource are for one request.
type Authorizer struct{ authorizer, resource ref.Val }

// NewAuthorizer returns the Authorizer that says what who may do. resource is that of the request.
func NewAuthorizer(who user.Info, by authorizer.UnconditionalAuthorizer, resource Resource) *Authorizer {
	return &Authorizer{authorizer: library.NewAuthorizerVal(who, by), resource: library.NewResourceAuthorizerVal(who, by, resource)}
}

var _ policies.AuthorizerBinder = (*run)(nil)

// BindAuthorizer implements policies.AuthorizerBinder: it takes an *Authorizer.
func (r *run) BindAuthorizer(a any) {
	r.authorizer, _ = a.(*Authorizer)
	clear(r.variables)
}

// authorizerVariables declares them.
func authorizerVariables() []celgo.EnvOption {
	return []celgo.EnvOption{
		celgo.Variable(authorizerVariable, library.AuthorizerType),
		celgo.Variable(requestResourceVariable, library.ResourceCheckType),
	}
}
