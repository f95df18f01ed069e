package source_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir.dev/weir/host/source"
)

func TestParsePublicKeys(t *testing.T) {
	good := string(newKey(t, "P-256").public)
	tests := []struct{ name, text, want string }{
		{"one", good, ""},
		{"several", good + "\n" + string(newKey(t, "Ed25519").public) + string(newKey(t, "RSA").public), ""},
		{"none", " \n", "public key: there is none"},
		{"text", "key", "public key: not PEM: it begins with -----BEGIN PUBLIC KEY-----"},
		{"text behind it", good + "x", "public key: not PEM: it begins with -----BEGIN PUBLIC KEY-----"},
		{"another curve", string(newKey(t, "P-384").public), "public key: ECDSA on P-384, P-256 is wanted"},
		{"a private key", strings.ReplaceAll(good, "PUBLIC", "PRIVATE"), "public key: PEM has PRIVATE KEY, PUBLIC KEY is wanted"},
		{"many", strings.Repeat(good, 17), "public key: more than 16 keys"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := source.ParsePublicKeys([]byte(tc.text))
			if got := errorText(err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestVerifyDetached(t *testing.T) {
	module := wasm("signed")
	packed := gz(t, module)
	for _, kind := range []string{"P-256", "Ed25519", "RSA"} {
		t.Run(kind, func(t *testing.T) {
			k, other := newKey(t, kind), newKey(t, kind)
			mux := http.NewServeMux()
			mux.HandleFunc("/sig", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(k.sign(t, module) + "\n")) })
			mux.HandleFunc("/text", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("!")) })
			mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5000)) })
			s := httptest.NewServer(mux)
			t.Cleanup(s.Close)
			tampered := k.raw(t, module)
			tampered[len(tampered)-1] ^= 1
			tests := []struct {
				name string
				want source.Expectation
				err  string
				is   error
			}{
				{"nothing", source.Expectation{}, "", nil},
				{"the digest", source.Expectation{Digest: source.Digest(module)}, "", nil},
				{"another digest", source.Expectation{Digest: source.Digest(packed)}, "digest mismatch: the source has digest " + source.Digest(module), source.ErrDigest},
				{"a signature of the module", source.Expectation{Keys: k.keys(t), Signature: k.raw(t, module)}, "", nil},
				{"a signature of the file", source.Expectation{Keys: k.keys(t), Signature: k.raw(t, packed)}, "", nil},
				{"one that is fetched", source.Expectation{Keys: k.keys(t), SignatureURL: s.URL + "/sig"}, "", nil},
				{"a signature of something else", source.Expectation{Keys: k.keys(t), Signature: k.raw(t, []byte("x"))}, "signature is not valid: the detached signature is of other bytes or by another key", source.ErrSignature},
				{"another key", source.Expectation{Keys: other.keys(t), Signature: k.raw(t, module)}, "signature is not valid", source.ErrSignature},
				{"a tampered one", source.Expectation{Keys: k.keys(t), Signature: tampered}, "signature is not valid", source.ErrSignature},
				{"not base64", source.Expectation{Keys: k.keys(t), SignatureURL: s.URL + "/text"}, "signature: not base64", nil},
				{"one that is not there", source.Expectation{Keys: k.keys(t), SignatureURL: s.URL + "/none"}, "signature: get " + s.URL + "/none: the server says 404", nil},
				{"one that is too large", source.Expectation{Keys: k.keys(t), SignatureURL: s.URL + "/large"}, "signature: ", source.ErrTooLarge},
				{"none", source.Expectation{Keys: k.keys(t)}, "signature: none is given, and the source has none itself", nil},
			}
			from := source.Given("test", packed)
			a, err := from.Fetch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, tc := range tests {
				t.Run(tc.name, func(t *testing.T) {
					err := client(t, source.Config{}).Verify(t.Context(), from, a, &tc.want)
					if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
						t.Fatalf("error %v, want %q", err, tc.err)
					}
					if tc.is != nil && !errors.Is(err, tc.is) {
						t.Errorf("%v is not %v", err, tc.is)
					}
				})
			}
		})
	}
}

