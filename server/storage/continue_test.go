package storage

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestContinue(t *testing.T) {
	token, err := NextPage("/registry/configmaps/default/a", "/registry/configmaps/", 42)
	if err != nil {
		t.Fatal(err)
	}
	// Upstream's form, which its clients keep across servers.
	if want := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":42,"start":"default/a\u0000"}`)); token != want {
		t.Errorf("got token %q, want %q", token, want)
	}
	key, rv, err := DecodeContinue(token, "/registry/configmaps/")
	if err != nil || key != "/registry/configmaps/default/a\x00" || rv != 42 {
		t.Errorf("got %q at %d, %v", key, rv, err)
	}
	// Below another prefix it stays there.
	key, _, err = DecodeContinue(token, "/registry/secrets/")
	if err != nil || !strings.HasPrefix(key, "/registry/secrets/") {
		t.Errorf("got %q, %v", key, err)
	}
	for _, key := range []string{"/registry/configmaps/", "/registry/secrets/a", ""} {
		if token, err := EncodeContinue(key, "/registry/configmaps/", 1); err == nil {
			t.Errorf("key %q: got token %q, want an error", key, token)
		}
	}
}

func FuzzDecodeContinue(f *testing.F) {
	f.Add(`{"v":"meta.k8s.io/v1","rv":42,"start":"default/a\u0000"}`)
	f.Add(`{"v":"meta.k8s.io/v1","rv":-1,"start":"../a"}`)
	f.Fuzz(func(t *testing.T, text string) {
		const prefix = "/registry/configmaps/default/"
		key, rv, err := DecodeContinue(base64.RawURLEncoding.EncodeToString([]byte(text)), prefix)
		if err != nil {
			if CodeOf(err) != ErrCodeBadContinue {
				t.Errorf("got error %v", err)
			}
			return
		}
		if !strings.HasPrefix(key, prefix) || strings.Contains(key, "/../") || (rv < 1 && rv != InconsistentContinue) {
			t.Errorf("got %q at %d", key, rv)
		}
	})
}
