package server

import (
	"context"
	"crypto/x509"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

// access says who a client is and what it may do.
type access struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
}

func newAccess(c *Config, clientCAs *x509.CertPool, _ func(group, name string) any) (*access, error) {
	options := x509request.DefaultVerifyOptions()
	options.Roots = clientCAs
	list := []authenticator.Request{x509request.New(options, x509request.CommonNameUserConversion)}
	if c.TokenAuthFile != "" {
		tokens, err := tokenfile.NewCSV(c.TokenAuthFile)
		if err != nil {
			return nil, err
		}
		list = append(list, bearertoken.New(tokens))
	}
	authn := group.NewAuthenticatedGroupAdder(union.New(list...))
	if !c.DisableAnonymous {
		authn = union.NewFailOnError(authn, anonymous.NewAuthenticator(nil))
	}
	return &access{authenticator: authn, authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}, nil
}

func (a *access) run(ctx context.Context) { <-ctx.Done() }

func (a *access) ready(context.Context) error { return nil }

// virtualResources are the resources that are answered and not stored.
func virtualResources(func() *access) map[schema.GroupResource]any { return nil }
