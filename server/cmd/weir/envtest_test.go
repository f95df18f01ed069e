package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// executable writes a file that can be executed.
func executable(t *testing.T, file string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLinkAssets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names end in .exe")
	}
	bin := t.TempDir()
	kubectl := executable(t, filepath.Join(bin, "kubectl"))
	self, other := executable(t, filepath.Join(bin, "weir")), executable(t, filepath.Join(bin, "old-weir"))
	tests := []struct {
		name, path string
		before     func(dir string) error
		// links are what is in the directory afterwards; "": a file of its own.
		links             map[string]string
		wantErr, wantNote string
	}{
		{name: "fresh", path: bin, links: map[string]string{"kube-apiserver": self, "etcd": self, "kubectl": kubectl}},
		{name: "again", path: bin, before: func(dir string) error { return linkAssets(dir, other, os.Stderr) },
			links: map[string]string{"kube-apiserver": self, "etcd": self, "kubectl": kubectl}},
		{name: "no kubectl", path: t.TempDir(), links: map[string]string{"kube-apiserver": self, "etcd": self}, wantNote: "kubectl: there is none on the PATH"},
		{name: "a kubectl of its own", path: bin, before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "kubectl"), nil, 0o755) },
			links: map[string]string{"kube-apiserver": self, "etcd": self, "kubectl": ""}},
		{name: "hard links", path: bin, before: func(dir string) error { return os.Link(self, filepath.Join(dir, "etcd")) },
			links: map[string]string{"kube-apiserver": self, "etcd": "", "kubectl": kubectl}},
		{name: "downloaded assets", path: bin, before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "kube-apiserver"), nil, 0o755) },
			links: map[string]string{"kube-apiserver": ""}, wantErr: "kube-apiserver is there and is no link"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "below", "assets")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", tc.path)
			if tc.before != nil {
				if err := tc.before(dir); err != nil {
					t.Fatal(err)
				}
			}
			var notes bytes.Buffer
			err := linkAssets(dir, self, &notes)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
			if !strings.Contains(notes.String(), tc.wantNote) || tc.wantNote == "" && notes.Len() > 0 {
				t.Errorf("notes are %q, want %q", notes.String(), tc.wantNote)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != len(tc.links) {
				t.Errorf("got %v, %v; want %v", entries, err, tc.links)
			}
			for name, want := range tc.links {
				if got, _ := os.Readlink(filepath.Join(dir, name)); got != want {
					t.Errorf("%s is a link to %q, want %q", name, got, want)
				}
			}
		})
	}
}

// The kubectl of the PATH may be that of the directory: it is no link to itself.
func TestLinkAssetsOnPath(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	kubectl := executable(t, filepath.Join(bin, "kubectl"))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+bin)
	for range 2 {
		if err := linkAssets(dir, kubectl, os.Stderr); err != nil {
			t.Fatal(err)
		}
		if got, err := filepath.EvalSymlinks(filepath.Join(dir, "kubectl")); err != nil || got != kubectl {
			t.Fatalf("kubectl is %q, %v", got, err)
		}
	}
}

func TestEnvtestCommand(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // the default is below it
	if _, _, err := weir(t, "envtest", "one", "two"); err == nil {
		t.Error("takes two directories")
	}
	// The binary of a test is one that go run's way makes.
	if _, _, err := weir(t, "envtest", t.TempDir()); err == nil || !strings.Contains(err.Error(), "build weir first") {
		t.Errorf("got %v", err)
	}
	built := executable(t, filepath.Join(t.TempDir(), "weir"))
	if got, err := ownFile(func() (string, error) { return built, nil }); err != nil || got != built {
		t.Errorf("got %q, %v, want %q", got, err, built)
	}
	if got, err := assetsDir(nil); err != nil || filepath.Base(got) != "envtest" || !filepath.IsAbs(got) {
		t.Errorf("the default is %q, %v", got, err)
	}
	for word, want := range map[string]string{"/a/b-c": "/a/b-c", "/a b": "'/a b'", "/it's": `'/it'\''s'`} {
		if got := quoted(word); got != want {
			t.Errorf("%s is quoted as %s, want %s", word, got, want)
		}
	}
}

// TestCommandNamed is what the program is by its name.
func TestCommandNamed(t *testing.T) {
	for path, want := range map[string]string{
		"weir": "weir", "/opt/assets/kube-apiserver": "kube-apiserver", "./etcd": "etcd", "etcd.exe": "etcd", "/usr/bin/weir-2": "weir", "": "weir",
	} {
		if got := commandNamed(path).Name(); got != want {
			t.Errorf("%q is %s, want %s", path, got, want)
		}
	}
}

// TestCertDir says where files are.
func TestCertDir(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	for _, name := range []string{"apiserver.crt", "apiserver.key"} {
		executable(t, filepath.Join(with, name))
	}
	for _, tc := range []struct {
		name, args    string
		standIn       bool
		cert, dataDir string
	}{
		{"certificates", "--cert-dir=" + with, false, filepath.Join(with, "apiserver.crt"), "./weir-data"},
		{"and data", "--cert-dir=" + with, true, filepath.Join(with, "apiserver.crt"), filepath.Join(with, "weir")},
		{"data elsewhere", "--cert-dir=" + with + " --data-dir=/data", true, filepath.Join(with, "apiserver.crt"), "/data"},
		{"another certificate", "--tls-cert-file=x --tls-private-key-file=y --cert-dir=" + with, true, "x", filepath.Join(with, "weir")},
		{"none", "--cert-dir=" + without, true, "", filepath.Join(without, "weir")},
		{"no directory", "", true, "", "./weir-data"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			command, f := newServeCommand()
			f.standIn = tc.standIn
			if err := command.ParseFlags(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			f.completeFiles(command.Flags().Changed)
			if f.config.TLSCertFile != tc.cert || f.config.DataDir != tc.dataDir {
				t.Errorf("the certificate is %q and the data in %q, want %q and %q", f.config.TLSCertFile, f.config.DataDir, tc.cert, tc.dataDir)
			}
		})
	}
}
