package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2"
	kmstypes "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/v2"
	envelopemetrics "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/metrics"
	kmsservice "k8s.io/kms/pkg/service"

	"weir.dev/weir/server/storage/value"
)

// plugin is a KMS v2 plugin and the seed that rows are encrypted with: KEP-3299. The rules are upstream's.
type plugin struct {
	name      string
	service   kmsservice.Service
	timeout   time.Duration
	intervals Intervals
	logger    *slog.Logger
	// seed in use; its Transformer is nil before there is one.
	seed atomic.Pointer[kmsv2.State]

	mu sync.Mutex
	// asking is when the plugin began to be asked last, asked when that ended, failure what came of it; guarded by mu
	asking, asked time.Time
	failure       error
	// version of the protocol that it spoke first; guarded by mu
	version string

	// lost are the seeds that it has refused lately although it works; proofs are those of seeds under way.
	lost   seeds
	proofs singleflight.Group
}

// openPlugin makes a connection, which ends with ctx. It does not wait for the plugin.
func openPlugin(ctx context.Context, c *apiserver.KMSConfiguration, intervals Intervals, logger *slog.Logger) (*plugin, error) {
	service, err := kmsv2.NewGRPCService(ctx, c.Endpoint, c.Name, c.Timeout.Duration)
	if err != nil {
		return nil, fmt.Errorf("kms provider %q: %w", c.Name, err)
	}
	p := &plugin{name: c.Name, timeout: c.Timeout.Duration, intervals: intervals, logger: logger}
	p.service = remote{bounded{service}, p}
	p.seed.Store(&kmsv2.State{KMSProviderName: c.Name})
	return p, nil
}

func (p *plugin) provider() provider {
	family := familyKMS + p.name + ":"
	return provider{
		name: fmt.Sprintf("kms provider %q", p.name), family: family, prefix: []byte(family), remote: true,
		transformer: kmsv2.NewEnvelopeTransformer(p.service, p.name, p.current, ""),
	}
}

// current is the seed in use. It may have expired, which matters for writes only.
func (p *plugin) current() (kmsv2.State, error) {
	state := *p.seed.Load()
	if state.Transformer == nil {
		return kmsv2.State{}, &value.UnavailableError{Err: errors.New("plugin has not answered yet")}
	}
	return state, nil
}

// check returns why the plugin is unwell; nil: it is well. It asks the plugin where the last answer is old.
func (p *plugin) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.intervals.Fresh
	if p.failure != nil {
		last = p.intervals.FreshFailure
	}
	if !p.asked.IsZero() && time.Since(p.asked) < last {
		return p.failure
	}
	return p.askLocked(ctx)
}

// ask asks the plugin whatever it said before.
func (p *plugin) ask(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.askLocked(ctx)
}

// askAfter returns what the plugin says when it is asked after a time.
func (p *plugin) askAfter(ctx context.Context, after time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking.After(after) {
		return p.failure // to another who waited for the answer
	}
	return p.askLocked(ctx)
}

func (p *plugin) askLocked(ctx context.Context) error {
	// What a client that has gone away asked is no failure of the plugin. The service has a timeout of its own.
	ctx = context.WithoutCancel(ctx)
	p.asking = time.Now()
	err := p.askStatusLocked(ctx)
	if err != nil {
		err = fmt.Errorf("kms provider %q: %w", p.name, err)
	}
	switch was := p.failure; {
	case err != nil && (was == nil || p.asked.IsZero()):
		p.logger.WarnContext(ctx, "KMS plugin is unwell", "provider", p.name, "error", err)
	case err == nil && was != nil:
		p.logger.InfoContext(ctx, "KMS plugin is well again", "provider", p.name)
	}
	p.asked, p.failure = time.Now(), err
	return err
}

func (p *plugin) askStatusLocked(ctx context.Context) error {
	answer, err := p.service.Status(ctx)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	var errs []error
	if answer.Healthz != "ok" {
		errs = append(errs, fmt.Errorf("status: plugin says %.*q", longestWords, answer.Healthz))
	}
	switch {
	case answer.Version != kmsv2.KMSAPIVersionv2 && answer.Version != kmsv2.KMSAPIVersionv2beta1:
		errs = append(errs, fmt.Errorf("status: plugin speaks version %.*q, not %s", longestWords, answer.Version, kmsv2.KMSAPIVersionv2))
	case p.version == "":
		p.version = answer.Version
	case p.version != answer.Version:
		errs = append(errs, fmt.Errorf("status: plugin speaks version %s, it spoke %s before", answer.Version, p.version))
	}
	if code, err := kmsv2.ValidateKeyID(answer.KeyID); err != nil {
		envelopemetrics.RecordInvalidKeyIDFromStatus(p.name, string(code))
		errs = append(errs, fmt.Errorf("status: key id: %w", err))
	} else {
		envelopemetrics.RecordKeyIDFromStatus(p.name, answer.KeyID, "")
		errs = append(errs, p.rotateLocked(ctx, answer.KeyID))
	}
	return errors.Join(errs...)
}

// rotateLocked makes another seed when the plugin's key is another one, and otherwise prolongs the one in use. Where it
// cannot, the one in use stays until it expires.
func (p *plugin) rotateLocked(ctx context.Context, keyID string) error {
	// The bound counts from before the plugin is asked.
	expires := time.Now().Add(p.intervals.SeedTTL)
	state, err := p.current()
	if err == nil && state.EncryptedObjectKeyID == keyID {
		state.ExpirationTimestamp = expires
		p.seed.Store(&state)
		return nil
	}
	uid := string(uuid.NewUUID())
	transformer, made, cacheKey, err := kmsv2.GenerateTransformer(ctx, uid, p.service, true)
	if err != nil {
		return err
	}
	if made.KeyID != keyID {
		return fmt.Errorf("plugin encrypts with key id hash %s and has key id hash %s in its status",
			kmsv2.GetHashIfNotEmpty(made.KeyID), kmsv2.GetHashIfNotEmpty(keyID))
	}
	p.seed.Store(&kmsv2.State{
		Transformer:                           transformer,
		EncryptedObjectKeyID:                  made.KeyID,
		EncryptedObjectEncryptedDEKSource:     made.EncryptedDEKSource,
		EncryptedObjectAnnotations:            made.Annotations,
		EncryptedObjectEncryptedDEKSourceType: kmstypes.EncryptedDEKSourceType_HKDF_SHA256_XNONCE_AES_GCM_SEED,
		UID:                                   uid,
		ExpirationTimestamp:                   expires,
		CacheKey:                              cacheKey,
		KMSProviderName:                       p.name,
	})
	p.logger.InfoContext(ctx, "KMS plugin has a new key", "provider", p.name, "keyIDHash", kmsv2.GetHashIfNotEmpty(keyID))
	return nil
}

// run asks the plugin now and then until ctx is done: the key id must be known soon, and the seed be prolonged.
func (p *plugin) run(ctx context.Context) {
	for {
		p.mu.Lock()
		interval := p.intervals.Probe
		if p.failure != nil {
			interval = p.intervals.ProbeFailing
		}
		wait := interval - time.Since(p.asked)
		p.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		_ = p.ask(ctx) // logged where it changes, and kept for check
	}
}
