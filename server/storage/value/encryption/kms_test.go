package encryption_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
	. "weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

func wantUnavailable(t *testing.T, err error, text string) {
	t.Helper()
	var unavailable *value.UnavailableError
	if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an UnavailableError with %q", err, text)
	}
}

// Another key id makes another seed; what the old one wrote is read and stale. No row costs a call of the plugin.
func TestKMSRotation(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("rotation"))), quick)
	old := f.write(secrets, plain, key)
	f.wantRead(secrets, old, key, false)
	plugin.Rotate("2")
	f.await("rotation", func() bool {
		_, stale, err := f.For(secrets).TransformFromStorage(t.Context(), old, key)
		return err == nil && stale
	})
	fresh := f.write(secrets, plain, key)
	f.wantRead(secrets, fresh, key, false)
	f.wantRead(secrets, old, key, true)
	if n := plugin.Decrypts(); n != 0 {
		t.Errorf("the plugin decrypted %d times, want 0: all seeds are known", n)
	}
	if strings.Count(f.log.String(), "KMS plugin has a new key") != 2 {
		t.Errorf("log:\n%s", f.log)
	}

	// Another server, or this one after a restart, asks once for each seed.
	other := &fixture{t: t, file: f.file}
	other.start(quick)
	for range 3 {
		other.wantRead(secrets, old, key, true)
		other.wantRead(secrets, fresh, key, false)
	}
	if n := plugin.Decrypts(); n != 2 {
		t.Errorf("the plugin decrypted %d times, want 2", n)
	}
	if got := counter(t, encryption.KMSMetrics(), "apiserver_envelope_encryption_key_id_hash_total", "provider_name=rotation"); got < 8 {
		t.Errorf("upstream's metric counts %v uses of keys", got)
	}
	if got := counter(t, encryption.KMSMetrics(), "process_cpu_seconds_total"); got != 0 {
		t.Error("the metrics of the process are there, which the server has of its own")
	}
}

// While the plugin is away known seeds read, writes go on until the seed expires, and all comes back.
func TestKMSAway(t *testing.T) {
	plugin := NewPlugin(t)
	intervals := quick
	intervals.SeedTTL = 5 * time.Second // as long as a machine that is busy may take for what is done at once
	f := open(t, Config(Entry("secrets", plugin.ProviderWithin("away", 5*time.Second))), intervals)
	stored := f.write(secrets, plain, key)
	other := &fixture{t: t, file: f.file}
	other.start(quick)

	plugin.Stop()
	f.write(secrets, plain, key) // at once: the seed is good
	f.await("expiry", func() bool {
		_, err := f.For(secrets).TransformToStorage(t.Context(), plain, key)
		return err != nil
	})
	_, err := f.For(secrets).TransformToStorage(t.Context(), plain, key)
	wantUnavailable(t, err, `kms provider "away": encryptedDEKSource`)
	f.wantRead(secrets, stored, key, false)
	_, _, err = other.For(secrets).TransformFromStorage(t.Context(), stored, key)
	wantUnavailable(t, err, "failed to decrypt DEK")
	err = f.CheckKMS(t.Context())
	if err == nil || !strings.Contains(err.Error(), `kms provider "away": status: `) {
		t.Errorf("check says %v", err)
	}

	plugin.Start()
	f.await("recovery", func() bool { return f.CheckKMS(t.Context()) == nil })
	f.wantRead(secrets, f.write(secrets, plain, key), key, false)
	other.await("recovery", func() bool { return other.CheckKMS(t.Context()) == nil })
	other.wantRead(secrets, stored, key, false)
	for _, line := range []string{"KMS plugin is unwell", "KMS plugin is well again"} {
		if n := strings.Count(f.log.String(), line); n < 1 || n > 2 {
			t.Errorf("the log says %q %d times:\n%s", line, n, f.log)
		}
	}
}

// A server starts without its plugin and works when that comes.
func TestKMSLate(t *testing.T) {
	plugin := NewPlugin(t)
	plugin.Stop()
	f := open(t, Config(Entry("secrets", plugin.Provider("late"), Identity)), quick)
	if err := f.CheckKMS(t.Context()); err == nil {
		t.Error("check says nothing")
	}
	_, err := f.For(secrets).TransformToStorage(t.Context(), plain, key)
	wantUnavailable(t, err, "plugin has not answered yet")
	f.wantRead(secrets, plain, key, true)
	plugin.Start()
	f.await("recovery", func() bool { return f.CheckKMS(t.Context()) == nil })
	f.awaitWriter("k8s:enc:kms:v2:late:")
}

