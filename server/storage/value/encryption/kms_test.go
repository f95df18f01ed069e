package encryption_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

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
	f := open(t, Config(Entry("secrets", plugin.Provider("rotation"))), quick)
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
	intervals.SeedTTL = 300 * time.Millisecond
	f := open(t, Config(Entry("secrets", plugin.Provider("away"))), intervals)
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
	f := open(t, Config(Entry("secrets", plugin.Provider("refusing"))), quick)
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

// A plugin that hangs is unavailable.
func TestKMSHangs(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", strings.Replace(plugin.Provider("hanging"), "timeout: 1s", "timeout: 50ms", 1))), quick)
	stored := f.write(secrets, plain, key)
	other := &fixture{t: t, file: f.file}
	other.start(quick)
	goOn := plugin.Hang()
	defer goOn()
	_, _, err := other.For(secrets).TransformFromStorage(t.Context(), stored, key)
	wantUnavailable(t, err, "DeadlineExceeded")
	other.await("notice", func() bool { return other.CheckKMS(t.Context()) != nil })
	f.wantRead(secrets, stored, key, false) // it knows the seed
	goOn()
	other.await("recovery", func() bool { return other.CheckKMS(t.Context()) == nil })
	other.wantRead(secrets, stored, key, false)
}

// A plugin that is unwell keeps its seed.
func TestKMSUnwell(t *testing.T) {
	plugin := NewPlugin(t)
	f := open(t, Config(Entry("secrets", plugin.Provider("unwell"))), quick)
	plugin.SetHealthz("the vault is sealed")
	f.await("notice", func() bool {
		err := f.CheckKMS(t.Context())
		return err != nil && strings.Contains(err.Error(), "the vault is sealed")
	})
	f.wantRead(secrets, f.write(secrets, plain, key), key, false)
}
