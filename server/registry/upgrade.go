package registry

import (
	"hash/maphash"
	"sync"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/storage"
)

// The bounds of what is remembered of upgraded rows.
const (
	maxUpgrades     = 1 << 17
	maxUpgradeBytes = 32 << 20
)

// upgrades remembers what Config.Upgrade made of rows, so that reading a row again costs a look. A revision is no name of
// a row: one transaction writes several, and an etcd that is restored from an earlier state gives its revisions again.
type upgrades struct {
	mu    sync.RWMutex
	byRV  map[uint64]upgraded // guarded by mu
	bytes int                 // guarded by mu; of the documents in byRV
}

// upgraded is what Config.Upgrade made of a row.
type upgraded struct {
	// stored is where the row's bytes are, without keeping them: a row of a cache is there when it is read again.
	stored weak.Pointer[byte]
	// sum is that of the row's bytes, for a row that was read into other memory.
	sum uint64
	obj *document.Document // nil: the row stays as it is
}

var rowSeed = maphash.MakeSeed()

func (u *upgrades) get(row storage.Row) (obj *document.Document, known bool) {
	u.mu.RLock()
	have, known := u.byRV[row.ResourceVersion]
	u.mu.RUnlock()
	switch {
	case !known || row.Value.IsZero():
		return nil, false
	case have.stored.Value() == row.Value.Place():
		return have.obj, true
	case have.sum != row.Value.Sum(rowSeed):
		return nil, false
	}
	u.set(row, have.obj)
	return have.obj, true
}

func (u *upgrades) set(row storage.Row, obj *document.Document) {
	if row.Value.IsZero() {
		return
	}
	made := upgraded{stored: weak.Make(row.Value.Place()), sum: row.Value.Sum(rowSeed), obj: obj}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byRV == nil || len(u.byRV) >= maxUpgrades || u.bytes > maxUpgradeBytes {
		u.byRV, u.bytes = map[uint64]upgraded{}, 0
	}
	u.bytes += size(obj) - size(u.byRV[row.ResourceVersion].obj)
	u.byRV[row.ResourceVersion] = made
}

func size(obj *document.Document) int {
	if obj == nil {
		return 0
	}
	return obj.Len()
}

// read returns the object of a row that is stored now.
func (s *Store) read(row storage.Row) (*document.Document, error) {
	return s.current(row, func() *document.Document { return stored(row.Value) })
}

// stored returns the object of a row's text.
func stored(text storage.Text) *document.Document {
	if text.IsWhole() {
		return document.FromCanonical(text.Bytes())
	}
	return document.FromPieces(text)
}

// current is upgrade for the object of a row that is stored now, which is not asked for where what becomes of it is remembered.
func (s *Store) current(row storage.Row, object func() *document.Document) (*document.Document, error) {
	if s.cfg.Upgrade == nil {
		return object(), nil
	}
	switch upgraded, known := s.upgrades.get(row); {
	case upgraded != nil:
		return upgraded, nil
	case known:
		return object(), nil
	}
	obj := object()
	upgraded, err := s.upgrade(obj)
	if err != nil {
		return nil, err
	}
	if upgraded == obj {
		s.upgrades.set(row, nil)
	} else {
		s.upgrades.set(row, upgraded)
	}
	return upgraded, nil
}

// downgrade returns what is stored of an object.
func (s *Store) downgrade(obj *document.Document) (*document.Document, error) {
	if s.cfg.Downgrade == nil {
		return obj, nil
	}
	stored, err := s.cfg.Downgrade(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return stored, nil
}

// upgrade brings an object to what the resource is like now. It returns obj itself when that changes nothing.
func (s *Store) upgrade(obj *document.Document) (*document.Document, error) {
	if s.cfg.Upgrade == nil {
		return obj, nil
	}
	upgraded, err := s.cfg.Upgrade(obj)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case upgraded.Equal(obj):
		return obj, nil
	}
	return upgraded, nil
}
