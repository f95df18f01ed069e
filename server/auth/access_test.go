package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

const tokens = `ann-token,ann,1,"staff,dev"
bob-token,bob,2
`

// start returns a server whose token file knows ann and bob, and an administrator's client.
func start(t *testing.T) (*servertest.Environment, *kubernetes.Clientset) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	env := servertest.Start(t, servertest.Options{Config: server.Config{TokenAuthFile: file}})
	return env, client(t, env.RESTConfig())
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	config.QPS, config.Burst = 1000, 1000
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withToken returns the configuration of a client that has a bearer token and no certificate.
func withToken(env *servertest.Environment, token string) *rest.Config {
	config := rest.AnonymousClientConfig(env.RESTConfig())
	config.BearerToken = token
	return config
}

func TestWhoMayEnter(t *testing.T) {
	env, _ := start(t)
	ca, caKey := serverAuthority(t, env)
	foreign, foreignKey := authority(t)
	now := time.Now()
	admins := pkix.Name{CommonName: "x", Organization: []string{"system:masters"}}
	tests := []struct {
		name  string
		cert  *tls.Certificate
		token string
		codes string // of /api, /readyz, /readyz/ping, /version, /api/v1/pods
	}{
		{"nobody", nil, "", "403 200 403 200 403"},
		{"a token", nil, "bob-token", "200 200 403 200 403"},
		{"a bad token", nil, "nope", "401 401 401 401 401"},
		{"an administrator", issue(t, ca, caKey, admins, now.Add(time.Hour)), "", "200 200 200 200 200"},
		{"a user", issue(t, ca, caKey, pkix.Name{CommonName: "joe"}, now.Add(time.Hour)), "", "200 200 403 200 403"},
		{"an expired certificate", issue(t, ca, caKey, admins, now.Add(-time.Minute)), "", "401 401 401 401 401"},
		{"a foreign certificate", issue(t, foreign, foreignKey, admins, now.Add(time.Hour)), "", "401 401 401 401 401"},
		{"a foreign certificate and a token", issue(t, foreign, foreignKey, admins, now.Add(time.Hour)), "bob-token", "200 200 403 200 403"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			config := &tls.Config{RootCAs: x509.NewCertPool()}
			config.RootCAs.AddCert(ca)
			if tc.cert != nil {
				// Whatever authorities the server names.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tc.cert, nil }
			}
			transport := &http.Transport{TLSClientConfig: config}
			defer transport.CloseIdleConnections()
			var codes []string
			for _, path := range []string{"/api", "/readyz", "/readyz/ping", "/version", "/api/v1/pods"} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.URL()+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tc.token != "" {
					request.Header.Set("Authorization", "Bearer "+tc.token)
				}
				response, err := (&http.Client{Transport: transport}).Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				codes = append(codes, fmt.Sprint(response.StatusCode))
			}
			if got := strings.Join(codes, " "); got != tc.codes {
				t.Errorf("codes %s, want %s", got, tc.codes)
			}
		})
	}
}

// TestLimitedUser follows a user whose rights come and go: each write is in force when it has returned.
func TestLimitedUser(t *testing.T) {
	env, admin := start(t)
	ctx := t.Context()
	bob := client(t, withToken(env, "bob-token"))
	configMaps := bob.CoreV1().ConfigMaps("default")
	mayList := func() error {
		_, err := configMaps.List(ctx, metav1.ListOptions{})
		return err
	}
	if err := mayList(); !apierrors.IsForbidden(err) ||
		!strings.HasSuffix(err.Error(), `User "bob" cannot list resource "configmaps" in API group "" in the namespace "default"`) {
		t.Fatalf("without a binding: %v", err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "readers"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "bob"}}}
	for range 20 {
		made, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.RoleRef.APIGroup != rbacv1.GroupName || made.Subjects[0].APIGroup != rbacv1.GroupName {
			t.Fatalf("defaults are missing: %+v", made)
		}
		if err := mayList(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `clusterrole.rbac.authorization.k8s.io "readers" not found`) {
			t.Fatalf("with a binding to nothing: %v", err)
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "readers"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}}}
		if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := mayList(); err != nil {
			t.Fatalf("with a binding: %v", err)
		}
		patch := []byte(`{"rules":[]}`)
		if _, err := admin.RbacV1().ClusterRoles().Patch(ctx, "readers", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := mayList(); !apierrors.IsForbidden(err) {
			t.Fatalf("when the rule is gone: %v", err)
		}
		if err := admin.RbacV1().ClusterRoles().Delete(ctx, "readers", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := admin.RbacV1().RoleBindings("default").Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := mayList(); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "not found") {
			t.Fatalf("when the binding is gone: %v", err)
		}
	}
}

