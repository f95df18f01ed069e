package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

func TestModulePushPullVerify(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Chdir(t.TempDir())
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	at := strings.TrimPrefix(s.URL, "http://")
	wasm := hosttest.NewGuest("tiny", abi.OpValidateCreate).Finish(nil)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"tiny.wasm": wasm, "text.wasm": []byte("text"), "broken.wasm": []byte("\x00asm"),
		"key.pub":  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"good.sig": []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(private, wasm)) + "\n"),
		"bad.sig":  []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte("x")))),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, _, err := weir(t, "module", "push", "tiny.wasm", at+"/team/tiny:v1", "--plain-http", "--annotation", "a=b", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var pushed transferred
	if err := json.Unmarshal([]byte(out), &pushed); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(pushed.Image, at+"/team/tiny@sha256:") || pushed.Digest != host.Digest(wasm) || pushed.Bytes != len(wasm) {
		t.Errorf("pushed %+v", pushed)
	}
	tests := []struct {
		name string
		args []string
		want string // in the output, or in the error if fails
		fail bool
	}{
		{"pull", []string{"pull", at + "/team/tiny:v1", "--plain-http"}, "file      tiny.wasm", false},
		{"pull by digest", []string{"pull", "oci://" + pushed.Image, "--plain-http", "-o", "again.wasm", "--digest", pushed.Digest}, pushed.Image, false},
		{"pull something else", []string{"pull", pushed.Image, "--plain-http", "-o", "other.wasm", "--digest", host.Digest(nil)}, "verify: digest mismatch", true},
		{"pull what is not signed", []string{"pull", pushed.Image, "--plain-http", "-o", "other.wasm", "--key", "key.pub"}, "has none (cosign's tag", true},
		{"pull what is not there", []string{"pull", at + "/nothing:v1", "--plain-http"}, "NAME_UNKNOWN", true},
		{"pull without a tag", []string{"pull", at + "/team/tiny", "--plain-http"}, "/team/tiny: give a tag, as in registry.example/team/quotes:v1", true},
		{"pull an address", []string{"pull", "https://registry.example/team/tiny:v1"}, "leave https:// out, as in registry.example", true},
		{"push to capitals", []string{"push", "tiny.wasm", at + "/Team/tiny:v1"}, "a repository has no capitals", true},
		{"push to no tag", []string{"push", "tiny.wasm", at + "/team/tiny:"}, "it is REGISTRY/REPOSITORY with :TAG", true},
		{"pull by plain http from elsewhere", []string{"pull", "a.example/tiny:v1", "--plain-http"}, "plain http is for loopback only", true},
		{"push a text", []string{"push", "text.wasm", at + "/team/tiny:v2", "--plain-http"}, "text.wasm: no server would load it", true},
		{"push what is broken", []string{"push", "broken.wasm", at + "/team/tiny:v2", "--plain-http"}, "broken.wasm: no server would load it", true},
		{"push nothing", []string{"push", "absent.wasm", at + "/team/tiny:v2", "--plain-http"}, "no such file", true},
		{"verify a file", []string{"verify", "tiny.wasm", "--key", "key.pub", "--signature", "good.sig"}, "signature is good", false},
		{"verify another file", []string{"verify", "./text.wasm", "--key", "key.pub", "--signature", "good.sig"}, "verify: signature is not valid", true},
		{"verify with another signature", []string{"verify", "tiny.wasm", "--key", "key.pub", "--signature", "bad.sig"}, "verify: signature is not valid", true},
		{"verify an image with a detached signature", []string{"verify", pushed.Image, "--plain-http", "--key", "key.pub", "--signature", "good.sig"}, pushed.Digest, false},
		{"verify an image that is not signed", []string{"verify", pushed.Image, "--plain-http", "--key", "key.pub"}, "has none (cosign's tag", true},
		{"verify without a key", []string{"verify", "tiny.wasm"}, "--key is required", true},
		{"verify without a signature", []string{"verify", "tiny.wasm", "--key", "key.pub"}, "give --signature", true},
		{"verify with a key that is none", []string{"verify", "tiny.wasm", "--key", "good.sig", "--signature", "good.sig"}, "--key good.sig: public key: not PEM", true},
		{"verify what is neither", []string{"verify", "absent", "--key", "key.pub"}, `absent is no file, and image "absent" names no registry`, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out, _, err := weir(t, append([]string{"module"}, tc.args...)...)
			if tc.fail {
				out = ""
				if err != nil {
					out = err.Error()
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, tc.want) {
				t.Errorf("got %q, want %q", out, tc.want)
			}
		})
	}
	for _, name := range []string{"tiny.wasm", "again.wasm"} {
		if data, err := os.ReadFile(name); err != nil || host.Digest(data) != pushed.Digest {
			t.Errorf("%s: %v, %s", name, err, host.Digest(data))
		}
	}
	if left, _ := filepath.Glob("*other.wasm*"); len(left) > 0 {
		t.Errorf("what was refused is there: %v", left)
	}
}
