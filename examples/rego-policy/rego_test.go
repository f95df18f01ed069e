package rego_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/servertest/tools"
)

// bundle packs a directory as tar -czf does.
func bundle(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPolicyHasTheText compares the text in policy.yaml with the file that the README compiles.
func TestPolicyHasTheText(t *testing.T) {
	text, err := os.ReadFile("exposure.rego")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Spec struct {
			Rego struct {
				Source string `json:"source"`
			} `json:"rego"`
		} `json:"spec"`
	}
	first, _, _ := strings.Cut(string(data), "---\n")
	if err := yaml.Unmarshal([]byte(first), &policy); err != nil {
		t.Fatal(err)
	}
	if policy.Spec.Rego.Source != string(text) {
		t.Errorf("policy.yaml has\n%s\nexposure.rego\n%s", policy.Spec.Rego.Source, text)
	}
}

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	env := servertest.Start(t, servertest.Options{})
	modules, err := env.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	weir := filepath.Join(t.TempDir(), "weir")
	if err := tools.BuildWeir(t.Context(), weir); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), weir, "module", "build", "exposure.rego", "-o", filepath.Join(modules, "exposure.wasm")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "admitValidate") {
		t.Fatalf("%v\n%s", err, out)
	}
	packed := bundle(t, "bundle")
	sum := sha256.Sum256(packed)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	patch := func(command, spec string) servertest.Typed {
		return servertest.Typed{Command: "kubectl patch policy exposure --type=merge -p " + command,
			Args: []string{"patch", "policy", "exposure", "--type=merge", "-p", `{"spec":` + spec + `}`}}
	}
	refuses := func(typed servertest.Typed, says ...string) servertest.Typed {
		typed.Fails, typed.Says = true, says
		return typed
	}
	create := servertest.Typed{Command: "kubectl create -f service.yaml", Args: []string{"create", "-f", "service.yaml"}}
	open := filepath.Join(t.TempDir(), "open.yaml")
	mistake := `{"rego":{"source":"package exposure\n\ndeny contains msg if {\n  input.object.spec.typ\n}\n"}}`
	zeros := `{"rego":{"digest":"sha256:` + strings.Repeat("0", 64) + `"}}`
	servertest.TypeReadme(t, env, []servertest.Typed{
		{Command: "kubectl apply -f policy.yaml", Args: []string{"apply", "-f", "policy.yaml"}},
		refuses(create, "Policy 'exposure' with binding 'exposure' denied request: a service of type NodePort is open to the world"),
		refuses(patch(`'{"spec":`+mistake+`}'`, mistake), "var msg is unsafe"),
		patch(`'{"spec":{"rego":{"source":null,"bundle":"'$(base64 -w0 bundle.tar.gz)'","digest":"sha256:'$(sha256sum bundle.tar.gz | cut -d' ' -f1)'"}}}'`,
			`{"rego":{"source":null,"bundle":"`+base64.StdEncoding.EncodeToString(packed)+`","digest":"`+digest+`"}}`),
		refuses(create, "Policy 'exposure' with binding 'exposure' denied request: team none may not open a service of type NodePort"),
		{Command: "kubectl get policy exposure -o jsonpath='{.status.digest}'", Args: []string{"get", "policy", "exposure", "-o", "jsonpath={.status.digest}"}, Says: []string{digest}, Until: true},
		refuses(patch(`'{"spec":`+zeros+`}'`, zeros), "bundle: digest is sha256:"),
		{Command: "kubectl apply -f module.yaml", Args: []string{"apply", "-f", "module.yaml"}},
		{Command: "kubectl wait --for=condition=Ready module/exposure --timeout=60s", Args: []string{"wait", "--for=condition=Ready", "module/exposure", "--timeout=60s"}},
		patch(`'{"spec":{"rego":null,"wasm":{"module":"exposure"}}}'`, `{"rego":null,"wasm":{"module":"exposure"}}`),
		refuses(create, "Policy 'exposure' with binding 'exposure' denied request: a service of type NodePort is open to the world"),
		{Command: "kubectl annotate -f service.yaml --local -o yaml example.com/open=true > open.yaml",
			Args: []string{"annotate", "-f", "service.yaml", "--local", "-o", "yaml", "example.com/open=true"}, Says: []string{`example.com/open: "true"`}, Writes: open},
		{Command: "kubectl create -f open.yaml", Args: []string{"create", "-f", open}, Says: []string{"created"}},
	})
}