func TestDefaultRoles(t *testing.T) {
	env, admin := start(t)
	ctx := t.Context()
	grant(t, admin, "edit", "ann")
	ann := client(t, withToken(env, "ann-token"))
	// edit gathers view's and its own rules, which no role has itself.
	if _, err := ann.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("edit: %v", err)
	}
	if _, err := ann.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("edit reads: %v", err)
	}
	if _, err := ann.RbacV1().Roles("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("edit sees roles: %v", err)
	}

	// What is taken away comes back at the next start, unless it is protected.
	roles := admin.RbacV1().ClusterRoles()
	for name, patch := range map[string]string{
		"system:discovery":                     `{"rules":[{"nonResourceURLs":["/mine"],"verbs":["get"]}]}`,
		"system:public-info-viewer":            `{"rules":[],"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`,
		"system:persistent-volume-provisioner": `{"metadata":{"labels":{"mine":"yes"}}}`,
	} {
		if _, err := roles.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := roles.Delete(ctx, "system:basic-user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := roles.Get(ctx, "view", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if r, err := roles.Get(ctx, "system:discovery", metav1.GetOptions{}); err != nil || len(r.Rules) < 2 || r.Rules[0].NonResourceURLs[0] != "/mine" {
		t.Errorf("system:discovery after a restart: %+v, %v", r.Rules, err)
	}
	if r, err := roles.Get(ctx, "system:public-info-viewer", metav1.GetOptions{}); err != nil || len(r.Rules) != 0 {
		t.Errorf("a protected role after a restart: %+v, %v", r.Rules, err)
	}
	if _, err := roles.Get(ctx, "system:basic-user", metav1.GetOptions{}); err != nil {
		t.Errorf("a deleted role after a restart: %v", err)
	}
	if after, err := roles.Get(ctx, "view", metav1.GetOptions{}); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("a role that lacks nothing was written: %v", err)
	}
}

func TestGrantingOverHTTP(t *testing.T) {
	env, admin := start(t)
	ctx := t.Context()
	grant(t, admin, "admin", "ann")
	ann := client(t, withToken(env, "ann-token"))
	role := func(name, resource string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}}
	}
	if _, err := ann.RbacV1().Roles("default").Create(ctx, role("good", "pods"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a role of what she has: %v", err)
	}
	_, err := ann.RbacV1().Roles("default").Create(ctx, role("bad", "nodes"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}`) {
		t.Errorf("a role of more: %v", err)
	}
	// An apply and a PUT that create are no way around.
	apply := []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"bad"},"rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["get"]}]}`)
	if _, err := ann.RbacV1().Roles("default").Patch(ctx, "bad", types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "t"}); !apierrors.IsForbidden(err) {
		t.Errorf("an apply of more: %v", err)
	}
	if _, err := ann.RbacV1().Roles("default").Update(ctx, role("bad", "nodes"), metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a PUT of more: %v", err)
	}
	if _, err := ann.RbacV1().Roles("default").Patch(ctx, "good", types.JSONPatchType, []byte(`[{"op":"replace","path":"/rules/0/resources/0","value":"nodes"}]`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a patch to more: %v", err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "s"}}}
	made, err := ann.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a binding to what she has: %v", err)
	}
	made.RoleRef.Name = "cluster-admin"
	if _, err := admin.RbacV1().RoleBindings("default").Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("another roleRef: %v", err)
	}
	binding.Name, binding.RoleRef.Name = "c", "cluster-admin"
	if _, err := ann.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a binding to more: %v", err)
	}
	binding.RoleRef = rbacv1.RoleRef{}
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a binding to nothing: %v", err)
	}
}

