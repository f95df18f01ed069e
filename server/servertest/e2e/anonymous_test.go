package e2e_test

import (
	"io"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
)

// TestAnonymousAuth has the flag of kube-apiserver refuse a request without credentials, which is answered without it.
func TestAnonymousAuth(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the binary")
	}
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"default", nil, http.StatusOK},
		{"off", []string{"--anonymous-auth=false"}, http.StatusUnauthorized},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := serve(t, t.TempDir(), append([]string{"--unsafe-no-fsync"}, tc.args...)...)
			config := p.config(t)
			client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != tc.want {
				t.Errorf("without credentials: %d, want %d", resp.StatusCode, tc.want)
			}
		})
	}
}
