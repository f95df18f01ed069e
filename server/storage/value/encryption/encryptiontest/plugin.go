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

	mu       sync.Mutex
	server   *grpc.Server           // guarded by mu; nil: stopped
	keys     map[string]cipher.AEAD // by key id; guarded by mu
	keyID    string                 // guarded by mu
	healthz  string                 // guarded by mu
	decrypts int                    // guarded by mu
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
	p := &Plugin{t: t, socket: filepath.Join(directory, "s"), keys: map[string]cipher.AEAD{}, healthz: "ok"}
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

// Decrypts is how often a seed was opened.
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
func (p *Plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: p.healthz, KeyId: p.keyID}, nil
}

// Encrypt implements kmsapi.KeyManagementServiceServer.
func (p *Plugin) Encrypt(_ context.Context, request *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
func (p *Plugin) Decrypt(_ context.Context, request *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decrypts++
	key := p.keys[request.GetKeyId()]
	if key == nil || len(request.GetCiphertext()) < key.NonceSize() {
		return nil, status.Error(codes.InvalidArgument, "key id or ciphertext is not known")
	}
	nonce, sealed := request.GetCiphertext()[:key.NonceSize()], request.GetCiphertext()[key.NonceSize():]
	plain, err := key.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}

// Provider is the plugin as a provider of a configuration.
func (p *Plugin) Provider(name string) string {
	return fmt.Sprintf("kms: {apiVersion: v2, name: %s, endpoint: %q, timeout: 1s}", name, p.Endpoint())
}
