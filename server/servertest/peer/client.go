package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// definition is the kind that is measured: a structural schema of 22 fields, with lists of all types and no rules.
//
//go:embed testdata/widgets.json
var definition []byte

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgets     = "/apis/peer.weir.dev/v1/namespaces/peer/widgets"
	// connections that the workers share.
	connections = 4

	typeJSON  = "application/json"
	typeMerge = "application/merge-patch+json"
	typeApply = "application/apply-patch+yaml"
)

// client speaks JSON to a server over HTTP/2 and TLS.
type client struct {
	url, token string
	config     *tls.Config
	clients    []*http.Client
}

func newClient(url, token string, ca *x509.CertPool) *client {
	c := &client{url: url, token: token, config: &tls.Config{RootCAs: ca}}
	for range connections {
		c.clients = append(c.clients, c.connection())
	}
	return c
}

// connection returns a client with connections of its own.
func (c *client) connection() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c.config.Clone(), ForceAttemptHTTP2: true, DisableCompression: true}}
}

// statusError is an answer that is none of 2xx.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %.300s", e.code, e.text) }

func (c *client) request(ctx context.Context, method, path, contentType string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set("Accept", typeJSON)
	r.Header.Set("Authorization", "Bearer "+c.token)
	return r, nil
}

// do sends a request as one of the workers, and puts the answer into into, which may be nil.
func (c *client) do(ctx context.Context, worker int, method, path, contentType string, body []byte, into *bytes.Buffer) error {
	r, err := c.request(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	response, err := c.clients[worker%len(c.clients)].Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(response.Body)
		return &statusError{response.StatusCode, string(text)}
	}
	if into == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	into.Reset()
	_, err = into.ReadFrom(response.Body)
	return err
}

// prepare makes the kind and a namespace, and waits until objects can be made.
func (c *client) prepare(ctx context.Context) error {
	for path, body := range map[string][]byte{
		definitions: definition, "/api/v1/namespaces": []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"peer"}}`),
	} {
		if err := c.do(ctx, 0, http.MethodPost, path, typeJSON, body, nil); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		err := c.do(ctx, 0, http.MethodPost, widgets, typeJSON, widget("first", 0, 0), nil)
		var status *statusError
		if !errors.As(err, &status) || status.code != http.StatusNotFound || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ensure makes objects prefix-0 and so on, where they are not there.
func (c *client) ensure(ctx context.Context, prefix string, n int) error {
	var wait sync.WaitGroup
	errs := make(chan error, connections*4)
	for worker := range cap(errs) {
		wait.Go(func() {
			for i := worker; i < n; i += cap(errs) {
				err := c.do(ctx, worker, http.MethodPost, widgets, typeJSON, widget(fmt.Sprintf("%s-%d", prefix, i), i, 0), nil)
				var status *statusError
				if err != nil && !(errors.As(err, &status) && status.code == http.StatusConflict) {
					errs <- err
					return
				}
			}
		})
	}
	wait.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// clear deletes all objects. Many of them take longer than a request may.
func (c *client) clear(ctx context.Context) error {
	for tries := 1; ; tries++ {
		if err := c.do(ctx, 0, http.MethodDelete, widgets, "", nil, nil); err == nil || ctx.Err() != nil || tries == 10 {
			return err
		}
	}
}

// filler is text that does not compress well.
func filler(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for x := uint32(12345); b.Len() < n; {
		x = x*1664525 + 1013904223
		b.WriteByte(letters[(x>>16)%uint32(len(letters))])
	}
	return b.String()
}

// widget is an object of 2 KiB.
func widget(name string, i, seq int) []byte {
	text := filler(1100)
	return fmt.Appendf(nil, `{"apiVersion":"peer.weir.dev/v1","kind":"Widget","metadata":{"name":%q,"labels":{"app":"peer","shard":"s%d"},"annotations":{"peer.weir.dev/note":%q}},`+
		`"spec":{"title":"Widget number %d","owner":"team-%d.example","description":%q,"replicas":3,"seq":%d,"paused":false,"weight":0.5,`+
		`"image":"registry.example/team/widget:v1.%d","tier":"silver","schedule":"*/5 * * * *","timeoutSeconds":60,`+
		`"labels":{"app":"widget","shard":"s%d","zone":"z%d"},"args":["--alpha=1","--beta=two","--verbose"],"notes":["first note","second note"],`+
		`"env":[{"name":"A","value":"1"},{"name":"B","value":"two"},{"name":"C","value":%q}],`+
		`"ports":[{"name":"http","port":8080,"protocol":"TCP"},{"name":"metrics","port":9090,"protocol":"TCP"}],`+
		`"resources":{"cpu":"250m","memory":"128Mi"},"strategy":{"type":"Rolling","maxSurge":1,"maxUnavailable":"25%%"},`+
		`"selector":{"matchLabels":{"app":"widget"}},"startAfter":"2026-01-01T00:00:00Z","checksum":%q,"payload":%q}}`,
		name, i%16, text[:100], i, i%50, text[:300], seq, i%100, i%16, i%3, text[300:320], text[400:464], text[500:])
}
