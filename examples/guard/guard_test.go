// Package guard tests one policy in four languages: the example of each, and
// what weir module init makes of it.
package guard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/host"
	"weir.dev/weir/sdk/build"
	"weir.dev/weir/sdk/cases"
	"weir.dev/weir/server/servertest"
)

// guest builds the policy in a language. Without its tools the test is skipped,
// but fails where CI is set, whose tools `make toolchains` installs.
func guest(t *testing.T, language build.Language) []byte {
	t.Helper()
	needs(t, language)
	file := filepath.Join(t.TempDir(), "guard.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: string(language), Output: file, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func needs(t *testing.T, language build.Language) {
	t.Helper()
	if missing := build.Missing(t.Context(), language); missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

// TestCases runs the same cases in all languages.
func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a guest of each language")
	}
	for _, language := range build.Languages() {
		t.Run(string(language), func(t *testing.T) {
			cases.Test(t, os.DirFS("."), "cases", guest(t, language), host.ModuleConfig{Name: "guard"})
		})
	}
}

// TestNative runs what the READMEs have authors run on their own machines.
func TestNative(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the hooks natively")
	}
	for _, language := range build.Languages() {
		t.Run(string(language), func(t *testing.T) {
			needs(t, language)
			if err := build.Native(t.Context(), string(language)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDenied puts the policy in force on a server: what it denies is denied.
func TestDenied(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	wasm := guest(t, build.C)
	env := servertest.Start(t, servertest.Options{})
	dir, err := env.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "guard.wasm"), wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		modules     = "/apis/weir.dev/v1alpha1/modules"
		strategies  = "/apis/weir.dev/v1alpha1/strategies"
		deployments = "/apis/apps/v1/namespaces/default/deployments"
	)
	if code, body := send(t, env, http.MethodPost, modules, "application/yaml", file(t, "module.yaml")); code != http.StatusCreated {
		t.Fatalf("module: %d %s", code, body)
	}
	ready(t, env, modules+"/guard")
	patch, err := yaml.YAMLToJSON([]byte(file(t, "layer.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if code, body := send(t, env, http.MethodPatch, strategies+"/deployments.apps", "application/json-patch+json", string(patch)); code != http.StatusOK {
		t.Fatalf("strategy: %d %s", code, body)
	}
	ready(t, env, strategies+"/deployments.apps")
	code, body := send(t, env, http.MethodPost, deployments, "application/yaml", file(t, "bad.yaml"))
	if code != http.StatusUnprocessableEntity || !strings.Contains(body, "every Deployment has one") || !strings.Contains(body, "must be at most 10") {
		t.Errorf("the bad one: %d %s", code, body)
	}
	code, body = send(t, env, http.MethodPost, deployments, "application/yaml", file(t, "good.yaml"))
	if code != http.StatusCreated {
		t.Errorf("the good one: %d %s", code, body)
	}
	// A misspelt setting is refused, and the last good ones stay in force.
	const misspelt = `[{"op": "add", "path": "/spec/layers/1/module/settings/maxReplica", "value": 40}]`
	if code, body := send(t, env, http.MethodPatch, strategies+"/deployments.apps", "application/json-patch+json", misspelt); code != http.StatusOK {
		t.Fatalf("settings: %d %s", code, body)
	}
	until(t, env, strategies+"/deployments.apps", func(body string) bool {
		return strings.Contains(body, "LastKnownGood") &&
			strings.Contains(body, `settings refused: maxReplica: FieldValueForbidden: unknown setting, did you mean \"maxReplicas\"?`)
	})
	code, body = send(t, env, http.MethodPost, deployments, "application/yaml", file(t, "bad.yaml"))
	if code != http.StatusUnprocessableEntity || !strings.Contains(body, "must be at most 10") {
		t.Errorf("the bad one, after misspelt settings: %d %s", code, body)
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// send makes a request and returns its answer.
func send(t *testing.T, env *servertest.Environment, method, path, contentType, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, env.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := env.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var raw json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// ready waits for a configuration object to be in force as it is written.
func ready(t *testing.T, env *servertest.Environment, path string) {
	t.Helper()
	until(t, env, path, func(body string) bool {
		var object struct {
			Metadata struct{ Generation int64 }
			Status   struct {
				ObservedGeneration int64
				Conditions         []struct{ Type, Status string }
			}
		}
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			t.Fatal(err)
		}
		s := object.Status
		return s.ObservedGeneration == object.Metadata.Generation && strings.Contains(fmt.Sprint(s.Conditions), "{Ready True}")
	})
}

// until waits for an object to be as it is wanted.
func until(t *testing.T, env *servertest.Environment, path string, wanted func(body string) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, body := send(t, env, http.MethodGet, path, "", "")
		if wanted(body) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not become what is wanted: %s", body)
		}
	}
}
