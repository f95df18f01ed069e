package host

import "testing"

// LentGuest is a guest that is out of its module's pool, as for a call.
type LentGuest struct {
	m *Module
	g *guest
}

// LendGuests takes guests out of a module's pool, all at once.
func LendGuests(t testing.TB, m *Module, n int) []LentGuest {
	t.Helper()
	lent := make([]LentGuest, n)
	for i := range lent {
		g, err := m.lend(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lent[i] = LentGuest{m, g}
	}
	return lent
}

// Return puts the guest back.
func (l LentGuest) Return() { l.m.pool.Put(l.g) }

// Closed tells whether the guest is closed and its memory given back.
func (l LentGuest) Closed() bool {
	if !l.g.instance.IsClosed() {
		return false
	}
	_, err := l.g.linear.Restore() // refused where there is no memory
	return err != nil
}

// Trims tells whether idle guests will be looked at.
func (r *Runtime) Trims() bool {
	r.janitor.mu.Lock()
	defer r.janitor.mu.Unlock()
	return r.janitor.timer != nil
}
