package etcd3_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

// TestListCompactedWithin compacts between the reads of one page: nothing that was read is lost, and a list that
// asks for no revision is never too old.
func TestListCompactedWithin(t *testing.T) {
	tests := []struct {
		name   string
		wanted []int // of ten
		limit  int64
	}{
		{"rows found before", []int{0, 5, 9}, 2},
		{"rows found after", []int{8, 9}, 2},
		{"one page", []int{1, 7}, 5},
		{"single rows", []int{0, 1, 2, 6, 9}, 1},
		{"none", nil, 3},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			client := etcd3test.New(t)
			store := newStore(t, etcd3.Config{Client: client})
			var want []string
			for i := range 10 {
				o := storagetest.NewObject(fmt.Sprintf("o%d", i)).With("wanted", "no")
				if slices.Contains(tc.wanted, i) {
					o = storagetest.NewObject(o.Name).With("wanted", "yes")
					want = append(want, o.Key())
				}
				storagetest.Create(t.Context(), t, store, o)
			}
			opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
				Label: labels.Everything(), Field: fields.OneTermEqualSelector("data.wanted", "yes"), Limit: tc.limit,
				GetAttrs: compacting(t, client),
			}}
			var got []string
			for pages := 0; ; pages++ {
				list, err := store.GetList(t.Context(), storagetest.Prefix, opts)
				var expired *storage.Error
				switch {
				case pages > 20:
					t.Fatal("the list does not end")
				case err == nil:
					opts.Predicate.Continue = list.Continue
				case errors.As(err, &expired) && expired.Code == storage.ErrCodeExpired && expired.Continue != "" && opts.Predicate.Continue != "":
					opts.Predicate.Continue = expired.Continue
					continue
				default:
					t.Fatalf("page %d: %v", pages, err)
				}
				for _, row := range list.Rows {
					got = append(got, row.Key)
				}
				if list.Continue == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// compacting reads attributes, and compacts all that is past at some of the looks.
func compacting(t *testing.T, client *clientv3.Client) storage.AttrFunc {
	looks := 0
	return func(value []byte) (labels.Set, fields.Set, error) {
		looks++
		if looks%3 == 0 && looks < 15 {
			resp, err := client.Put(t.Context(), "/other", "x")
			if err != nil {
				return nil, nil, err
			}
			if _, err := client.Compact(t.Context(), resp.Header.Revision); err != nil {
				return nil, nil, err
			}
		}
		return storagetest.Attrs(value)
	}
}
