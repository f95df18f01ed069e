package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
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

// freshly is a store whose upgrade marks the objects that it has seen, and how often it did.
func freshly(t *testing.T) (s *Store, upgrades *int) {
	t.Helper()
	s, upgrades = testStore(t, nil), new(int)
	s.cfg.Upgrade = func(obj *document.Document) (*document.Document, error) {
		*upgrades++
		if obj.Get("spec", "new").Exists() {
			return obj, nil
		}
		return obj.Edit().Set(true, "spec", "fresh").Document()
	}
	return s, upgrades
}

// A row is read as what it is, whatever else had its revision: an etcd that was restored gives revisions again, and a
// transaction writes several rows at one.
func TestUpgradeOfOneRevision(t *testing.T) {
	const at = 7
	row := func(name, spec string) storage.Row {
		key := "/registry/example.com/widgets/default/" + name
		return storage.Row{Key: key, ResourceVersion: at, Value: storage.NewText(widget(t, `"name":"`+name+`","namespace":"default","resourceVersion":"7","uid":"u"`, spec).Bytes())}
	}
	tests := []struct {
		name          string
		first, second storage.Row
		want          string
	}{
		{"another history, both are upgraded", row("a", `{"n":1}`), row("a", `{"n":2}`), `{"fresh":true,"n":2}`},
		{"another history, only the lost one stayed", row("a", `{"n":1,"new":1}`), row("a", `{"n":2}`), `{"fresh":true,"n":2}`},
		{"another history, only the lost one is upgraded", row("a", `{"n":1}`), row("a", `{"n":2,"new":1}`), `{"n":2,"new":1}`},
		{"another row of the transaction", row("a", `{"n":1}`), row("b", `{"n":1}`), `{"fresh":true,"n":1}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := freshly(t)
			for range 2 {
				for _, row := range []storage.Row{tc.first, tc.second} {
					obj, err := s.read(row)
					if err != nil {
						t.Fatal(err)
					}
					if stored := document.FromCanonical(row.Value.Bytes()); rest.MetaOf(obj).Name() != rest.MetaOf(stored).Name() || !obj.Get("spec", "n").Equal(stored.Get("spec", "n")) {
						t.Errorf("read %s of %s", obj.Bytes(), row.Value)
					}
				}
			}
			obj, err := s.read(tc.second)
			if err != nil || string(obj.Get("spec").Raw()) != tc.want {
				t.Errorf("read %s, %v, want %s", obj.Bytes(), err, tc.want)
			}
		})
	}
}

// A row that is read again, into the same memory or other, is not upgraded again.
func TestUpgradeIsRemembered(t *testing.T) {
	for _, spec := range []string{`{"old":1}`, `{"new":1}`} {
		s, upgrades := freshly(t)
		value := widget(t, `"name":"a","namespace":"default","resourceVersion":"7"`, spec).Bytes()
		for _, row := range []storage.Row{{Value: storage.NewText(value)}, {Value: storage.NewText(value)}, {Value: storage.NewText(bytes.Clone(value))}, {Value: storage.NewText(value)}} {
			row.ResourceVersion = 7
			if _, err := s.read(row); err != nil {
				t.Fatal(err)
			}
			runtime.GC() // the copy is not kept
		}
		if *upgrades != 1 {
			t.Errorf("%s: %d upgrades of one row", spec, *upgrades)
		}
	}
}

// Many read rows that share revisions, into the same memory and other, while more are remembered than there is room for.
func TestUpgradesHammer(t *testing.T) {
	const revisions, variants = 4, 3
	var u upgrades
	var rows []storage.Row
	var objects []*document.Document
	for rv := range uint64(revisions) {
		for v := range variants {
			obj := mustParse(t, fmt.Sprintf(`{"rv":%d,"v":%d}`, rv, v))
			objects = append(objects, obj)
			rows = append(rows, storage.Row{ResourceVersion: rv, Value: storage.NewText(bytes.Clone(obj.Bytes()))})
		}
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 3000 {
				n := (i*7 + worker) % len(rows)
				row := rows[n]
				if i%3 == 0 {
					row.Value = storage.NewText(bytes.Clone(row.Value.Bytes()))
				}
				obj, known := u.get(row)
				switch {
				case !known:
					u.set(row, objects[n])
				case obj != objects[n]:
					t.Errorf("%s is %s", row.Value, obj.Bytes())
					return
				}
				if worker == 0 && i%500 == 0 {
					u.mu.Lock()
					u.bytes = maxUpgradeBytes + 1
					u.mu.Unlock()
					runtime.GC()
				}
			}
		})
	}
	group.Wait()
}

func TestUpgradesAreBounded(t *testing.T) {
	var u upgrades
	large := mustParse(t, `{"a":"b"}`)
	row := func(rv uint64) storage.Row {
		return storage.Row{ResourceVersion: rv, Value: storage.NewText([]byte(fmt.Sprint(rv)))}
	}
	for rv := range uint64(maxUpgrades + 10) {
		u.set(row(rv), nil)
	}
	if len(u.byRV) != 10 {
		t.Errorf("%d are remembered", len(u.byRV))
	}
	u.bytes = maxUpgradeBytes + 1
	for range 3 {
		u.set(row(1), large)
	}
	if len(u.byRV) != 1 || u.bytes != len(large.Bytes()) {
		t.Errorf("%d are remembered, %d bytes", len(u.byRV), u.bytes)
	}
	if obj, known := u.get(row(1)); obj != large || !known {
		t.Error("the latest is not remembered")
	}
}

// BenchmarkUpgraded is what each row of a list costs whose upgrade is known.
func BenchmarkUpgraded(b *testing.B) {
	var u upgrades
	rows := make([]storage.Row, 10_000)
	for i := range rows {
		rows[i] = storage.Row{ResourceVersion: uint64(i), Value: storage.NewText(bytes.Repeat([]byte{byte(i)}, 2048))}
		u.set(rows[i], nil)
	}
	for i := 0; b.Loop(); i++ {
		if _, known := u.get(rows[i%len(rows)]); !known {
			b.Fatal("not known")
		}
	}
}
