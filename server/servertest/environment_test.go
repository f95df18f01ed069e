package servertest_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server/servertest"
)

func TestRestartKeepsDataAndURL(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	before := env.URL()
	client, err := kubernetes.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	made, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if env.URL() != before {
		t.Errorf("URL %s after a restart, want %s", env.URL(), before)
	}
	got, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != made.UID || got.ResourceVersion != made.ResourceVersion || got.Data["k"] != "v" {
		t.Errorf("got %v after a restart, want %v", got, made)
	}
}

func TestClientIsAdministrator(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	for _, path := range []string{"/readyz", "/api/v1/secrets", "/metrics"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := env.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %d: %s", path, resp.StatusCode, body)
		}
	}
}

func TestStopTwice(t *testing.T) {
	env, err := servertest.New(context.WithoutCancel(t.Context()), servertest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
}