// What a plugin refuses says something about a row only if it says so, or it works and refuses again.
func TestKMSRefuses(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("refusing"))), quick)
	stored := f.write(secrets, plain, key)
	plugin.Rotate("2")
	other := &fixture{t: t, file: f.file} // does not know the seed
	other.start(quick)
	const sealed = "the vault is sealed"
	for _, tc := range []struct {
		code    codes.Code
		healthz string
		row     bool
	}{
		{codes.Unknown, sealed, false},
		{codes.Internal, sealed, false},
		{codes.NotFound, sealed, false},
		{codes.FailedPrecondition, sealed, false},
		{codes.Unknown, "ok", false}, // its status is well whatever happens
		{codes.Unavailable, "ok", false},
		{codes.DeadlineExceeded, "ok", false},
		{codes.ResourceExhausted, "ok", false},
		{codes.PermissionDenied, "ok", false},
		{codes.Unauthenticated, "ok", false},
		{codes.Unimplemented, "ok", false},
		{codes.Unknown, "ok", true},
		{codes.Internal, "ok", true},
		{codes.NotFound, "ok", true},
		{codes.InvalidArgument, sealed, true},
		{codes.DataLoss, sealed, true},
	} {
		plugin.SetHealthz(tc.healthz)
		if tc.row {
			plugin.Forget("1", tc.code)
			plugin.Refuse(codes.OK)
		} else {
			plugin.Refuse(tc.code)
		}
		_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
		var unavailable *value.UnavailableError
		if err == nil || errors.As(err, &unavailable) == tc.row || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s with status %q: got %v, want one about the row: %t", tc.code, tc.healthz, err, tc.row)
		}
		if !tc.row && tc.healthz == sealed && !strings.Contains(err.Error(), sealed) {
			t.Errorf("%s: %v does not say that %s", tc.code, err, sealed)
		}
	}
	// Away for a moment.
	plugin.SetHealthz("ok")
	f.await("rotation", func() bool { return strings.Count(f.log.String(), "KMS plugin has a new key") == 2 })
	stored = f.write(secrets, plain, key)
	plugin.RefuseTimes(codes.Unknown, 1)
	other.wantRead(secrets, stored, key, false)
}

// A plugin that keeps what it has decrypted proves nothing by it: with its vault away it refuses all else.
func TestKMSRemembers(t *testing.T) {
	plugin := NewPlugin(t)
	plugin.Remember()
	f := open(t, Config(Entry("secrets", plugin.Patient("remembering"))), quick)
	stored := f.write(secrets, plain, key)
	other := &fixture{t: t, file: f.file}
	other.start(quick)
	f.wantRead(secrets, other.write(secrets, plain, key), key, false) // from now on the plugin remembers the seed of other
	plugin.Refuse(codes.Unknown)
	_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
	wantUnavailable(t, err, "refused")
}

// However the requests fall while a vault comes and goes six requests long, no row that is well is refused for good.
func TestKMSFlaps(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("flapping"))), quick)
	stored := f.write(secrets, plain, key)
	const length = 6
	outcomes := map[string]int{}
	for pattern := range 1 << length {
		t.Run(fmt.Sprintf("%0*b", length, pattern), func(t *testing.T) {
			other := &fixture{t: t, file: f.file} // does not know the seed
			other.start(encryption.Intervals{})
			refused := make([]bool, length)
			for i := range refused {
				refused[i] = pattern>>(length-1-i)&1 != 0
			}
			plugin.Flap(codes.Unknown, refused...)
			defer plugin.Flap(codes.OK)
			_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
			var unavailable *value.UnavailableError
			switch {
			case err == nil:
				outcomes["read"]++
			case errors.As(err, &unavailable) && strings.Contains(err.Error(), "refused"):
				outcomes["unavailable"]++
			default:
				t.Error(err)
			}
		})
	}
	// Half of them let the first request pass, four the one after a proof (1 00 0), and one the one after two (1 00 1 00).
	// All others refuse a request of a proof.
	if outcomes["read"] != 37 || outcomes["unavailable"] != 27 {
		t.Errorf("got %v", outcomes)
	}
}

// What is refused of a key that is not the plugin's present one may be so for now only, which the error says.
func TestKMSOtherKey(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("keys"))), quick)
	stored := f.write(secrets, plain, key)
	read := func() string {
		other := &fixture{t: t, file: f.file} // does not know the seed
		other.start(quick)
		_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
		var unavailable *value.UnavailableError
		if err == nil || errors.As(err, &unavailable) {
			t.Fatalf("got %v, want an error about the row", err)
		}
		return err.Error()
	}
	const says = "the row is of another key of the plugin"
	for _, code := range []codes.Code{codes.Unknown, codes.InvalidArgument} {
		plugin.Rotate("2")
		plugin.Forget("1", code)
		if text := read(); !strings.Contains(text, says) {
			t.Errorf("%s: %s does not say that %s", code, text, says)
		}
	}
	// Of the present key: another than it was, of the same key id.
	plugin.Rotate("1")
	if text := read(); strings.Contains(text, says) {
		t.Error(text)
	}
}

