package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"weir.dev/weir/host/internal/codecache"
)

// What a module of some bytes leaves to the garbage collector.
const (
	// compileGarbage is by how much more memory its compilation takes.
	compileGarbage = 16
	// codePerByte is how many bytes of machine code one byte becomes.
	codePerByte = 4
	// engineBytes is for what every engine maps.
	engineBytes = 64 << 10
	// collectAt is how much may be left before it is collected.
	collectAt = 64 << 20
)

// takeTurn waits until a module may be compiled. The error is the context's.
func (r *Runtime) takeTurn(ctx context.Context) error {
	select {
	case r.compiling <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Runtime) endTurn() { <-r.compiling }

// codeCache opens the cache the first time that this succeeds.
func (r *Runtime) codeCache() (*codecache.Cache, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.codes != nil {
		return r.codes, nil
	}
	cache, err := codecache.Open(filepath.Join(r.config.CacheDir, "code"), r.config.CacheBytes)
	if err != nil {
		return nil, err
	}
	r.codes = cache
	return cache, nil
}

// codeEntry is where the code of a rewritten module is kept; nil: it is not.
func (r *Runtime) codeEntry(rewritten []byte) *codecache.Entry {
	if r.config.CacheDir == "" || r.config.Interpreter {
		return nil
	}
	cache, err := r.codeCache()
	if err != nil {
		r.metrics.cached(err)
		return nil
	}
	sum := sha256.Sum256(rewritten)
	entry, err := cache.Entry(hex.EncodeToString(sum[:]))
	if err != nil {
		r.metrics.cached(err)
		return nil
	}
	r.metrics.cacheUsed(entry.State)
	return entry
}

// garbage counts what is left to the collector without its knowing: the
// engine unmaps machine code when a collection finds that nobody needs it, and
// what a compilation used makes the next collection late. See RATIONALE.md.
type garbage struct {
	bytes   atomic.Int64
	running atomic.Bool
	all     sync.WaitGroup
}

// discarded tells that about so many bytes were discarded, and starts a
// collection when they are many.
func (r *Runtime) discarded(bytes int) {
	g := &r.garbage
	if g.bytes.Add(int64(bytes)+engineBytes) < collectAt || !g.running.CompareAndSwap(false, true) {
		return
	}
	g.bytes.Store(0)
	g.all.Go(func() {
		defer g.running.Store(false)
		runtime.GC()
	})
}

func (g *garbage) wait() { g.all.Wait() }
