package encryption

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2"
	kmsservice "k8s.io/kms/pkg/service"

	"weir.dev/weir/server/storage/value"
)

// remote tells errors about a row from those of a plugin that cannot say anything about it now.
type remote struct {
	kmsservice.Service
	plugin *plugin
}

var _ kmsservice.Service = remote{}

// proofs is how many refusals without a telling code, each followed by a proof that the plugin works, are about a row. A
// vault that flaps must do so in step with all of the requests to make a row that is well look as if it were not: with
// so many it is one in 300 at most, where each request is refused by chance.
const proofs = 3

// Decrypt implements kmsservice.Service.
func (r remote) Decrypt(ctx context.Context, uid string, request *kmsservice.DecryptRequest) ([]byte, error) {
	out, err := r.Service.Decrypt(ctx, uid, request)
	if subjectOf(err) == subjectUnknown && !r.plugin.lost.has(request) {
		out, err = r.proveOnce(ctx, uid, request, err)
	}
	if errors.As(err, new(*value.UnavailableError)) {
		return nil, err
	}
	switch subjectOf(err) {
	case subjectPlugin:
		err = &value.UnavailableError{Err: err}
	case subjectRow, subjectUnknown:
		err = r.plugin.ofOtherKey(err, request.KeyID)
	}
	return out, err
}

// proveOnce is prove for all who ask about the same seed at a time. It goes on when one of them gives up.
func (r remote) proveOnce(ctx context.Context, uid string, request *kmsservice.DecryptRequest, refused error) ([]byte, error) {
	seed := seedOf(request)
	proof := r.plugin.proofs.DoChan(string(seed[:]), func() (any, error) {
		return r.prove(context.WithoutCancel(ctx), uid, request, refused) // the service has a timeout of its own
	})
	select {
	case p := <-proof:
		out, _ := p.Val.([]byte)
		return bytes.Clone(out), p.Err
	case <-ctx.Done():
		return nil, &value.UnavailableError{Err: fmt.Errorf("%w; %w", refused, ctx.Err())}
	}
}

// prove finds out what a refusal without a telling code is about. It returns an UnavailableError where that is the plugin,
// the refusal where it is the row, and what is decrypted where it was neither.
func (r remote) prove(ctx context.Context, uid string, request *kmsservice.DecryptRequest, refused error) (out []byte, err error) {
	err = refused
	for proved := 0; subjectOf(err) == subjectUnknown && !r.plugin.lost.has(request); {
		if unwell := r.works(ctx, time.Now()); unwell != nil {
			return nil, &value.UnavailableError{Err: fmt.Errorf("%w; %w", err, unwell)}
		}
		if proved++; proved == proofs {
			r.plugin.lost.add(request, r.plugin.intervals.FreshFailure)
			break
		}
		// It may have been away only when it was asked.
		out, err = r.Service.Decrypt(ctx, uid, request)
	}
	return out, err
}

// works returns why a plugin does not work after a time: its Status says so, or it does not decrypt what it encrypts now.
// Some have a Status that is well whatever happens, and some know what they have decrypted before.
func (r remote) works(ctx context.Context, after time.Time) error {
	if err := r.plugin.askAfter(ctx, after); err != nil {
		return err
	}
	fresh := make([]byte, 32) // as long as a seed
	_, _ = rand.Read(fresh)   // never fails
	uid := string(uuid.NewUUID())
	sealed, err := r.Service.Encrypt(ctx, uid, fresh)
	if err != nil {
		return fmt.Errorf("encrypting something else: %w", err)
	}
	opened, err := r.Service.Decrypt(ctx, uid, &kmsservice.DecryptRequest{
		Ciphertext: sealed.Ciphertext, KeyID: sealed.KeyID, Annotations: sealed.Annotations})
	if err != nil {
		return fmt.Errorf("decrypting something else: %w", err)
	}
	if !bytes.Equal(opened, fresh) {
		return errors.New("decrypting something else: it is not what was encrypted")
	}
	return nil
}

