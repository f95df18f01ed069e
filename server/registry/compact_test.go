package registry

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

// managedWidget is a widget as two managers have written it: both entries are those of others, but for the time.
func managedWidget(t *testing.T, name string) *document.Document {
	entry := func(manager string) string {
		var owned []string
		for i := range 20 {
			owned = append(owned, fmt.Sprintf(`"f:%s%02d":{}`, manager, i))
		}
		return `{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{` + strings.Join(owned, ",") + `}},"manager":"` + manager +
			`","operation":"Update","time":"2026-01-02T03:04:0` + fmt.Sprint(len(name)) + `Z"}`
	}
	return widget(t, `"labels":{"in":"yes","quote":"a"},"managedFields":[`+entry("one")+`,`+entry("two")+`],"name":"`+name+`"`, `{"old":"`+name+`"}`)
}

// What is read through a cache, whose rows share what they have in common, is what etcd has, byte for byte.
func TestRowsThatShare(t *testing.T) {
	for _, upgrades := range []bool{false, true} {
		t.Run(fmt.Sprintf("upgrade %t", upgrades), func(t *testing.T) {
			var cache, rows storage.Interface
			s := onEtcd(t, etcd3test.New(t), func(c *cacher.Config) { rows = c.Storage })
			cache = s.cfg.Storage
			whole, err := New(Config{Resource: widgets, Prefix: s.cfg.Prefix, Storage: rows, Strategy: s.cfg.Strategy})
			if err != nil {
				t.Fatal(err)
			}
			ctx := inNamespace(t, "default")
			names := []string{"a", "bb", "ccc", "dddd"}
			for _, name := range names {
				mustCreate(t, s, ctx, managedWidget(t, name))
			}
			if upgrades {
				s.cfg.Upgrade = func(obj *document.Document) (*document.Document, error) {
					return obj.Edit().Set(obj.Get("spec", "old").String(), "spec", "new").Document()
				}
				whole.cfg.Upgrade = s.cfg.Upgrade
			}
			same := func(what string, got, want []string) {
				t.Helper()
				if !slices.Equal(got, want) {
					t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
				}
			}
			get := func(from *Store, name, rv string) []string {
				obj, err := from.Get(ctx, name, &metav1.GetOptions{ResourceVersion: rv})
				if err != nil {
					t.Fatal(err)
				}
				return []string{string(obj.Bytes())}
			}
			list := func(from *Store, spell func(*document.Document) []byte) (out []string) {
				all, err := from.List(ctx, &internalversion.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, obj := range all.Items {
					out = append(out, string(spell(obj)))
				}
				return append(out, all.ResourceVersion)
			}
			joined := func(obj *document.Document) []byte { return slices.Concat(obj.Pieces(nil)...) }
			indexed := func(obj *document.Document) []byte { return obj.Root().Raw() }

			before := list(whole, (*document.Document).Bytes)
			for range 2 { // what is upgraded is remembered
				same("list", list(s, (*document.Document).Bytes), before)
				same("list of pieces", list(s, joined), before)
				same("list of what is indexed", list(s, indexed), before)
				for _, name := range names {
					same("get", get(s, name, ""), get(whole, name, ""))
					same("get at 0", get(s, name, "0"), get(whole, name, ""))
				}
			}
			for _, name := range names[1:] { // the first had nobody to share with
				row, err := cache.Get(ctx, s.cfg.Prefix+"/default/"+name, storage.GetOptions{ResourceVersion: "0"})
				if n := len(row.Value.Pieces(nil)); err != nil || n < 5 {
					t.Fatalf("row %s is in %d pieces: %v", name, n, err)
				}
			}

			watch := func(from *Store, o internalversion.ListOptions) rest.Watch {
				o.ResourceVersion = before[len(before)-1]
				w, err := from.Watch(ctx, &o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(w.Stop)
				return w
			}
			selected := internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"in": "yes"})}
			all, allWhole := watch(s, internalversion.ListOptions{}), watch(whole, internalversion.ListOptions{})
			some, someWhole := watch(s, selected), watch(whole, selected)

			updated := mustUpdate(t, s, ctx, "bb", edit("changed", "spec", "other"))
			same("update", []string{string(updated.Bytes())}, get(whole, "bb", ""))
			same("get of what was updated", get(s, "bb", ""), get(whole, "bb", ""))
			mustUpdate(t, s, ctx, "ccc", edit("no", "metadata", "labels", "in")) // goes out of the selection
			deleted, _, err := s.Delete(ctx, "dddd", nil, &metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			of := events(t, ctx, allWhole, 3)
			same("watch", events(t, ctx, all, 3), of)
			same("watch with a selector", events(t, ctx, some, 3), events(t, ctx, someWhole, 3))
			same("delete", []string{"DELETED " + string(deleted.Bytes())}, of[2:])
			same("list after it all", list(s, joined), list(whole, (*document.Document).Bytes))
		})
	}
}

// What became of a row that shares is remembered by where it is, and read again without putting its text together.
func TestUpgradedRowsThatShare(t *testing.T) {
	s := onEtcd(t, etcd3test.New(t), func(*cacher.Config) {})
	s.cfg.Upgrade = func(obj *document.Document) (*document.Document, error) {
		return obj.Edit().Set(true, "spec", "new").Document()
	}
	ctx := inNamespace(t, "default")
	mustCreate(t, s, ctx, managedWidget(t, "a"))
	mustCreate(t, s, ctx, managedWidget(t, "bb"))
	if _, err := s.List(ctx, nil); err != nil { // the cache has come to it
		t.Fatal(err)
	}
	row, err := s.cfg.Storage.Get(ctx, s.cfg.Prefix+"/default/bb", storage.GetOptions{ResourceVersion: "0"})
	if err != nil || len(row.Value.Pieces(nil)) < 5 {
		t.Fatalf("row %v: %v", row, err)
	}
	if _, err := s.read(row); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if at := s.upgrades.byRV[row.ResourceVersion].stored.Value(); at != row.Value.Place() {
		t.Errorf("the row is remembered at %p, and is at %p", at, row.Value.Place())
	}
	least := 1.0
	for attempt := 0; attempt < 100 && least > 0; attempt++ { // the etcd and the cache in this process allocate too, now and then
		least = min(least, testing.AllocsPerRun(10, func() {
			if obj, err := s.read(row); err != nil || !obj.Get("spec", "new").Exists() {
				t.Errorf("read: %v", err)
			}
		}))
	}
	if least > 0 {
		t.Error("to read what is remembered allocates")
	}
}

// events returns the next n events of a watch, spelled.
func events(t *testing.T, ctx context.Context, w rest.Watch, n int) (out []string) {
	t.Helper()
	for len(out) < n {
		batch, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch {
			out = append(out, e.Type+" "+string(e.Object.Bytes()))
		}
	}
	return out
}
