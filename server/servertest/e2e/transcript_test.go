package e2e_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"weir.dev/weir/server/servertest"
)

var rewrite = flag.Bool("rewrite", false, "write what commands print into the transcripts")

// step is a command of a transcript and what came of it.
type step struct {
	comment string // lines before the command, as they are
	command string
	output  string // normalised, with [exit N] when N is not 0
}

// exitCode returns the [exit N] of a step's output, "" when it succeeded.
func exitCode(output string) string {
	return regexp.MustCompile(`\[exit \d+\]\n$`).FindString(output)
}

// differs marks, in the comment of a step, what older clients print otherwise: of theirs the exit code is compared.
const differs = "# Differs: "

// parseTranscript reads steps: comments (#) and empty lines, "$ command", output.
func parseTranscript(text string) []step {
	var steps []step
	comment := ""
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{comment: comment, command: strings.TrimSpace(line[2:])})
			comment = ""
		case strings.HasPrefix(line, "# ") || line == "\n" || len(steps) == 0:
			comment += line // or an empty line of the output, when output follows
		default:
			last := &steps[len(steps)-1]
			last.output += comment + line
			comment = ""
		}
	}
	return steps
}

func formatTranscript(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s$ %s\n%s", s.comment, s.command, s.output)
	}
	return b.String()
}

// normal replaces what differs from run to run.
var normal = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`(resourceVersion\\?"?:\s*\\?")\d+`), "${1}RV"},
	{regexp.MustCompile(`(\S\s+)(\d+m\d+s|\d+[ms])(\s|$)`), "${1}AGE$3"}, // 2m is 2m0s
	{regexp.MustCompile(`/\S*/(LIVE|MERGED)-\d+/`), "$1/"},
	{regexp.MustCompile(`(Resource Version:\s+)\d+`), "${1}RV"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=DIGEST"},
	{regexp.MustCompile(`https://127\.0\.0\.1:\d+`), "URL"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	// Since kubectl 1.33 a deletion names the namespace.
	{regexp.MustCompile(`" deleted from \S+ namespace`), `" deleted`},
	{regexp.MustCompile(`[ \t]+$`), ""},
}

func normalise(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		// A kubectl that is much older or newer than the server says so.
		if strings.HasPrefix(line, "WARNING: version difference") {
			continue
		}
		for _, n := range normal {
			line = n.pattern.ReplaceAllString(line, n.with)
		}
		b.WriteString(line + "\n")
	}
	if out := strings.TrimRight(b.String(), "\n"); out != "" {
		return out + "\n"
	}
	return ""
}

// shell runs commands with a kubectl in front of PATH, in a namespace.
type shell struct {
	dir string
	env []string
}

// newShell prepares a namespace that is named as the transcript.
func newShell(t *testing.T, env *servertest.Environment, kubectl, namespace string) *shell {
	t.Helper()
	config, err := clientcmd.LoadFromFile(env.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kubectl, filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Abs("testdata/kubectl/files")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &shell{dir: files, env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C")}
}

// run returns what a command printed, its error stream after its output, and [exit N].
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir, c.Env, c.Stdout, c.Stderr = s.dir, s.env, &stdout, &stderr
	err := c.Run()
	out := stdout.String()
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	out = normalise(out + stderr.String())
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		out += fmt.Sprintf("[exit %d]\n", exit.ExitCode())
	case err != nil:
		t.Fatal(err)
	}
	return out
}

// TestKubectl runs the transcripts with each kubectl there is. They are written by that of tools.KubectlVersion.
func TestKubectl(t *testing.T) {
	files, err := filepath.Glob("testdata/kubectl/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: %v, %v", files, err)
	}
	tests := []struct {
		name    string
		kubectl func(testing.TB) string
	}{
		{"module", servertest.KubectlModule},
		{"path", func(t testing.TB) string {
			path, err := exec.LookPath("kubectl")
			if err != nil {
				t.Skip("no kubectl on PATH")
			}
			return path
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kubectl := tc.kubectl(t)
			env := servertest.Start(t, servertest.Options{})
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".txt")
				t.Run(name, func(t *testing.T) {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					want := parseTranscript(string(text))
					sh := newShell(t, env, kubectl, name)
					got := make([]step, len(want))
					for i, s := range want {
						got[i] = step{s.comment, s.command, sh.run(t, s.command)}
					}
					if *rewrite && tc.name == "module" {
						if err := os.WriteFile(file, []byte(formatTranscript(got)), 0o644); err != nil {
							t.Fatal(err)
						}
						return
					}
					for i := range got {
						if tc.name != "module" && strings.Contains(want[i].comment, differs) {
							if w, g := exitCode(want[i].output), exitCode(got[i].output); w != g {
								t.Errorf("$ %s\n%swant %q", want[i].command, got[i].output, w)
							}
							continue
						}
						if diff := cmp.Diff(want[i].output, got[i].output); diff != "" {
							t.Errorf("$ %s\n(-want +got)\n%s", want[i].command, diff)
						}
					}
				})
			}
		})
	}
}
