package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"weir.dev/weir/server/servertest"
)

// TestCertificateSigningRequests has a user make requests for certificates, approve and sign them: the server says whose
// they are, and each takes its verb on the signer.
func TestCertificateSigningRequests(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	admin := kubernetes.NewForConfigOrDie(env.RESTConfig())
	config := env.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"team": {"blue"}}}
	jane := kubernetes.NewForConfigOrDie(config).CertificatesV1().CertificateSigningRequests()
	grant := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}}
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	grant("requests", rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Verbs: []string{"create", "update"},
		Resources: []string{"certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"}})
	made := func(name, organization string) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: "jane", Organization: []string{organization}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Username: "boss", Groups: []string{"system:masters"},
		}, Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("made by a client"),
			Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}}}
	}
	csr, err := jane.Create(t.Context(), made("one", "devs"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := csr.Spec; s.Username != "jane" || s.UID != "7" || !slices.Contains(s.Groups, "devs") || slices.Contains(s.Groups, "system:masters") || s.Extra["team"] == nil {
		t.Errorf("made by %q, uid %q, groups %q, extra %q", s.Username, s.UID, s.Groups, s.Extra)
	}
	if len(csr.Status.Conditions) > 0 || csr.Status.Certificate != nil {
		t.Errorf("created with the status %+v", csr.Status)
	}
	changed := csr.DeepCopy()
	changed.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	changed.Spec.Username, changed.Labels = "boss", map[string]string{"a": "b"}
	if changed, err = jane.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil || changed.Spec.Username != "jane" || len(changed.Status.Conditions) > 0 {
		t.Fatalf("after an update: %v, %v", changed, err)
	}
	csr = changed
	if _, err := jane.Create(t.Context(), made("masters", "system:masters"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a certificate of system:masters: %v", err)
	}

	approved := csr.DeepCopy()
	approved.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	if _, err := jane.UpdateApproval(t.Context(), csr.Name, approved, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("approved without approve: %v", err)
	}
	if _, err := jane.UpdateStatus(t.Context(), approved, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("approved by the status: %v", err)
	}
	grant("approves", rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"},
		ResourceNames: []string{"kubernetes.io/*"}})
	approved.Spec.Username, approved.Spec.Groups, approved.Status.Certificate = "boss", []string{"system:masters"}, []byte("signed by who approves")
	if csr, err = jane.UpdateApproval(t.Context(), csr.Name, approved, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("approved: %v", err)
	}
	if s := csr.Spec; s.Username != "jane" || slices.Contains(s.Groups, "system:masters") || csr.Status.Certificate != nil {
		t.Errorf("the approval changes more: %+v, certificate %q", s, csr.Status.Certificate)
	}
	signed := csr.DeepCopy()
	signed.Status.Certificate = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	if _, err := jane.UpdateStatus(t.Context(), signed, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("signed without sign: %v", err)
	}
	grant("signs", rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Verbs: []string{"sign"},
		ResourceNames: []string{certificatesv1.KubeAPIServerClientSignerName}})
	if signed, err = jane.UpdateStatus(t.Context(), signed, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("signed: %v", err)
	}
	signed.Status.Conditions = nil
	if _, err := jane.UpdateStatus(t.Context(), signed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("the approval taken back: %v", err)
	}
}
