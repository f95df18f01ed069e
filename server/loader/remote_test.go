package loader_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/host"
	"weir.dev/weir/host/source"
	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/servertest/tools"
)

// soon is how often a source is asked again in tests.
const soon = 50 * time.Millisecond

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// place is an HTTP server that goes away and comes back at the same address.
type place struct {
	handler http.Handler
	address string
	server  *http.Server
}

func newPlace(t testing.TB, handler http.Handler) *place {
	t.Helper()
	port, err := tools.FreePort() // one that nobody is given while it is away
	if err != nil {
		t.Fatal(err)
	}
	p := &place{handler: handler, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	p.open(t)
	t.Cleanup(func() { p.close(t) })
	return p
}

func (p *place) open(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.server = &http.Server{Handler: p.handler, ReadHeaderTimeout: patience}
	go func() { _ = p.server.Serve(listener) }() // ends with close
}

func (p *place) close(t testing.TB) {
	t.Helper()
	if err := p.server.Close(); err != nil {
		t.Error(err)
	}
}

// leave closes it when all requests are answered: who asks from then on is refused the connection.
func (p *place) leave(t testing.TB) {
	t.Helper()
	if err := p.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func newRegistry() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

// push writes a module to a registry by plain http.
func push(t testing.TB, ref string, wasm []byte) (pinned string) {
	t.Helper()
	client, err := source.NewClient(source.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	image, err := client.Image(ref, source.ImageOptions{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	if pinned, err = image.Push(t.Context(), wasm, "", nil); err != nil {
		t.Fatal(err)
	}
	return pinned
}

func startFetching(t testing.TB, caFile string) *fixture {
	t.Helper()
	env := servertest.Start(t, servertest.Options{Config: server.Config{
		ModuleSources: server.ModuleSourceConfig{CAFile: caFile, RefetchInterval: soon}}})
	return &fixture{env, connect(t, env)}
}

// is waits until a condition of a module has a reason.
func (f *fixture) is(t testing.TB, module, kind, reason string) metav1.Condition {
	t.Helper()
	return condition(f.until(t, f.client.Resource(modules), module, func(obj *unstructured.Unstructured) bool {
		return condition(obj, kind).Reason == reason
	}), kind)
}

func TestImageSource(t *testing.T) {
	r := newPlace(t, newRegistry())
	ref := r.address + "/team/stamp:v1"
	f := startFetching(t, "")
	f.put(t, modules, module("stamp", map[string]any{"oci": map[string]any{"image": ref, "plainHTTP": true}}))
	if c := condition(f.settled(t, modules, "stamp"), "Fetched"); c.Reason != "FetchFailed" || !strings.Contains(c.Message, "fetch: ") || !strings.Contains(c.Message, "NAME_UNKNOWN") {
		t.Errorf("Fetched is %+v", c)
	}
	pinned := push(t, ref, stamp("v001"))
	f.inForce(t, "stamp", stamp("v001"))
	got := f.settled(t, modules, "stamp")
	if image, _, _ := unstructured.NestedString(got.Object, "status", "image"); image != pinned {
		t.Errorf("status.image is %q, want %q", image, pinned)
	}
	if c := condition(got, "Fetched"); c.Message != "from "+pinned {
		t.Errorf("Fetched is %+v", c)
	}
	if c := condition(got, "Verified"); c.Status != metav1.ConditionTrue || c.Message != "neither a digest nor a signature is asked for" {
		t.Errorf("Verified is %+v", c)
	}
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	// New content of the tag is picked up; what is bad is not.
	push(t, ref, stamp("v002"))
	f.inForce(t, "stamp", stamp("v002"))
	push(t, ref, []byte("\x00asm, and not a module"))
	f.lastKnownGood(t, stamp("v002"))
	if c := f.is(t, "stamp", "Compiled", "CompileFailed"); c.Status != metav1.ConditionFalse {
		t.Errorf("Compiled is %+v", c)
	}
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves, want v002", v)
	}
	push(t, ref, stamp("v003"))
	f.inForce(t, "stamp", stamp("v003"))
	// A registry that is away is told of, and changes nothing.
	r.leave(t)
	if c := f.is(t, "stamp", "Fetched", "SourceAway"); !strings.Contains(c.Message, "connection refused") {
		t.Errorf("Fetched is %+v", c)
	}
	if c := condition(f.settled(t, modules, "stamp"), "Ready"); c.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %+v", c)
	}
	if e := f.event(t, "Module", "stamp", "connection refused"); e.Object["reason"] != "SourceAway" || e.Object["count"] != int64(1) {
		t.Errorf("event %v", e)
	}
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := f.serves(t); v != "v003" {
		t.Errorf("%q serves after a restart without the registry, want v003", v)
	}
	f.lastKnownGood(t, stamp("v003"))
	f.is(t, "stamp", "Fetched", "FetchFailed")
	r.open(t)
	f.inForce(t, "stamp", stamp("v003"))
	push(t, ref, stamp("v004"))
	f.inForce(t, "stamp", stamp("v004"))
	if v := f.serves(t); v != "v004" {
		t.Errorf("%q serves, want v004", v)
	}
}

// authority writes the certificate of a server to a file.
func authority(t testing.TB, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func startTLS(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// signer signs as cosign does with a key.
type signer struct{ *ecdsa.PrivateKey }

func newSigner(t testing.TB) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key}
}

func (s signer) pem(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&s.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (s signer) sign(t testing.TB, data []byte) string {
	t.Helper()
	sum := sha256.Sum256(data)
	signature, err := ecdsa.SignASN1(rand.Reader, s.PrivateKey, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// signImage pushes a signature of an image.
func (s signer) signImage(t testing.TB, pinned string) {
	t.Helper()
	repository, digest, _ := strings.Cut(pinned, "@")
	payload, err := json.Marshal(map[string]any{"critical": map[string]any{
		"image": map[string]any{"docker-manifest-digest": digest}, "type": "cosign container image signature"}})
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": s.sign(t, payload)}})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(repository + ":" + strings.Replace(digest, ":", "-", 1) + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
}

// A registry with TLS and a password, whose Secret and whose signature come after the Module.
func TestImageSourceThatIsPrivateAndSigned(t *testing.T) {
	handler := newRegistry()
	open := newPlace(t, handler) // the same registry, for the test itself
	private := startTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "robot" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	f := startFetching(t, authority(t, private))
	registryHost := strings.TrimPrefix(private.URL, "https://")
	pinned := push(t, open.address+"/stamp:v1", stamp("v001"))
	good, other := newSigner(t), newSigner(t)
	f.put(t, modules, module("stamp", map[string]any{"oci": map[string]any{
		"image": registryHost + "/stamp:v1", "pullSecretRef": map[string]any{"namespace": "default", "name": "pull"}}},
		map[string]any{"verify": map[string]any{"publicKey": good.pem(t)}}))
	if c := f.is(t, "stamp", "Fetched", "FetchFailed"); !strings.Contains(c.Message, `pull secret: secrets "pull" not found`) {
		t.Errorf("Fetched is %+v", c)
	}
	config := `{"auths":{"` + registryHost + `":{"username":"robot","password":"secret"}}}`
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "pull", "namespace": "default"},
		"type": "kubernetes.io/dockerconfigjson", "data": map[string]any{".dockerconfigjson": base64.StdEncoding.EncodeToString([]byte(config))}}}
	if _, err := f.client.Resource(secrets).Namespace("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := f.is(t, "stamp", "Verified", "SignatureInvalid"); !strings.Contains(c.Message, "has none (cosign's tag sha256-") {
		t.Errorf("Verified is %+v", c)
	}
	other.signImage(t, pinned)
	f.until(t, f.client.Resource(modules), "stamp", func(obj *unstructured.Unstructured) bool {
		return strings.Contains(condition(obj, "Verified").Message, "signed by another key")
	})
	good.signImage(t, pinned)
	f.inForce(t, "stamp", stamp("v001"))
	if c := condition(f.settled(t, modules, "stamp"), "Verified"); c.Message != "the signature is good" {
		t.Errorf("Verified is %+v", c)
	}
	// What is not signed leaves what is.
	push(t, open.address+"/stamp:v1", stamp("v002"))
	f.lastKnownGood(t, stamp("v001"))
	f.is(t, "stamp", "Verified", "SignatureInvalid")
}

func TestURLSource(t *testing.T) {
	var fetched atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/stamp.wasm", func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = w.Write(stamp("v001"))
	})
	key := newSigner(t)
	mux.HandleFunc("/stamp.wasm.sig", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(key.sign(t, stamp("v001")))) })
	s := startTLS(t, mux)
	f := startFetching(t, authority(t, s))
	url := func(digest string) map[string]any {
		return map[string]any{"url": s.URL + "/stamp.wasm", "digest": digest}
	}

	f.put(t, modules, module("stamp", url(host.Digest(stamp("v002")))))
	if c := f.is(t, "stamp", "Verified", "DigestMismatch"); !strings.Contains(c.Message, host.Digest(stamp("v001"))) {
		t.Errorf("Verified is %+v", c)
	}
	f.ready(t, modules, module("stamp", url(host.Digest(stamp("v001")))))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))

	verify := func(v map[string]any) map[string]any { return map[string]any{"verify": v} }
	from := map[string]any{"configMapRef": map[string]any{"namespace": "default", "name": "keys", "key": "cosign.pub"}}
	f.put(t, modules, module("stamp", url(host.Digest(stamp("v001"))), verify(map[string]any{"publicKeyFrom": from, "signatureURL": s.URL + "/stamp.wasm.sig"})))
	if c := f.is(t, "stamp", "Verified", "VerificationFailed"); !strings.Contains(c.Message, `public key: configmaps "keys" not found`) {
		t.Errorf("Verified is %+v", c)
	}
	keys := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "keys", "namespace": "default"}, "data": map[string]any{"cosign.pub": key.pem(t)}}}
	if _, err := f.client.Resource(configMaps).Namespace("default").Create(t.Context(), keys, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.inForce(t, "stamp", stamp("v001"))
	f.put(t, modules, module("stamp", url(host.Digest(stamp("v001"))), verify(map[string]any{"publicKeyFrom": from, "signature": newSigner(t).sign(t, stamp("v001"))})))
	f.is(t, "stamp", "Verified", "SignatureInvalid")
	f.put(t, modules, module("stamp", url(host.Digest(stamp("v001"))), verify(map[string]any{"publicKeyFrom": from, "signature": key.sign(t, stamp("v001"))})))
	f.inForce(t, "stamp", stamp("v001"))

	// The bytes are known by their digest and signature: the address is not asked again.
	n := fetched.Load()
	s.Close()
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves after a restart, want v001", v)
	}
	f.inForce(t, "stamp", stamp("v001"))
	if c := condition(f.settled(t, modules, "stamp"), "Fetched"); c.Message != "from the server's own copy of these bytes" {
		t.Errorf("Fetched is %+v", c)
	}
	if fetched.Load() != n {
		t.Errorf("the address was asked %d times", fetched.Load()-n)
	}
}