// grant binds a ClusterRole to a user in the namespace default.
func grant(t *testing.T, admin *kubernetes.Clientset, role, who string) {
	t.Helper()
	_, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role + "-" + who},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{{Kind: "User", Name: who}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReviewsOverHTTP(t *testing.T) {
	env, admin := start(t)
	ctx := t.Context()
	grant(t, admin, "view", "ann")
	ann := client(t, withToken(env, "ann-token"))

	self, err := ann.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || self.Status.UserInfo.Username != "ann" || strings.Join(self.Status.UserInfo.Groups, " ") != "staff dev system:authenticated" {
		t.Errorf("SelfSubjectReview: %+v, %v", self, err)
	}
	get := &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get", Resource: "pods"}
	can, err := ann.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: get}}, metav1.CreateOptions{})
	if err != nil || !can.Status.Allowed || can.Status.Reason != `RBAC: allowed by RoleBinding "view-ann/default" of ClusterRole "view" to User "ann"` {
		t.Errorf("SelfSubjectAccessReview: %+v, %v", can.Status, err)
	}
	rules, err := ann.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	if err != nil || rules.Status.Incomplete || len(rules.Status.ResourceRules) < 10 || len(rules.Status.NonResourceRules) < 2 {
		t.Errorf("SelfSubjectRulesReview: %+v, %v", rules.Status, err)
	}
	if _, err := ann.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: get}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a question about others: %v", err)
	}

	subject, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: get}}, metav1.CreateOptions{})
	if err != nil || !subject.Status.Allowed || subject.Spec.User != "ann" {
		t.Errorf("SubjectAccessReview: %+v, %v", subject, err)
	}
	path := &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
	subject, err = admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{Groups: []string{"system:monitoring"}, NonResourceAttributes: path}}, metav1.CreateOptions{})
	if err != nil || !subject.Status.Allowed {
		t.Errorf("SubjectAccessReview of a path: %+v, %v", subject.Status, err)
	}
	if _, err = admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: get, NonResourceAttributes: path}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("two questions: %v", err)
	}
	local := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: get}}
	if local, err := admin.AuthorizationV1().LocalSubjectAccessReviews("default").Create(ctx, local, metav1.CreateOptions{}); err != nil || !local.Status.Allowed {
		t.Errorf("LocalSubjectAccessReview: %+v, %v", local.Status, err)
	}
	local.Namespace = "other"
	if _, err := admin.AuthorizationV1().LocalSubjectAccessReviews("other").Create(ctx, local, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("LocalSubjectAccessReview of another namespace: %v", err)
	}

	review := func(token string) authenticationv1.TokenReviewStatus {
		t.Helper()
		out, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Status
	}
	if s := review("ann-token"); !s.Authenticated || s.User.Username != "ann" || s.User.UID != "1" || len(s.User.Groups) != 3 || s.Error != "" {
		t.Errorf("TokenReview: %+v", s)
	}
	if s := review("nope"); s.Authenticated || s.Error == "" {
		t.Errorf("TokenReview of a bad token: %+v", s)
	}

	config := env.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "zoe", Groups: []string{"staff"}}
	self, err = client(t, config).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || self.Status.UserInfo.Username != "zoe" {
		t.Errorf("impersonation: %+v, %v", self, err)
	}
	config = withToken(env, "ann-token")
	config.Impersonate = rest.ImpersonationConfig{UserName: "zoe"}
	if _, err := client(t, config).CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot impersonate resource \"users\"") {
		t.Errorf("impersonation without the right: %v", err)
	}
}

// serverAuthority reads the authority that the server made for itself.
func serverAuthority(t *testing.T, env *servertest.Environment) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	block := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(env.DataDir(), "pki", name))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := pem.Decode(data)
		if b == nil {
			t.Fatalf("%s is no PEM", name)
		}
		return b.Bytes
	}
	cert, err := x509.ParseCertificate(block("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(block("ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key.(*ecdsa.PrivateKey)
}

func authority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "foreign"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	cert := sign(t, template, nil, nil, time.Now().Add(time.Hour))
	return cert.Leaf, cert.PrivateKey.(*ecdsa.PrivateKey)
}

// issue returns a client certificate of ca that was good until the given time.
func issue(t *testing.T, ca *x509.Certificate, key *ecdsa.PrivateKey, name pkix.Name, until time.Time) *tls.Certificate {
	t.Helper()
	return sign(t, &x509.Certificate{Subject: name, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca, key, until)
}

func sign(t *testing.T, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey, until time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = until.Add(-2*time.Hour), until
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
