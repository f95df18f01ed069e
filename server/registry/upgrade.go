package registry

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/storage"
)

// The bounds of what is remembered of upgraded rows.
const (
	maxUpgrades     = 1 << 17
	maxUpgradeBytes = 32 << 20
)

// upgrades remembers what Config.Upgrade made of rows, so that reading a row again costs a look.
type upgrades struct {
	mu    sync.RWMutex
	byRV  map[uint64]*document.Document // guarded by mu; nil: the row stays as it is
	bytes int                           // guarded by mu; of the documents in byRV
}

func (u *upgrades) get(rv uint64) (obj *document.Document, known bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	obj, known = u.byRV[rv]
	return obj, known
}

func (u *upgrades) set(rv uint64, obj *document.Document) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byRV == nil || len(u.byRV) >= maxUpgrades || u.bytes > maxUpgradeBytes {
		u.byRV, u.bytes = map[uint64]*document.Document{}, 0
	}
	u.byRV[rv] = obj
	if obj != nil {
		u.bytes += len(obj.Bytes())
	}
}

// read returns the object of a row that is stored now.
func (s *Store) read(row storage.Row) (*document.Document, error) {
	if s.cfg.Upgrade == nil {
		return document.FromCanonical(row.Value), nil
	}
	switch upgraded, known := s.upgrades.get(row.ResourceVersion); {
	case upgraded != nil:
		return upgraded, nil
	case known:
		return document.FromCanonical(row.Value), nil
	}
	obj := document.FromCanonical(row.Value)
	upgraded, err := s.upgrade(obj)
	if err != nil {
		return nil, err
	}
	if upgraded == obj {
		s.upgrades.set(row.ResourceVersion, nil)
	} else {
		s.upgrades.set(row.ResourceVersion, upgraded)
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
