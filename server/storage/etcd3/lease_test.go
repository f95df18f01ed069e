package etcd3_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	testclock "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

func TestLeases(t *testing.T) {
	client := etcd3test.New(t)
	clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
	leases, err := etcd3.NewLeases(etcd3.LeasesConfig{Client: client, MaxObjects: 3, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	get := func(ttl uint64) clientv3.LeaseID {
		t.Helper()
		id, err := leases.Get(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if id := get(0); id != clientv3.NoLease {
		t.Errorf("no ttl: got lease %d", id)
	}
	first := get(3600)
	info, err := client.TimeToLive(t.Context(), first)
	if err != nil || info.GrantedTTL != 3660 {
		t.Errorf("granted %d s, %v, want 3600 and the reuse of 60", info.GrantedTTL, err)
	}
	clock.SetTime(clock.Now().Add(30 * time.Second))
	if id := get(3600); id != first {
		t.Error("not reused within the reuse time")
	}
	if id := get(60); id == first {
		t.Error("a short ttl shares a long lease")
	}
	second := get(3600)
	get(3600)
	get(3600)
	third := get(3600)
	if third == second {
		t.Error("shared by more objects than allowed")
	}
	clock.SetTime(clock.Now().Add(61 * time.Second))
	fourth := get(3600)
	if fourth == third {
		t.Error("reused beyond the reuse time")
	}
	leases.Forget(third)
	if id := get(3600); id != fourth {
		t.Error("forgot another lease")
	}
	leases.Forget(fourth)
	if id := get(3600); id == fourth {
		t.Error("a forgotten lease is handed out")
	}
}

// A shared lease that was revoked behind the back of the Store is replaced.
func TestLeaseRevoked(t *testing.T) {
	store, client := etcd3test.NewStore(t)
	ctx := t.Context()
	a, b := storagetest.NewObject("a"), storagetest.NewObject("b")
	if _, err := store.Create(ctx, a.Key(), a.JSON(), 3600); err != nil {
		t.Fatal(err)
	}
	list, err := client.Leases(ctx)
	if err != nil || len(list.Leases) != 1 {
		t.Fatalf("got leases %v, %v, want one", list, err)
	}
	if _, err := client.Revoke(ctx, list.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(ctx, a.Key(), storage.GetOptions{}); !storage.IsNotFound(err) {
		t.Errorf("got error %v, want not found", err)
	}
	if _, err := store.Create(ctx, b.Key(), b.JSON(), 3600); err != nil {
		t.Errorf("create with a revoked lease: %v", err)
	}
}
