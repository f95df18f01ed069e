package storagetest

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// list lists the rows below Prefix.
func list(ctx context.Context, t testing.TB, store storage.Interface, opts storage.ListOptions) storage.List {
	t.Helper()
	l, err := store.GetList(ctx, Prefix, opts)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, row := range l.Rows {
		if row.ResourceVersion > l.ResourceVersion {
			t.Errorf("list at %d holds %s at %d", l.ResourceVersion, row.Key, row.ResourceVersion)
		}
	}
	return l
}

// paged returns options for a page of all rows.
func paged(limit int64, token string) storage.ListOptions {
	opts := everything()
	opts.Predicate.Limit = limit
	opts.Predicate.Continue = token
	return opts
}

// RunTestGetList: the rows below a prefix, in the order of their keys, without those
// of another resource or namespace whose name begins alike.
func RunTestGetList(ctx context.Context, t *testing.T, store storage.Interface) {
	if l := list(ctx, t, store, everything()); len(l.Rows) != 0 || l.Continue != "" {
		t.Errorf("empty list: got %+v", l)
	}
	b, a := NewObject("b"), NewObject("a")
	other := NewObject("c")
	other.Namespace = "test-2"
	var last storage.Row
	for _, o := range []Object{b, a, other} {
		last = Create(ctx, t, store, o)
	}
	current, err := store.GetCurrentResourceVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l := list(ctx, t, store, everything())
	// "-" sorts before "/".
	wantNames(t, "all", l.Rows, "c", "a", "b")
	wantRow(t, "first", l.Rows[0], other, last.ResourceVersion)
	if l.ResourceVersion < current {
		t.Errorf("list at %d, want at least %d", l.ResourceVersion, current)
	}
	if l.Continue != "" || l.RemainingItemCount != nil {
		t.Errorf("whole list: got continue %q, remaining %v", l.Continue, l.RemainingItemCount)
	}
	l, err = store.GetList(ctx, Prefix+"test/", everything())
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, "one namespace", l.Rows, "a", "b")

	one := everything()
	one.Recursive = false
	l, err = store.GetList(ctx, a.Key(), one)
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, "one object", l.Rows, "a")
	if l, err = store.GetList(ctx, NewObject("none").Key(), one); err != nil || len(l.Rows) != 0 || l.ResourceVersion < current {
		t.Errorf("no object: got %+v, %v", l, err)
	}
	_, err = store.GetList(ctx, Prefix+"test", everything())
	wantCode(t, "prefix without a slash", err, storage.ErrCodeInvalidKey)
}

// RunTestGetListResourceVersion: what resourceVersion and its match mean.
func RunTestGetListResourceVersion(ctx context.Context, t *testing.T, store storage.Interface) {
	a, b, c := NewObject("a"), NewObject("b"), NewObject("c")
	Create(ctx, t, store, a)
	second := Create(ctx, t, store, b)
	Update(ctx, t, store, a.With("k", "v"))
	Create(ctx, t, store, c)
	last := Delete(ctx, t, store, b)
	future := last.ResourceVersion + 1000

	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	now, then := []string{"a", "c"}, []string{"a", "b"}
	tests := []struct {
		name  string
		rv    string
		match metav1.ResourceVersionMatch
		limit int64
		names []string
		// at is the resourceVersion of the list; 0: that of the last write or later.
		at   uint64
		code storage.ErrorCode
	}{
		{name: "most recent", names: now},
		{name: "most recent, limit", limit: 10, names: now},
		{name: "not older than the second", rv: rv(second.ResourceVersion), match: notOlder, names: now},
		{name: "not older than the second, limit", rv: rv(second.ResourceVersion), match: notOlder, limit: 10, names: now},
		{name: "not older than the last", rv: rv(last.ResourceVersion), match: notOlder, names: now},
		{name: "second without a match", rv: rv(second.ResourceVersion), names: now},
		{name: "second without a match, limit", rv: rv(second.ResourceVersion), limit: 10, names: then, at: second.ResourceVersion},
		{name: "exactly the second", rv: rv(second.ResourceVersion), match: exact, names: then, at: second.ResourceVersion},
		{name: "exactly the second, limit", rv: rv(second.ResourceVersion), match: exact, limit: 10, names: then, at: second.ResourceVersion},
		{name: "exactly the last", rv: rv(last.ResourceVersion), match: exact, names: now, at: last.ResourceVersion},
		{name: "future, not older", rv: rv(future), match: notOlder, code: storage.ErrCodeResourceVersionTooLarge},
		{name: "future, exactly", rv: rv(future), match: exact, code: storage.ErrCodeResourceVersionTooLarge},
		{name: "future without a match", rv: rv(future), code: storage.ErrCodeResourceVersionTooLarge},
		{name: "future without a match, limit", rv: rv(future), limit: 10, code: storage.ErrCodeResourceVersionTooLarge},
		{name: "not a number", rv: "x", code: storage.ErrCodeBadResourceVersion},
		{name: "unknown match", rv: "1", match: "About", code: storage.ErrCodeBadResourceVersion},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			opts := paged(tc.limit, "")
			opts.ResourceVersion, opts.ResourceVersionMatch = tc.rv, tc.match
			if tc.code != 0 {
				_, err := store.GetList(ctx, Prefix, opts)
				wantCode(t, "list", err, tc.code)
				return
			}
			l := list(ctx, t, store, opts)
			wantNames(t, "list", l.Rows, tc.names...)
			if tc.at != 0 && l.ResourceVersion != tc.at || l.ResourceVersion < tc.at || (tc.at == 0 && l.ResourceVersion < last.ResourceVersion) {
				t.Errorf("list at %d, want %d (0: at least %d)", l.ResourceVersion, tc.at, last.ResourceVersion)
			}
		})
	}
	t.Run("any", func(t *testing.T) {
		// Any state will do, but it must be one.
		opts := withRV(everything(), "0")
		for _, opts.ResourceVersionMatch = range []metav1.ResourceVersionMatch{"", notOlder} {
			for _, row := range list(ctx, t, store, opts).Rows {
				if row.ResourceVersion == 0 || row.Value.IsZero() {
					t.Errorf("row %+v", row)
				}
			}
		}
	})
	t.Run("one object, exactly", func(t *testing.T) {
		opts := withRV(everything(), rv(second.ResourceVersion))
		opts.Recursive, opts.ResourceVersionMatch = false, exact
		l, err := store.GetList(ctx, b.Key(), opts)
		if err != nil {
			t.Fatal(err)
		}
		wantNames(t, "list", l.Rows, "b")
		if l.ResourceVersion != second.ResourceVersion {
			t.Errorf("list at %d, want %d", l.ResourceVersion, second.ResourceVersion)
		}
	})
}

