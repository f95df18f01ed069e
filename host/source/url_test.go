package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/weir/host/source"
)

func TestCheckURL(t *testing.T) {
	tests := []struct{ name, url, want string }{
		{"https", "https://example.com/m.wasm?v=1", ""},
		{"loopback", "http://127.0.0.1:80/m.wasm", ""},
		{"loopback v6", "http://[::1]/m.wasm", ""},
		{"localhost", "http://localhost/m.wasm", ""},
		{"plain", "http://example.com/m.wasm", "must be https: plain http is for loopback only"},
		{"a name that begins like loopback", "http://127.0.0.1.example.com/", "must be https: plain http is for loopback only"},
		{"a password", "https://a:b@example.com/", "must not have credentials"},
		{"file", "file:///etc/passwd", "must be https://HOST/PATH"},
		{"ftp", "ftp://example.com/x", "must be https, not ftp"},
		{"nothing", "", "must be https://HOST/PATH"},
		{"a broken one", "https://a:b@exa mple/", "not a URL: invalid character \" \" in host name"},
		{"a fragment", "https://example.com/#x", "must not have a fragment"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := source.CheckURL(tc.url); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestURL(t *testing.T) {
	const limit = 1000
	module := wasm("url")
	bomb := gz(t, make([]byte, 200<<10)) // less than limit packed
	var sent atomic.Int64
	mux := http.NewServeMux()
	serve := func(path string, data []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" || r.UserAgent() != "weir" {
				t.Errorf("headers %v", r.Header)
			}
			_, _ = w.Write(data)
		})
	}
	serve("/module", module)
	serve("/packed", gz(t, module))
	serve("/bomb", bomb)
	serve("/broken-gzip", gz(t, module)[:20])
	mux.HandleFunc("/truncated", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(module)+1))
		_, _ = w.Write(module)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1001")
		_, _ = w.Write(make([]byte, 1001))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			n, err := w.Write(make([]byte, 1<<10))
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/hops/", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/hops/"))
		if n == 0 {
			_, _ = w.Write(module)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/hops/%d?secret=x", n-1), http.StatusFound)
	})
	plain := httptest.NewServer(mux)
	t.Cleanup(plain.Close)
	mux.HandleFunc("/to-http", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/module?secret=x", http.StatusFound)
	})
	secure := quiet(httptest.NewUnstartedServer(mux))
	secure.StartTLS()
	t.Cleanup(secure.Close)

	tests := []struct{ name, url, want string }{
		{"a module", secure.URL + "/module", ""},
		{"a module with gzip", secure.URL + "/packed", ""},
		{"plain http on loopback", plain.URL + "/module", ""},
		{"some redirects", secure.URL + "/hops/5", ""},
		{"many redirects", secure.URL + "/hops/6", "more than 5 redirects"},
		{"a redirect to plain http", secure.URL + "/to-http", "a redirect to plain http is not followed"},
		{"a redirect from plain http to plain http", plain.URL + "/hops/1", "a redirect to plain http is not followed"},
		{"not there", secure.URL + "/nothing?secret=x", "/nothing: the server says 404 Not Found"},
		{"truncated", secure.URL + "/truncated", "unexpected EOF"},
		{"too large by its length", secure.URL + "/large", "too large: 1001 bytes, more than 1000"},
		{"too large without a length", secure.URL + "/endless", "too large"},
		{"a gzip bomb", secure.URL + "/bomb", "gzip: unpacked: too large: more than 1000 bytes"},
		{"half of a gzip", secure.URL + "/broken-gzip", "gzip: unpacked: unexpected EOF"},
		{"a server that hangs", secure.URL + "/hang", "context deadline exceeded"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := source.Config{MaxBytes: limit}
			if strings.HasSuffix(tc.url, "/hang") {
				cfg.Timeout = 50 * time.Millisecond
			}
			from, err := trusting(t, secure, cfg).URL(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			a, err := from.Fetch(t.Context())
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("a query is in %v", err)
				}
				if strings.Contains(tc.want, "too large") != errors.Is(err, source.ErrTooLarge) {
					t.Errorf("%v is ErrTooLarge: %v", err, errors.Is(err, source.ErrTooLarge))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Module, module) || a.Digest != source.Digest(module) || a.Image != "" {
				t.Errorf("got %q, %s, %s", a.Module, a.Digest, a.Image)
			}
		})
	}
	if n := sent.Load(); n > 16<<20 {
		t.Errorf("%d bytes of an endless answer were sent", n)
	}
	t.Run("an authority that is not trusted", func(t *testing.T) {
		from, err := client(t, source.Config{}).URL(secure.URL + "/module")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no proxy of the environment", func(t *testing.T) {
		t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
		t.Setenv("NO_PROXY", "")
		from, err := trusting(t, secure, source.Config{}).URL(secure.URL + "/module")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.Fetch(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