// That a seed is lost is proved once for all of its rows, and not for ever.
func TestKMSLost(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("lost"))), quick)
	stored := f.write(secrets, plain, key)
	plugin.Rotate("2")
	plugin.Forget("1", codes.Unknown)
	read := func(f *fixture) int {
		before := plugin.Decrypts()
		if _, _, err := f.For(secrets).TransformFromStorage(t.Context(), stored, key); err == nil {
			t.Error("a row of a lost key is read")
		}
		return plugin.Decrypts() - before
	}
	const proof = 6 // three of the seed, and three of something else
	long := quick
	long.FreshFailure = time.Hour
	other := &fixture{t: t, file: f.file}
	other.start(long)
	for i, want := range []int{proof, 1, 1} {
		if n := read(other); n != want {
			t.Errorf("read %d: the plugin was asked %d times, want %d", i, n, want)
		}
	}
	brief := &fixture{t: t, file: f.file}
	brief.start(quick)
	read(brief)
	brief.await("another proof", func() bool { return read(brief) == proof })
}

// Many reads at once of rows of one lost seed prove that once, and one that gives up does not end it for the others.
func TestKMSLostAtOnce(t *testing.T) {
	const readers, proof = 20, 5 // beside the first question of each
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("lost-at-once"))), quick)
	stored := f.write(secrets, plain, key)
	plugin.Rotate("2")
	plugin.Forget("1", codes.Unknown)
	long := quick
	long.FreshFailure = time.Hour
	other := &fixture{t: t, file: f.file}
	other.start(long)
	other.await("the plugin has answered", func() bool {
		_, err := other.For(secrets).TransformToStorage(t.Context(), plain, key)
		return err == nil
	})
	before := plugin.Decrypts()
	goOn := plugin.HangProofs()
	defer goOn()
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	read := func(ctx context.Context) {
		asked := plugin.Decrypts()
		all.Go(func() {
			_, _, err := other.For(secrets).TransformFromStorage(ctx, stored, key)
			var unavailable *value.UnavailableError
			if err == nil || errors.As(err, &unavailable) != (ctx == gone) {
				t.Errorf("got %v", err)
			}
		})
		other.await("the plugin is asked", func() bool { return plugin.Decrypts() > asked })
	}
	read(gone) // its proof is that of all
	for range readers {
		read(t.Context())
	}
	leave()
	goOn()
	all.Wait()
	if n := plugin.Decrypts() - before; n > 1+readers+proof {
		t.Errorf("the plugin was asked %d times, want %d", n, 1+readers+proof)
	}
}

// What a plugin says is cut, whatever it is about, and keeps its code.
func TestKMSWords(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("talking"))), quick)
	stored := f.write(secrets, plain, key)
	plugin.Rotate("2")
	other := &fixture{t: t, file: f.file} // does not know the seed
	other.start(quick)
	plugin.SetWords("begin " + strings.Repeat("ü", 10000))
	for _, code := range []codes.Code{codes.Unknown, codes.InvalidArgument, codes.Unavailable} {
		for _, row := range []bool{true, false} {
			if row {
				plugin.Forget("1", code)
				plugin.Refuse(codes.OK)
			} else {
				plugin.Refuse(code)
			}
			_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
			if err == nil || status.Code(err) != code || len(err.Error()) > 1000 || !utf8.ValidString(err.Error()) || !strings.Contains(err.Error(), "desc = begin ") {
				t.Errorf("%s, about the row %t: got %.2000q", code, row, err)
			}
		}
	}
	plugin.Refuse(codes.Unknown)
	plugin.Rotate("3")
	f.await("notice", func() bool { return f.CheckKMS(t.Context()) != nil })
	if err := f.CheckKMS(t.Context()); len(err.Error()) > 1000 {
		t.Errorf("check says %.2000q", err)
	}
	if n := len(f.log.String()); n > 10000 {
		t.Errorf("the log has %d bytes", n)
	}
}

// A plugin that hangs is unavailable.
func TestKMSHangs(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("hanging"))), quick)
	stored := f.write(secrets, plain, key)
	other := open(t, Config(Entry("secrets", plugin.ProviderWithin("hanging", 100*time.Millisecond))), quick)
	goOn := plugin.Hang()
	defer goOn()
	_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
	wantUnavailable(t, err, "DeadlineExceeded")
	other.await("notice", func() bool { return other.CheckKMS(t.Context()) != nil })
	f.wantRead(secrets, stored, key, false) // it knows the seed
	goOn()
	other.await("recovery", func() bool {
		_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
		return err == nil && other.CheckKMS(t.Context()) == nil
	})
	other.wantRead(secrets, stored, key, false)
}

// A plugin that is unwell keeps its seed.
func TestKMSUnwell(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Patient("unwell"))), quick)
	plugin.SetHealthz("the vault is sealed")
	f.await("notice", func() bool {
		err := f.CheckKMS(t.Context())
		return err != nil && strings.Contains(err.Error(), "the vault is sealed")
	})
	f.wantRead(secrets, f.write(secrets, plain, key), key, false)
}
