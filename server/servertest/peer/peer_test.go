package main

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/sdk/build"
	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// inProcess starts a server in this process, and makes what is measured on it.
func inProcess(t testing.TB, config server.Config) (*servertest.Environment, *client) {
	t.Helper()
	config.TokenAuthFile = filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(config.TokenAuthFile, []byte(token+",admin,admin,\"system:masters\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := servertest.Start(t, servertest.Options{Config: config})
	trusted := env.RESTConfig()
	ca := trusted.CAData
	if len(ca) == 0 {
		var err error
		if ca, err = os.ReadFile(trusted.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := newClient(env.URL(), token, pool)
	if err := c.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return env, c
}

// TestScenarios runs every scenario, briefly, on a server in this process.
func TestScenarios(t *testing.T) {
	env, c := inProcess(t, server.Config{})
	modules, err := env.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{client: c, process: process(os.Getpid()), modules: modules, load: load{
		workers: 2, objects: 600, held: 50, watchers: 3, turns: 1, duration: 200 * time.Millisecond, warmup: 20 * time.Millisecond, settle: time.Millisecond,
	}}
	table := newTable()
	ran := 0
	for _, sc := range scenarios() {
		if missing := build.Missing(t.Context(), build.C); sc.name == "guest-c" && missing != nil && os.Getenv("CI") == "" {
			t.Log(missing)
			continue
		}
		ran++
		r, err := sc.run(t.Context(), b)
		if err != nil {
			t.Fatalf("%s: %v", sc.name, err)
		}
		if r.value == 0 && r.p50 == 0 && sc.name != "held-rss" && sc.name != "held-heap" {
			t.Errorf("%s: nothing was measured: %+v", sc.name, r)
		}
		r.scenario = sc.name
		table.add("weir", r)
	}
	var out strings.Builder
	if err := table.write(&out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != ran+2 {
		t.Errorf("a table of %d lines:\n%s", lines, out.String())
	}
}

func TestTable(t *testing.T) {
	table := newTable()
	for _, value := range []float64{900, 100, 500} {
		table.add("kube-apiserver", result{scenario: "get", value: value, p50: time.Millisecond, p99: 3 * time.Millisecond})
	}
	table.add("weir", result{scenario: "get", value: 50, p50: time.Millisecond, p99: 2 * time.Millisecond})
	var out strings.Builder
	if err := table.write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "| get | 500 µs | 50 µs | 1/10.0 | 1/10 | 0 µs | 1.0, 3.0 ms | 1.0, 2.0 ms | 0.0 |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("table is\n%swant a last line of\n%s", out.String(), want)
	}
}
