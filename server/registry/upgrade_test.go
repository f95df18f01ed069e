package registry

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// Everything that is read has been upgraded, and a write of what was read stores it.
func TestUpgrade(t *testing.T) {
	s := testStore(t, nil)
	ctx := inNamespace(t, "default")
	created := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"old":1}`))
	mustCreate(t, s, ctx, widget(t, `"name":"b"`, `{"fresh":true}`))

	upgrades := 0
	s.cfg.Upgrade = func(obj *document.Document) (*document.Document, error) {
		upgrades++
		if obj.Get("spec", "fresh").Exists() {
			return obj, nil
		}
		return obj.Edit().Delete("spec", "old").Set(true, "spec", "fresh").Document()
	}
	wantFresh := func(obj *document.Document) {
		t.Helper()
		if fresh, _ := obj.Get("spec", "fresh").Bool(); !fresh || obj.Get("spec", "old").Exists() {
			t.Errorf("read %s", obj.Bytes())
		}
	}
	for range 3 {
		obj, err := s.Get(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		wantFresh(obj)
		if rest.MetaOf(obj).ResourceVersion() != rest.MetaOf(created).ResourceVersion() {
			t.Errorf("read at %s", rest.MetaOf(obj).ResourceVersion())
		}
		list, err := s.List(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			wantFresh(item)
		}
	}
	if upgrades != 2 {
		t.Errorf("%d upgrades for two rows", upgrades)
	}

	updated := mustUpdate(t, s, ctx, "a", rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		wantFresh(old)
		return old, nil
	}))
	if rest.MetaOf(updated).ResourceVersion() == rest.MetaOf(created).ResourceVersion() {
		t.Error("an update of an upgraded object is not stored")
	}
	s.cfg.Upgrade = nil
	obj, err := s.Get(ctx, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFresh(obj)

	mustCreate(t, s, ctx, widget(t, `"name":"c"`, `{}`))
	s.cfg.Upgrade = func(*document.Document) (*document.Document, error) { return nil, errors.New("no object") }
	_, err = s.Get(ctx, "c", &metav1.GetOptions{})
	wantStatus(t, err, 500, "no object")
}

func TestDowngrade(t *testing.T) {
	s := testStore(t, nil)
	s.cfg.Downgrade = func(obj *document.Document) (*document.Document, error) {
		return obj.Edit().Delete("spec", "beta").Document()
	}
	ctx := inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"beta":1,"kept":1}`))
	obj := mustUpdate(t, s, ctx, "a", edit(int64(2), "spec", "beta"))
	if obj.Get("spec", "beta").Exists() || !obj.Get("spec", "kept").Exists() {
		t.Errorf("stored %s", obj.Bytes())
	}
}

func TestUpgradesAreBounded(t *testing.T) {
	var u upgrades
	large := mustParse(t, `{"a":"b"}`)
	for rv := range uint64(maxUpgrades + 10) {
		u.set(rv, nil)
	}
	if len(u.byRV) != 10 {
		t.Errorf("%d are remembered", len(u.byRV))
	}
	u.bytes = maxUpgradeBytes + 1
	u.set(1, large)
	if len(u.byRV) != 1 || u.bytes != len(large.Bytes()) {
		t.Errorf("%d are remembered, %d bytes", len(u.byRV), u.bytes)
	}
	if obj, known := u.get(1); obj != large || !known {
		t.Error("the latest is not remembered")
	}
}