// ofOtherKey adds to an error about a row that it is of another key than the plugin's present one. That the plugin works
// proves nothing of other keys: whoever reads the error may know that one is disabled for now.
func (p *plugin) ofOtherKey(err error, keyID string) error {
	state, unknown := p.current()
	if unknown != nil || state.EncryptedObjectKeyID == keyID {
		return err
	}
	return fmt.Errorf("%w; the row is of another key of the plugin, key id hash %s, than the one in use, key id hash %s: "+
		"if that key is disabled the row can be read once it is enabled again", err,
		kmsv2.GetHashIfNotEmpty(keyID), kmsv2.GetHashIfNotEmpty(state.EncryptedObjectKeyID))
}

// subject is what a refusal to decrypt is about.
type subject int

const (
	subjectNone subject = iota
	// subjectRow: it will be refused tomorrow too. A row that is taken for one of these when it is well may be deleted
	// as one that cannot be read, so it is only what a plugin says in so many words.
	subjectRow
	// subjectPlugin: it, its vault or its credentials do not work now.
	subjectPlugin
	// subjectUnknown: either. Most plugins return errors without a code, which gRPC calls Unknown, whatever happened.
	// Then a plugin that works, and refuses again, speaks about the row, or about the key that the row is of. What is
	// not found out is a vault that is away where the plugin does without for all that is new and has a Status that is
	// well.
	subjectUnknown
)

func subjectOf(err error) subject {
	switch status.Code(err) {
	case codes.OK:
		return subjectNone
	case codes.InvalidArgument, codes.DataLoss: // gRPC itself returns neither, and they are independent of any state
		return subjectRow
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted,
		codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return subjectPlugin
	default:
		return subjectUnknown
	}
}

// seeds are encrypted seeds that are known as lost for a while: many rows may be of one, and to prove it for each takes
// many requests. The zero value has none.
type seeds struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time // guarded by mu
}

// seedOf is the same for requests about the same.
func seedOf(request *kmsservice.DecryptRequest) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q", request.KeyID, request.Ciphertext, request.Annotations)) // maps are printed in order
}

func (s *seeds) has(request *kmsservice.DecryptRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.until) > 0 && time.Now().Before(s.until[seedOf(request)])
}

func (s *seeds) add(request *kmsservice.DecryptRequest, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.until == nil {
		s.until = map[[sha256.Size]byte]time.Time{}
	}
	for seed, until := range s.until {
		if now.After(until) {
			delete(s.until, seed)
		}
	}
	s.until[seedOf(request)] = now.Add(d)
}

// longestWords bounds what is shown of a plugin's words.
const longestWords = 256

// bounded cuts what a plugin says in its errors: it goes into answers, once for each row of a list, and into the log.
type bounded struct {
	kmsservice.Service
}

// Encrypt implements kmsservice.Service.
func (b bounded) Encrypt(ctx context.Context, uid string, data []byte) (*kmsservice.EncryptResponse, error) {
	out, err := b.Service.Encrypt(ctx, uid, data)
	return out, cut(err)
}

// Decrypt implements kmsservice.Service.
func (b bounded) Decrypt(ctx context.Context, uid string, request *kmsservice.DecryptRequest) ([]byte, error) {
	out, err := b.Service.Decrypt(ctx, uid, request)
	return out, cut(err)
}

// Status implements kmsservice.Service.
func (b bounded) Status(ctx context.Context) (*kmsservice.StatusResponse, error) {
	out, err := b.Service.Status(ctx)
	return out, cut(err)
}

// cut keeps the code of an error, and as many of its words as are shown.
func cut(err error) error {
	s := status.Convert(err)
	if len(s.Message()) <= longestWords {
		return err
	}
	return status.Error(s.Code(), strings.ToValidUTF8(s.Message()[:longestWords], "")+" [cut]")
}
