package cacher

import (
	"sync"
	"sync/atomic"

	"weir.dev/weir/server/storage"
)

// maxPending bounds the rows that are remembered between their write and their event.
const maxPending = 1024

// pending holds the rows that this cache has written and whose events have not come
// yet. A row is of use only while its revision is above the cache's.
type pending struct {
	size atomic.Int64
	mu   sync.Mutex
	rows map[string]storage.Row // by whole key; guarded by mu
	// newest is the revision of the last write of all, whether or not its row is remembered.
	newest atomic.Uint64
}

// note remembers that there was a write.
func (p *pending) note(rv uint64) { raise(&p.newest, rv) }

// add remembers a row; one without Value is a deletion.
func (p *pending) add(row storage.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rows == nil {
		p.rows = map[string]storage.Row{}
	}
	if old, ok := p.rows[row.Key]; ok && old.ResourceVersion >= row.ResourceVersion || !ok && len(p.rows) >= maxPending {
		return
	}
	p.rows[row.Key] = row
	p.size.Store(int64(len(p.rows)))
}

// get returns the row of a key.
func (p *pending) get(key string) (storage.Row, bool) {
	if p.size.Load() == 0 {
		return storage.Row{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	row, ok := p.rows[key]
	return row, ok
}

// forget drops the rows that the cache has reached.
func (p *pending) forget(rv uint64) {
	if p.size.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, row := range p.rows {
		if row.ResourceVersion <= rv {
			delete(p.rows, key)
		}
	}
	p.size.Store(int64(len(p.rows)))
}

// clear forgets everything.
func (p *pending) clear() {
	p.newest.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.rows)
	p.size.Store(0)
}
