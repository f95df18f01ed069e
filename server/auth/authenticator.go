package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
)

// AuthenticatorConfig says which credentials count.
type AuthenticatorConfig struct {
	// Authorities sign client certificates: the common name is the user, organizations are the groups.
	Authorities *Authorities
	// TokenFile is a CSV of token,user,uid[,"group,…"]; "": none. It is read once, as upstream does.
	TokenFile string
	// Tokens are further authenticators of bearer tokens, such as that of service accounts.
	Tokens []authenticator.Token
	// Anonymous lets requests without credentials in, as system:anonymous of the group system:unauthenticated.
	Anonymous bool
	// Logger is told why credentials were refused: the client only learns that they were.
	Logger *slog.Logger
}

// Validate reports what is missing.
func (c *AuthenticatorConfig) Validate() error {
	if c.Authorities == nil || c.Logger == nil {
		return errors.New("auth: AuthenticatorConfig needs Authorities and Logger")
	}
	return nil
}

// Authenticator says who sent a request. Bad credentials are an error even where anonymity is allowed.
type Authenticator struct {
	requests authenticator.Request
	tokens   authenticator.Request
	logger   *slog.Logger
}

var _ authenticator.Request = (*Authenticator)(nil)

// NewAuthenticator returns the Authenticator that c describes.
func NewAuthenticator(c AuthenticatorConfig) (*Authenticator, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	tokens := c.Tokens
	if c.TokenFile != "" {
		file, err := tokenfile.NewCSV(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("token file: %w", err)
		}
		tokens = append([]authenticator.Token{file}, tokens...)
	}
	// A bearer token that no authenticator knows is bad, also when there are none.
	token := tokenunion.New(tokens...)
	bearer := group.NewAuthenticatedGroupAdder(bearertoken.New(token))
	requests := union.New(
		group.NewAuthenticatedGroupAdder(x509request.NewDynamic(c.Authorities.VerifyOptions, x509request.CommonNameUserConversion)),
		bearer,
		group.NewAuthenticatedGroupAdder(websocket.NewProtocolAuthenticator(token)),
	)
	if c.Anonymous {
		requests = union.NewFailOnError(requests, anonymous.NewAuthenticator(nil))
	}
	return &Authenticator{requests: requests, tokens: bearer, logger: c.Logger}, nil
}

// AuthenticateRequest implements authenticator.Request.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.requests.AuthenticateRequest(r)
	if err != nil {
		a.logger.InfoContext(r.Context(), "credentials refused", "remoteAddress", r.RemoteAddr, "error", err)
	}
	return response, ok, err
}

// AuthenticateToken implements authenticator.Token: it says whose a bearer token is, with the groups
// that a request with it has.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	return a.tokens.AuthenticateRequest(r)
}