func TestSecretSource(t *testing.T) {
	f := start(t)
	f.put(t, modules, module("stamp", map[string]any{"secretRef": map[string]any{"namespace": "default", "name": "wasm", "key": "m"}}))
	if c := condition(f.settled(t, modules, "stamp"), "Ready"); !strings.Contains(c.Message, `secrets "default/wasm" not found`) {
		t.Errorf("Ready is %+v", c)
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "wasm", "namespace": "default"},
		"data": map[string]any{"m": base64.StdEncoding.EncodeToString(stamp("v001"))}}}
	if _, err := f.client.Resource(secrets).Namespace("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.inForce(t, "stamp", stamp("v001"))
	secret.Object["data"] = map[string]any{"m": base64.StdEncoding.EncodeToString(stamp("v002"))}
	if _, err := f.client.Resource(secrets).Namespace("default").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.inForce(t, "stamp", stamp("v002"))
}

// A registry that takes requests and does not answer holds up neither a start nor a stop.
func TestImageSourceThatHangs(t *testing.T) {
	var hangs atomic.Bool
	handler := newRegistry()
	r := newPlace(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		handler.ServeHTTP(w, r)
	}))
	pinned := push(t, r.address+"/stamp:v1", stamp("v001"))
	f := startFetching(t, "")
	f.ready(t, modules, module("stamp", map[string]any{"oci": map[string]any{"image": pinned, "plainHTTP": true}}))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	hangs.Store(true)
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	f.until(t, f.client.Resource(modules), "stamp", func(obj *unstructured.Unstructured) bool {
		c := condition(obj, "Ready")
		return c.Reason == "InProgress" && strings.Contains(c.Message, "stays in force meanwhile")
	})
}
