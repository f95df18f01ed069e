package audit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/plugin/pkg/audit/buffered"

	"weir.dev/weir/server/audit"
)

// TestModes: what becomes of a request whose event cannot be written, and when events are in the file.
func TestModes(t *testing.T) {
	full := "/dev/full" // takes no byte
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	tests := []struct {
		mode string
		goes bool
	}{{audit.ModeBlocking, true}, {audit.ModeBlockingStrict, false}, {audit.ModeBatch, true}}
	for _, tc := range tests {
		t.Run(tc.mode, func(t *testing.T) {
			policy := policyFile(t, "- level: Metadata\n")
			lost := open(t, audit.Config{PolicyFile: policy, Log: audit.LogConfig{Path: full, Delivery: audit.Delivery{Mode: tc.mode}}})
			r, attributes := request(t, http.MethodGet)
			ctx, event := lost.Begin(r, attributes)
			if event.Received(ctx) != tc.goes {
				t.Errorf("the request goes on: %v", !tc.goes)
			}
			log := filepath.Join(t.TempDir(), "audit.log")
			a := open(t, audit.Config{PolicyFile: policy, Log: audit.LogConfig{Path: log, MaxSize: 1, Delivery: audit.Delivery{Mode: tc.mode}}})
			for range 100 {
				r, attributes := request(t, http.MethodGet)
				ctx, event := a.Begin(r, attributes)
				if !event.Received(ctx) {
					t.Fatal("not received")
				}
				event.Complete(ctx, false)
			}
			if err := a.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(t.Context()); err != nil {
				t.Errorf("closed again: %v", err)
			}
			if got := len(readEvents(t, log)["id"]); got != 200 {
				t.Errorf("%d events in the file after Close", got)
			}
		})
	}
	metrics, err := audit.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range metrics {
		for _, m := range f.GetMetric() {
			values[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	for _, name := range []string{"event_total", "error_total", "level_total", "requests_rejected_total"} {
		if values["apiserver_audit_"+name] == 0 {
			t.Errorf("apiserver_audit_%s is 0, of %v", name, values)
		}
	}
}

// TestRotation: a log that is full gets a name with a timestamp and is compressed; no event is lost.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	a := open(t, audit.Config{PolicyFile: policyFile(t, "- {level: RequestResponse, omitStages: [RequestReceived]}\n"),
		Log: audit.LogConfig{Path: log, MaxSize: 1, MaxBackups: 5, Compress: true}})
	big := []byte(`{"a":"` + strings.Repeat("x", 300<<10) + `"}`)
	const requests = 8
	for range requests {
		r, attributes := request(t, http.MethodGet)
		ctx, event := a.Begin(r, attributes)
		event.Answer(ctx, [][]byte{big})
		event.Complete(ctx, false)
	}
	named := func(pattern string) []string {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for len(named("audit-*.log.gz")) < 2 || len(named("audit-*.log")) > 0 {
		select {
		case <-tick.C: // it is compressed beside the requests
		case <-end:
			t.Fatal("nothing is compressed")
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(named("audit-*.gz"), log) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			zip, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(zip); err != nil {
				t.Fatal(err)
			}
		}
		found += bytes.Count(text, []byte("\n"))
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if found != requests {
		t.Errorf("%d events in %v", found, named("*"))
	}
}

// webhookConfig is the kubeconfig of a service.
func webhookConfig(url string) string {
	return `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "` + url + `"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`
}

// TestWebhook: events are sent in batches, and what waits is sent at the end.
func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list struct {
			Kind, APIVersion string
			Items            []struct{ Stage string }
		}
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil || list.Kind != "EventList" || list.APIVersion != "audit.k8s.io/v1" {
			http.Error(w, "no list", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, item := range list.Items {
			got = append(got, item.Stage)
		}
	}))
	defer service.Close()
	kubeconfig := write(t, "webhook.yaml", webhookConfig(service.URL))
	a := open(t, audit.Config{PolicyFile: policyFile(t, "- level: Metadata\n"), Webhook: audit.WebhookConfig{ConfigFile: kubeconfig}})
	r, attributes := request(t, http.MethodGet)
	ctx, event := a.Begin(r, attributes)
	if !event.Received(ctx) {
		t.Fatal("not received")
	}
	event.Complete(ctx, false)
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(got) // two batches may be sent at once
	if text := strings.Join(got, " "); text != "RequestReceived ResponseComplete" {
		t.Errorf("sent %q", text)
	}
}

// TestWaiting: while a service does not answer, the events that wait are bounded in number and in bytes.
func TestWaiting(t *testing.T) {
	held := make(chan struct{})
	free := sync.OnceFunc(func() { close(held) })
	var mu sync.Mutex
	whole, cut := 0, 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-held
		var list struct{ Items []event }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range list.Items {
			annotations, _ := e["annotations"].(map[string]any)
			switch {
			case e["responseObject"] != nil:
				whole++
			case annotations["audit.k8s.io/truncated"] == "true":
				cut++
			}
		}
	}))
	defer service.Close()
	defer free()
	kubeconfig := write(t, "webhook.yaml", webhookConfig(service.URL))
	a := open(t, audit.Config{PolicyFile: policyFile(t, "- {level: RequestResponse, omitStages: [RequestReceived]}\n"), Webhook: audit.WebhookConfig{
		ConfigFile: kubeconfig, Delivery: audit.Delivery{Batch: buffered.BatchConfig{BufferSize: 20, MaxBatchSize: 1}}}})
	big := []byte(`{"a":"` + strings.Repeat("x", 8<<20) + `"}`)
	for range 30 {
		r, attributes := request(t, http.MethodGet)
		ctx, event := a.Begin(r, attributes)
		event.Answer(ctx, [][]byte{big})
		event.Complete(ctx, false)
	}
	free()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if whole != 7 || cut != 13 { // of 64 MiB, and of 20
		t.Errorf("%d events with their objects and %d without", whole, cut)
	}
}

// TestCloseInTime: a service that does not answer does not hold the end of a server up.
func TestCloseInTime(t *testing.T) {
	held := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer service.Close()
	defer close(held)
	kubeconfig := write(t, "webhook.yaml", webhookConfig(service.URL))
	a := open(t, audit.Config{PolicyFile: policyFile(t, "- level: Metadata\n"), Webhook: audit.WebhookConfig{ConfigFile: kubeconfig}})
	r, attributes := request(t, http.MethodGet)
	ctx, event := a.Begin(r, attributes)
	event.Complete(ctx, false)
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := a.Close(bounded); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
