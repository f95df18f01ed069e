package reviews

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

func (c *Config) tokenReview(ctx context.Context, in *authenticationv1.TokenReview, admit func() error) error {
	if in.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if err := admit(); err != nil {
		return err
	}
	in.Status = authenticationv1.TokenReviewStatus{}
	audiences := authenticator.Audiences(in.Spec.Audiences)
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	response, ok, err := c.Tokens.AuthenticateToken(ctx, in.Spec.Token)
	if err != nil {
		in.Status.Error = err.Error()
	}
	if !ok || response == nil || response.User == nil {
		return nil
	}
	// A token that names no audience is good for the server itself, not for another that asks.
	if len(audiences) > 0 && len(audiences.Intersect(response.Audiences)) == 0 {
		in.Status.Error = "the token is not for any of the audiences asked for"
		return nil
	}
	in.Status.Authenticated = true
	in.Status.User = userInfo(response.User)
	in.Status.Audiences = response.Audiences
	return nil
}

func selfSubjectReview(ctx context.Context, in *authenticationv1.SelfSubjectReview, admit func() error) error {
	if err := admit(); err != nil {
		return err
	}
	u, err := caller(ctx)
	if err != nil {
		return err
	}
	in.ObjectMeta = metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now())}
	in.Status.UserInfo = userInfo(u)
	return nil
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[key] = values
	}
	return out
}
