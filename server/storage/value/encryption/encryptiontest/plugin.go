package encryptiontest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// Plugin is a KMS v2 plugin: a gRPC server on a unix socket that seals with AES-GCM under the key of its key id. All
// methods are safe for concurrent use.
type Plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	t      testing.TB
	socket string

	mu        sync.Mutex
	server    *grpc.Server           // guarded by mu; nil: stopped
	keys      map[string]cipher.AEAD // by key id; guarded by mu
	keyID     string                 // guarded by mu
	healthz   string                 // guarded by mu
	decrypts  int                    // guarded by mu
	refusals  int                    // still to come; guarded by mu
	refusal   codes.Code             // guarded by mu
	flaps     []bool                 // which requests are refused, before refusals; guarded by mu
	words     string                 // of a refusal; guarded by mu
	opened    map[string][]byte      // by ciphertext, nil: it does not remember; guarded by mu
	forgotten codes.Code             // guarded by mu
	hangs     chan struct{}          // closed when it goes on, nil: it does not hang; guarded by mu
	decrypted bool                   // what is to be decrypted does not hang; guarded by mu
}

var _ kmsapi.KeyManagementServiceServer = (*Plugin)(nil)

// NewPlugin starts a plugin whose key id is "1". It ends with the test.
func NewPlugin(t testing.TB) *Plugin {
	t.Helper()
	directory, err := os.MkdirTemp("", "kms") // t.TempDir may be longer than a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	p := &Plugin{t: t, socket: filepath.Join(directory, "s"), keys: map[string]cipher.AEAD{}, healthz: "ok", words: "refused"}
	p.Rotate("1")
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// Endpoint is for the configuration.
func (p *Plugin) Endpoint() string { return "unix://" + p.socket }

// Rotate makes keyID the key that seals. Earlier ones still open.
func (p *Plugin) Rotate(keyID string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keyID = keyID
	if p.keys[keyID] != nil {
		return
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	block, err := aes.NewCipher(secret)
	if err != nil {
		p.t.Error(err)
		return
	}
	if p.keys[keyID], err = cipher.NewGCM(block); err != nil {
		p.t.Error(err)
	}
}

// SetHealthz makes the plugin say so in its status; "ok" is well.
func (p *Plugin) SetHealthz(healthz string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.healthz = healthz
}

// always is as good as for ever.
const always = 1 << 30

// Refuse makes the plugin refuse to encrypt and decrypt with that code, as one whose vault is away; codes.OK: no more. Its
// status is what SetHealthz says.
func (p *Plugin) Refuse(code codes.Code) { p.RefuseTimes(code, always) }

// RefuseTimes is Refuse for so many requests.
func (p *Plugin) RefuseTimes(code codes.Code, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal, p.refusals = code, times
}

// Flap makes the plugin refuse with that code those of the next requests to encrypt or decrypt that are true, and none after
// them, as one whose vault comes and goes.
func (p *Plugin) Flap(code codes.Code, refused ...bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal, p.refusals, p.flaps = code, 0, refused
}

// SetWords sets what the plugin says when it refuses, which is "refused" at first.
func (p *Plugin) SetWords(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = words
}

// Remember makes the plugin keep what it decrypts from now on, and give it out without its vault.
func (p *Plugin) Remember() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = map[string][]byte{}
}

// Hang makes the plugin answer nothing, until the function that it returns is called.
func (p *Plugin) Hang() (goOn func()) { return p.hang(false) }

// HangProofs makes the plugin answer nothing but what it is asked to decrypt, until the function that it returns is called.
func (p *Plugin) HangProofs() (goOn func()) { return p.hang(true) }

func (p *Plugin) hang(decrypted bool) (goOn func()) {
	hangs := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs, p.decrypted = hangs, decrypted
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hangs = nil
		close(hangs)
	})
}

// Forget destroys the key of a key id. What was sealed by it is refused with a code.
func (p *Plugin) Forget(keyID string, code codes.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, keyID)
	p.forgotten = code
}

// wait waits while the plugin hangs.
func (p *Plugin) wait(ctx context.Context, decrypts bool) error {
	p.mu.Lock()
	hangs, exempt := p.hangs, decrypts && p.decrypted
	p.mu.Unlock()
	if hangs != nil && !exempt {
		select {
		case <-hangs:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return nil
}

// refusedLocked returns the error of a request that is refused.
func (p *Plugin) refusedLocked() error {
	switch {
	case len(p.flaps) > 0:
		refused := p.flaps[0]
		if p.flaps = p.flaps[1:]; !refused {
			return nil
		}
	case p.refusals == 0:
		return nil
	default:
		p.refusals--
	}
	return status.Error(p.refusal, p.words) // nil for codes.OK
}

// Decrypts is how often the plugin was asked to decrypt.
func (p *Plugin) Decrypts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decrypts
}

// Start listens, again after Stop.
func (p *Plugin) Start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", p.socket)
	if err != nil {
		p.t.Error(err)
		return
	}
	p.server = grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(p.server, p)
	go func(server *grpc.Server) { _ = server.Serve(listener) }(p.server) // ends by Stop
}

// Stop breaks all connections, and the socket is gone.
func (p *Plugin) Stop() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Status implements kmsapi.KeyManagementServiceServer.
func (p *Plugin) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	if err := p.wait(ctx, false); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: p.healthz, KeyId: p.keyID}, nil
}

// Encrypt implements kmsapi.KeyManagementServiceServer.
func (p *Plugin) Encrypt(ctx context.Context, request *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	if err := p.wait(ctx, false); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusedLocked(); err != nil {
		return nil, err
	}
	key := p.keys[p.keyID]
	nonce := make([]byte, key.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return &kmsapi.EncryptResponse{
		Ciphertext:  key.Seal(nonce, nonce, request.GetPlaintext(), nil),
		KeyId:       p.keyID,
		Annotations: map[string][]byte{"plugin.example.com": []byte(p.keyID)},
	}, nil
}

// Decrypt implements kmsapi.KeyManagementServiceServer.
func (p *Plugin) Decrypt(ctx context.Context, request *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	if err := p.wait(ctx, true); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decrypts++
	if plain, ok := p.opened[string(request.GetCiphertext())]; ok {
		return &kmsapi.DecryptResponse{Plaintext: plain}, nil
	}
	if err := p.refusedLocked(); err != nil {
		return nil, err
	}
	key := p.keys[request.GetKeyId()]
	if key == nil && p.forgotten != codes.OK {
		return nil, status.Error(p.forgotten, p.words)
	}
	if key == nil || len(request.GetCiphertext()) < key.NonceSize() {
		return nil, status.Error(codes.InvalidArgument, "key id or ciphertext is not known")
	}
	nonce, sealed := request.GetCiphertext()[:key.NonceSize()], request.GetCiphertext()[key.NonceSize():]
	plain, err := key.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if p.opened != nil {
		p.opened[string(request.GetCiphertext())] = plain
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}

// Provider is the plugin as a provider of a configuration, which waits for it for a second.
func (p *Plugin) Provider(name string) string { return p.ProviderWithin(name, time.Second) }

// Patient is Provider for a plugin that answers, however busy the machine is.
func (p *Plugin) Patient(name string) string { return p.ProviderWithin(name, time.Minute) }

// ProviderWithin is Provider for one that is waited for so long. A plugin that is stopped is waited for too.
func (p *Plugin) ProviderWithin(name string, timeout time.Duration) string {
	return fmt.Sprintf("kms: {apiVersion: v2, name: %s, endpoint: %q, timeout: %s}", name, p.Endpoint(), timeout)
}
