package e2e_test

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server/servertest"
)

// patience bounds what another process does in answer, on a machine that has much else to do.
const patience = time.Minute

// TestKubectlWatch reads what `kubectl get --watch` prints while objects change.
func TestKubectlWatch(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	client, err := kubernetes.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched"}, Data: map[string]string{"n": "0"}}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), servertest.Kubectl(t), "get", "configmaps", "--watch", "--output-watch-events",
		"-o", `jsonpath={.type} {.object.metadata.name} {.object.data.n}{"\n"}`)
	command.Env = append(command.Environ(), "KUBECONFIG="+env.Kubeconfig(), "HOME="+t.TempDir())
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string, 100), make(chan error, 1) // room for all that it prints
	go func() {
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
		close(lines)
		ended <- command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // gone already when the test went well
		for range ended {
		}
	})
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if strings.TrimSpace(got) != want {
				t.Fatalf("kubectl printed %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("kubectl printed nothing, want %q", want)
		}
	}
	expect("ADDED watched 0")
	object.Data["n"] = "1"
	if _, err := maps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("MODIFIED watched 1")
	if err := maps.Delete(t.Context(), "watched", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("DELETED watched 1")

	// A server that drains ends the watch cleanly: kubectl exits and does not complain.
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("kubectl: %v", err)
		}
	case <-time.After(patience):
		t.Error("the watch of kubectl did not end with the server")
	}
}
