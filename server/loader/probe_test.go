package loader_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// warnings returns those of a new ConfigMap.
func (f *fixture) warnings(t testing.TB) string {
	t.Helper()
	body, err := configMap("probe", "").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	resp := f.do(t, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", body)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, text)
	}
	var texts []string
	for _, h := range resp.Header.Values("Warning") {
		_, text, _ := strings.Cut(h, `"`)
		texts = append(texts, strings.TrimSuffix(text, `"`))
	}
	return strings.Join(texts, ", ")
}

func (f *fixture) do(t testing.TB, method, path string, body []byte) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.URL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// metric returns the value of a series, 0 when there is none.
func (f *fixture) metric(t testing.TB, series string) float64 {
	t.Helper()
	resp := f.do(t, http.MethodGet, "/metrics", nil)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// eventually asks again and again until a question is answered with yes.
func eventually(t testing.TB, ask func() (ok bool, state any)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := ask()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it is still %v", state)
		}
	}
}

// loaded waits until so many modules are in memory.
func (f *fixture) loaded(t testing.TB, want float64) {
	t.Helper()
	eventually(t, func() (bool, any) {
		n := f.metric(t, "weir_modules_loaded")
		return n == want, n
	})
}

// refuses checks that writes of ConfigMaps fail with 503 and a reason, and that reads do not.
func (f *fixture) refuses(t testing.TB, reason string) {
	t.Helper()
	maps := f.client.Resource(configMaps).Namespace("default")
	if _, err := f.write(t, ""); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), reason) {
		t.Errorf("create: %v, want 503 with %q", err, reason)
	}
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("reads do not work: %v", err)
	}
	for i := range list.Items {
		obj := &list.Items[i]
		if _, err := maps.Get(t.Context(), obj.GetName(), metav1.GetOptions{}); err != nil {
			t.Errorf("get: %v", err)
		}
		obj.SetLabels(map[string]string{"changed": "yes"})
		if _, err := maps.Update(t.Context(), obj, metav1.UpdateOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("update: %v, want 503", err)
		}
		if err := maps.Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("delete: %v, want 503", err)
		}
	}
}

// event waits for an Event about an object whose message has a text.
func (f *fixture) event(t testing.TB, kind, name, text string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	eventually(t, func() (bool, any) {
		list, err := f.client.Resource(events).Namespace("default").List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",involvedObject.namespace="})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if message, _, _ := unstructured.NestedString(list.Items[i].Object, "message"); strings.Contains(message, text) {
				found = &list.Items[i]
				return true, nil
			}
		}
		return false, list.Items
	})
	return found
}
