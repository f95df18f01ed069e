package endpoints

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// TestTypedClientSpeaksProtobuf is how kubectl creates and how controller-runtime writes.
func TestTypedClientSpeaksProtobuf(t *testing.T) {
	w := newWorld(t, Config{})
	config := &restclient.Config{Host: w.URL}
	config.ContentType = mediaTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	created, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Spec.Containers[0].Image = "j"
	updated, err := pods.Update(t.Context(), created, metav1.UpdateOptions{})
	if err != nil || updated.Spec.Containers[0].Image != "j" {
		t.Fatalf("%v: %v", updated, err)
	}
	uid := updated.UID
	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Error(err)
	}
}

func TestProtobufGarbage(t *testing.T) {
	w := newWorld(t, Config{})
	header := "Content-Type: " + mediaTypeProtobuf
	bodies := map[string]string{
		"no magic":  "hello",
		"empty":     "k8s\x00",
		"truncated": "k8s\x00\n\x0c\n\x02v1\x12\x03Pod\x12\x7f",
		"noise":     "k8s\x00" + string(bytes.Repeat([]byte{0xff}, 100)),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			if got := w.do(t, "POST", "/api/v1/namespaces/default/pods", body, header); got.code != 400 {
				t.Errorf("create: %d %s", got.code, got.body)
			}
			if got := w.do(t, "DELETE", "/api/v1/namespaces/default/pods/p", body, header); got.code != 400 && name != "empty" {
				t.Errorf("delete: %d %s", got.code, got.body)
			}
		})
	}
	if got := w.do(t, "POST", widgetsPath, "k8s\x00", header); got.code != 415 {
		t.Errorf("custom resource: %d %s", got.code, got.body)
	}
}
