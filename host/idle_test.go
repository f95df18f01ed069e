package host_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// closedOf is how many guests are closed.
func closedOf(guests []host.LentGuest) (n int) {
	for _, g := range guests {
		if g.Closed() {
			n++
		}
	}
	return n
}

// TestIdleGuestsAreClosed: what a burst of calls needed is given back when it
// is over, but for the guest that was used last.
func TestIdleGuestsAreClosed(t *testing.T) {
	for _, mode := range []host.RestoreMode{host.RestoreAuto, host.RestoreCopy} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testIdleGuests(t, mode) })
		})
	}
}

func testIdleGuests(t *testing.T, mode host.RestoreMode) {
	reg := prometheus.NewRegistry()
	rt, err := host.NewRuntime(host.Config{Guests: 4, IdleTimeout: time.Minute, Restore: mode, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, rt, hosttest.Echo("echo"), host.ModuleConfig{Name: "a"})
	other := load(t, rt, hosttest.Echo("echo"), host.ModuleConfig{Name: "b"})
	// Nothing is done for the guests that each module keeps.
	pass(2 * time.Minute)
	if rt.Trims() {
		t.Error("there is a timer while no guest is idle")
	}
	for range 2 {
		burst := host.LendGuests(t, m, 4)
		pass(time.Hour)
		if n := closedOf(burst); n != 0 {
			t.Fatalf("%d guests were closed in their calls", n)
		}
		returned(burst...)
		kept := host.LendGuests(t, other, 1)
		returned(kept...)
		pass(time.Minute - time.Second)
		if n := closedOf(burst); n != 0 {
			t.Fatalf("%d guests were closed too early", n)
		}
		pass(time.Minute + time.Second)
		for i, g := range burst {
			if last := i == len(burst)-1; g.Closed() == last {
				t.Errorf("guest %d of %d is closed: %v", i+1, len(burst), g.Closed())
			}
		}
		if closedOf(kept) != 0 {
			t.Error("a module has no guest left")
		}
		pass(time.Minute)
		if rt.Trims() {
			t.Error("there is a timer while no guest is idle")
		}
	}

	// Two that are used stay, with two that are not.
	burst := host.LendGuests(t, m, 4)
	returned(burst...)
	for range 6 {
		pass(30 * time.Second)
		returned(host.LendGuests(t, m, 2)...)
	}
	if closedOf(burst[:2]) != 2 || closedOf(burst[2:]) != 0 {
		t.Errorf("closed are %d of the idle guests and %d of those in use", closedOf(burst[:2]), closedOf(burst[2:]))
	}
	if _, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)}); err != nil {
		t.Error(err)
	}
	if got := values(t, reg, "weir_host_guests_discarded_total")["module=a,reason=idle"]; got != 8 {
		t.Errorf("%v discarded guests are counted, want 3, 3 and 2", got)
	}

	if !rt.Trims() {
		t.Error("nobody looks at a guest that is idle")
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if rt.Trims() {
		t.Error("there is a timer after Close")
	}
	if n := closedOf(burst); n != 4 {
		t.Errorf("%d of 4 guests are closed after Close", n)
	}
}

// returned puts guests back, the last one last.
func returned(guests ...host.LentGuest) {
	for _, g := range guests {
		g.Return()
	}
}

// pass lets time pass, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestIdleTimeoutIsChecked(t *testing.T) {
	if _, err := host.NewRuntime(host.Config{IdleTimeout: -time.Second}); err == nil {
		t.Error("a negative idle timeout is taken")
	}
}