// RunTestGetListPages: pages show one state, whatever is written meanwhile, and count what remains.
func RunTestGetListPages(ctx context.Context, t *testing.T, store storage.Interface) {
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		Create(ctx, t, store, NewObject(name))
	}
	page := list(ctx, t, store, paged(2, ""))
	at := page.ResourceVersion
	wantNames(t, "first page", page.Rows, "a", "b")
	wantRemaining(t, "first page", page, 3)

	Create(ctx, t, store, NewObject("bb"))
	Update(ctx, t, store, NewObject("c").With("k", "later"))
	Delete(ctx, t, store, NewObject("d"))

	token := page.Continue
	page = list(ctx, t, store, paged(2, token))
	wantNames(t, "second page", page.Rows, "c", "d")
	wantRemaining(t, "second page", page, 1)
	if page.Rows[0].Value.String() != string(NewObject("c").At(page.Rows[0].ResourceVersion).JSON()) {
		t.Errorf("second page shows a later write: %s", page.Rows[0].Value)
	}
	if page.ResourceVersion != at {
		t.Errorf("second page at %d, want %d", page.ResourceVersion, at)
	}
	page = list(ctx, t, store, paged(2, page.Continue))
	wantNames(t, "last page", page.Rows, "e")
	if page.Continue != "" || page.RemainingItemCount != nil || page.ResourceVersion != at {
		t.Errorf("last page: got continue %q, remaining %v at %d", page.Continue, page.RemainingItemCount, page.ResourceVersion)
	}
	// Without a limit the rest comes at once; resourceVersion "0" may go with a token.
	page = list(ctx, t, store, withRV(paged(0, token), "0"))
	wantNames(t, "rest", page.Rows, "c", "d", "e")
	if page.Continue != "" || page.ResourceVersion != at {
		t.Errorf("rest: got continue %q at %d", page.Continue, page.ResourceVersion)
	}
	// A page that is filled by the last row is the last.
	wantNames(t, "exact fit", list(ctx, t, store, paged(5, "")).Rows, "a", "b", "bb", "c", "e")
	if page := list(ctx, t, store, paged(5, "")); page.Continue != "" || page.RemainingItemCount != nil {
		t.Errorf("exact fit: got continue %q, remaining %v", page.Continue, page.RemainingItemCount)
	}
}

func wantRemaining(t testing.TB, what string, l storage.List, n int64) {
	t.Helper()
	if l.Continue == "" || l.RemainingItemCount == nil || *l.RemainingItemCount != n {
		t.Errorf("%s: got continue %q, remaining %v, want a token and %d", what, l.Continue, l.RemainingItemCount, n)
	}
}

