package reviews

import (
	"context"
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
)

// asked is an authorizer that says no and remembers the question.
type asked struct{ question authorizer.Attributes }

func (a *asked) Authorize(_ context.Context, question authorizer.Attributes) (authorizer.Decision, string, error) {
	a.question = question
	return authorizer.DecisionNoOpinion, "because", errors.New("half of it failed")
}

func TestReviews(t *testing.T) {
	a := &asked{}
	served, err := New(Config{
		Tokens: authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
			switch token {
			case "good":
				return &authenticator.Response{User: &user.DefaultInfo{Name: "ann", Extra: map[string][]string{"k": {"v"}}}}, true, nil
			case "aimed":
				return &authenticator.Response{User: &user.DefaultInfo{Name: "ann"}, Audiences: authenticator.Audiences{"x"}}, true, nil
			}
			return nil, false, errors.New("invalid bearer token")
		}),
		Authorizer: a,
		Rules:      authorizerfactory.NewAlwaysAllowAuthorizer(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.WithUser(request.WithNamespace(t.Context(), "ns"), &user.DefaultInfo{Name: "me", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}})
	const (
		authn = "authentication.k8s.io"
		authz = "authorization.k8s.io"
	)
	tests := []struct {
		name, group, resource, in string
		want                      string // within the status, or the error
	}{
		{"who am I", authn, "selfsubjectreviews", `{}`, `"userInfo":{"extra":{"k":["v"]},"groups":["g"],"uid":"7","username":"me"}`},
		{"a good token", authn, "tokenreviews", `{"spec":{"token":"good"}}`, `{"authenticated":true,"user":{"extra":{"k":["v"]},"username":"ann"}}`},
		{"a bad token", authn, "tokenreviews", `{"spec":{"token":"x"},"status":{"authenticated":true}}`, `{"error":"invalid bearer token","user":{}}`},
		{"no token", authn, "tokenreviews", `{"spec":{}}`, "token is required"},
		{"a token for the audience", authn, "tokenreviews", `{"spec":{"token":"aimed","audiences":["x","y"]}}`, `"audiences":["x"],"authenticated":true`},
		{"a token for another audience", authn, "tokenreviews", `{"spec":{"token":"aimed","audiences":["y"]}}`, `"error":"the token is not for any of the audiences`},
		{"a token for no audience", authn, "tokenreviews", `{"spec":{"token":"good","audiences":["y"]}}`, `"error":"the token is not for any of the audiences`},
		{"may I", authz, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get"}}}`, `{"allowed":false,"evaluationError":"half of it failed","reason":"because"}`},
		{"neither", authz, "selfsubjectaccessreviews", `{"spec":{}}`, "exactly one of nonResourceAttributes or resourceAttributes must be specified"},
		{"both", authz, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, "exactly one of"},
		{"a name", authz, "selfsubjectaccessreviews", `{"metadata":{"name":"x"},"spec":{"resourceAttributes":{}}}`, "must be empty"},
		{"about nobody", authz, "subjectaccessreviews", `{"spec":{"resourceAttributes":{}}}`, "at least one of user or group must be specified"},
		{"a path", authz, "subjectaccessreviews", `{"spec":{"user":"u","nonResourceAttributes":{"path":"/x","verb":"get"}}}`, `"allowed":false`},
		{"a path in a namespace", authz, "localsubjectaccessreviews", `{"metadata":{"namespace":"ns"},"spec":{"user":"u","nonResourceAttributes":{"path":"/x"}}}`, "disallowed on this kind of request"},
		{"another namespace", authz, "localsubjectaccessreviews", `{"metadata":{"namespace":"ns"},"spec":{"user":"u","resourceAttributes":{"namespace":"other"}}}`, "must match metadata.namespace"},
		{"two selectors", authz, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"Exists"}]}}}}`, "may not specified at the same time as requirements"},
		{"no selector", authz, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"labelSelector":{}}}}`, "requirements or rawSelector is required"},
		{"an operator of the future", authz, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"labelSelector":{"requirements":[{"key":"a","operator":"Near","values":["b"]},{"key":"b","operator":"Exists"}]}}}}`, "labelSelector partially ignored due to parse error"},
		{"a selector that cannot be read", authz, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"fieldSelector":{"rawSelector":"=="}}}}`, `"evaluationError":"half of it failed`},
		{"my rules", authz, "selfsubjectrulesreviews", `{"spec":{"namespace":"ns"}}`, `{"incomplete":false,"nonResourceRules":[{"nonResourceURLs":["*"],"verbs":["*"]}],"resourceRules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`},
		{"my rules nowhere", authz, "selfsubjectrulesreviews", `{"spec":{}}`, "no namespace on request"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in, err := document.Parse([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			out, err := served[schema.GroupResource{Group: tc.group, Resource: tc.resource}].Create(ctx, in, nil, &metav1.CreateOptions{})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = string(out.Get("status").Raw())
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestQuestion(t *testing.T) {
	a := &asked{}
	c := Config{Authorizer: a}
	in, err := document.Parse([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"u","groups":["g"],"uid":"1","extra":{"k":["v"]},` +
		`"resourceAttributes":{"namespace":"ns","verb":"get","group":"apps","resource":"deployments","subresource":"scale","name":"d","labelSelector":{"rawSelector":"a=b"},` +
		`"fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["x"]}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	admitted := false
	out, err := (review[authorizationv1.SubjectAccessReview]{c.subjectAccessReview}).Create(t.Context(), in, func(context.Context, *document.Document) error { admitted = true; return nil }, nil)
	if err != nil || !admitted || !out.Get("spec").Equal(in.Get("spec")) || out.Get("kind").String() != "SubjectAccessReview" {
		t.Fatalf("answer %s, admitted %v, %v", out.Bytes(), admitted, err)
	}
	q := a.question
	labels, _ := q.GetLabelSelector()
	fields, _ := q.GetFieldSelector()
	got := []string{q.GetUser().GetName(), q.GetUser().GetUID(), q.GetUser().GetExtra()["k"][0], q.GetNamespace(), q.GetVerb(), q.GetAPIGroup(), q.GetAPIVersion(),
		q.GetResource(), q.GetSubresource(), q.GetName(), labels[0].String(), fields[0].Field + string(fields[0].Operator) + fields[0].Value}
	if want := "u 1 v ns get apps * deployments scale d a=b metadata.name=x"; strings.Join(got, " ") != want {
		t.Errorf("asked %s\nwant %s", strings.Join(got, " "), want)
	}
	refusal := errors.New("refused")
	if _, err := (review[authorizationv1.SubjectAccessReview]{c.subjectAccessReview}).Create(t.Context(), in, func(context.Context, *document.Document) error { return refusal }, nil); !errors.Is(err, refusal) {
		t.Errorf("admission is not asked: %v", err)
	}
}