// cosign signs files with Ed25519ph.
func TestVerifyPrehashed(t *testing.T) {
	k, module := newKey(t, "Ed25519"), wasm("signed")
	sum := sha512.Sum512(module)
	signature, err := k.signer.Sign(rand.Reader, sum[:], &ed25519.Options{Hash: crypto.SHA512})
	if err != nil {
		t.Fatal(err)
	}
	from := source.Given("test", module)
	a, err := from.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &source.Expectation{Keys: k.keys(t), Signature: signature}
	if err := client(t, source.Config{}).Verify(t.Context(), from, a, want); err != nil {
		t.Error(err)
	}
}

func TestVerifyImage(t *testing.T) {
	r := plainRegistry(t)
	k, other := newKey(t, "P-256"), newKey(t, "P-256")
	both, err := source.ParsePublicKeys(append(append([]byte{}, other.public...), k.public...))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := source.Digest([]byte("another manifest"))
	tests := []struct {
		name string
		sign func(repository, digest string)
		keys *source.PublicKeys
		want string
	}{
		{"signed", func(repo, d string) {
			p := payload(repo, d)
			signature(t, repo, d, string(p), k.sign(t, p))
		}, k.keys(t), ""},
		{"signed by one of two keys", func(repo, d string) {
			p := payload(repo, d)
			signature(t, repo, d, string(p), k.sign(t, p))
		}, both, ""},
		{"signed by several", func(repo, d string) {
			p := payload(repo, d)
			signature(t, repo, d, string(p), other.sign(t, p), string(p)+" ", k.sign(t, append(p, ' ')))
		}, k.keys(t), ""},
		{"not signed", func(string, string) {}, k.keys(t), "has none (cosign's tag sha256-"},
		{"signed by another key", func(repo, d string) {
			p := payload(repo, d)
			signature(t, repo, d, string(p), other.sign(t, p))
		}, k.keys(t), "is signed by another key, or its signature was changed"},
		{"a tampered payload", func(repo, d string) {
			p := payload(repo, d)
			signature(t, repo, d, string(p)+" ", k.sign(t, p))
		}, k.keys(t), "is signed by another key, or its signature was changed"},
		{"a signature of another image", func(repo, d string) {
			p := payload(repo, elsewhere)
			signature(t, repo, d, string(p), k.sign(t, p))
		}, k.keys(t), "it is for the image " + elsewhere},
		{"a signature of something that is no image", func(repo, d string) {
			p := strings.Replace(string(payload(repo, d)), "cosign container image signature", "x", 1)
			signature(t, repo, d, p, k.sign(t, []byte(p)))
		}, k.keys(t), `what is signed is "x"`},
		{"a signature of a text", func(repo, d string) {
			signature(t, repo, d, "text", k.sign(t, []byte("text")))
		}, k.keys(t), "what is signed is not JSON"},
		{"an annotation that is not base64", func(repo, d string) {
			signature(t, repo, d, string(payload(repo, d)), "!")
		}, k.keys(t), "signature: not base64"},
		{"an image without signatures at the tag", func(repo, d string) {
			signature(t, repo, d)
		}, k.keys(t), "has none in the format of cosign's simple signing"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			repo := r.host + "/" + strings.ReplaceAll(tc.name, " ", "-")
			digest := writeImage(t, repo+":v1", layers(t, layer(wasm(tc.name), source.MediaTypeWasm)))
			tc.sign(repo, digest)
			c := client(t, source.Config{})
			image, err := c.Image(repo+":v1", source.ImageOptions{PlainHTTP: true})
			if err != nil {
				t.Fatal(err)
			}
			a, err := image.Fetch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = c.Verify(t.Context(), image, a, &source.Expectation{Keys: tc.keys})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !errors.Is(err, source.ErrSignature)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