// RunTestGetListBadContinue: a token that is not ours, climbs out of the prefix, or
// comes with a resourceVersion, is refused.
func RunTestGetListBadContinue(ctx context.Context, t *testing.T, store storage.Interface) {
	for _, name := range []string{"a", "b", "c"} {
		Create(ctx, t, store, NewObject(name))
	}
	token := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	tests := []struct{ name, token, rv string }{
		{name: "not base64", token: "?"},
		{name: "not JSON", token: token("x")},
		{name: "another version", token: token(`{"v":"v9","rv":1,"start":"test/a\u0000"}`)},
		{name: "no revision", token: token(`{"v":"meta.k8s.io/v1","start":"test/a\u0000"}`)},
		{name: "revision below -1", token: token(`{"v":"meta.k8s.io/v1","rv":-2,"start":"test/a\u0000"}`)},
		{name: "no start", token: token(`{"v":"meta.k8s.io/v1","rv":1}`)},
		{name: "climbing start", token: token(`{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets/a\u0000"}`)},
		{name: "climbing start behind a slash", token: token(`{"v":"meta.k8s.io/v1","rv":1,"start":"/../a\u0000"}`)},
		{name: "unclean start", token: token(`{"v":"meta.k8s.io/v1","rv":1,"start":"test//a\u0000"}`)},
		{name: "with a resourceVersion", token: list(ctx, t, store, paged(1, "")).Continue, rv: "1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := store.GetList(ctx, Prefix, withRV(paged(1, tc.token), tc.rv))
			wantCode(t, "list", err, storage.ErrCodeBadContinue)
		})
	}
}

// RunTestGetListSelectors: selectors leave rows out, pages are full nevertheless, and
// what remains is not counted.
func RunTestGetListSelectors(ctx context.Context, t *testing.T, store storage.Interface) {
	const n = 40
	for i := range n {
		o := NewObject(fmt.Sprintf("o%02d", i)).Labelled("third", fmt.Sprint(i%3 == 0)).With("n", fmt.Sprint(i%10))
		Create(ctx, t, store, o)
	}
	var want []string
	for i := 0; i < n; i += 3 {
		want = append(want, fmt.Sprintf("o%02d", i))
	}
	opts := everything()
	opts.Predicate = Select(t, "third=true", "")
	wantNames(t, "by label", list(ctx, t, store, opts).Rows, want...)
	for limit := int64(1); limit <= int64(len(want))+1; limit += 4 {
		var got []storage.Row
		opts.Predicate.Continue = ""
		for {
			opts.Predicate.Limit = limit
			page := list(ctx, t, store, opts)
			got = append(got, page.Rows...)
			if page.RemainingItemCount != nil {
				t.Errorf("limit %d: remaining %d counted in spite of a selector", limit, *page.RemainingItemCount)
			}
			if page.Continue == "" {
				break
			}
			if int64(len(page.Rows)) != limit {
				t.Errorf("limit %d: page of %d rows with more to come", limit, len(page.Rows))
			}
			opts.Predicate.Continue = page.Continue
		}
		wantNames(t, fmt.Sprintf("by label, limit %d", limit), got, want...)
	}
	opts = everything()
	opts.Predicate = Select(t, "third=true", "data.n=0")
	wantNames(t, "by label and field", list(ctx, t, store, opts).Rows, "o00", "o30")
	opts.Predicate = Select(t, "", "metadata.name=o07")
	wantNames(t, "by name", list(ctx, t, store, opts).Rows, "o07")
	opts.Predicate = Select(t, "third=maybe", "")
	opts.Predicate.Limit = 1
	if l := list(ctx, t, store, opts); len(l.Rows) != 0 || l.Continue != "" {
		t.Errorf("none: got %d rows, continue %q", len(l.Rows), l.Continue)
	}
}

// RunTestGetListCompacted: an exact revision that is gone is Expired; a continue token
// of one too, with a token that goes on from the same key with the current state.
func RunTestGetListCompacted(ctx context.Context, t *testing.T, store storage.Interface, compact Compaction) {
	for _, name := range []string{"a", "b", "c", "d"} {
		Create(ctx, t, store, NewObject(name))
	}
	page := list(ctx, t, store, paged(2, ""))
	Delete(ctx, t, store, NewObject("c"))
	last := Create(ctx, t, store, NewObject("e"))
	compact(ctx, t, last.ResourceVersion)

	opts := withRV(everything(), rv(page.ResourceVersion))
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	_, err := store.GetList(ctx, Prefix, opts)
	wantCode(t, "exact list", err, storage.ErrCodeExpired)
	_, err = store.GetList(ctx, Prefix, withRV(paged(2, ""), rv(page.ResourceVersion)))
	wantCode(t, "list with a limit", err, storage.ErrCodeExpired)

	_, err = store.GetList(ctx, Prefix, paged(1, page.Continue))
	wantCode(t, "page", err, storage.ErrCodeExpired)
	var expired *storage.Error
	if !asError(err, &expired) || expired.Continue == "" {
		t.Fatalf("page: error %v holds no token", err)
	}
	rest := list(ctx, t, store, paged(1, expired.Continue))
	wantNames(t, "inconsistent page", rest.Rows, "d")
	if rest.ResourceVersion < last.ResourceVersion {
		t.Errorf("inconsistent page at %d, want at least %d", rest.ResourceVersion, last.ResourceVersion)
	}
	// From there on the list is consistent again.
	deleted := Delete(ctx, t, store, NewObject("e"))
	wantNames(t, "page behind", list(ctx, t, store, paged(1, rest.Continue)).Rows, "e")
	// What is not exact is not affected. A cache may serve any state after the revision.
	opts.ResourceVersion = rv(deleted.ResourceVersion)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	wantNames(t, "not older", list(ctx, t, store, opts).Rows, "a", "b", "d")
}
