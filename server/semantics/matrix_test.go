package semantics_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// atOnce is how many requests are under way at a time: many wait for a revision that does not come.
const atOnce = 50

// TestMatrix asks for every combination of resourceVersion, its match, limit, continue token and selector, by get,
// list and watch, of a built-in resource and of a custom one, and compares the answers with those of a kube-apiserver
// that are kept in testdata/matrix: once with the watch cache and once without. Where WEIR_MATRIX_URL names a
// kube-apiserver, its answers are written there instead; see the target matrix-golden of the Makefile.
func TestMatrix(t *testing.T) {
	if server, ok := dialMatrixServer(t); ok {
		worlds := prepareMatrix(t, server)
		for i, answers := range askMatrix(t, worlds) {
			writeGolden(t, worlds[i].name, server.cached, answers)
		}
		return
	}
	for _, tc := range []struct {
		name       string
		cached     bool
		deviations []deviation
	}{
		{"cache", true, slices.Concat(deviations, deviationsOfCache)},
		{"no cache", false, slices.Concat(deviations, deviationsWithoutCache)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			worlds := prepareMatrix(t, startMatrixServer(t, tc.cached))
			used := make([]bool, len(tc.deviations))
			for i, answers := range askMatrix(t, worlds) {
				compareGolden(t, worlds[i].name, readGolden(t, worlds[i].name, tc.cached), answers, tc.deviations, used)
			}
			for i, d := range tc.deviations {
				if !used[i] {
					t.Errorf("no case deviates as said: %s: %s", d.cases, d.reason)
				}
			}
		})
	}
}

// askMatrix asks all cases of all worlds and returns the answers of each by case.
func askMatrix(t *testing.T, worlds []*matrixWorld) []map[string]string {
	t.Helper()
	answers := make([]map[string]string, len(worlds))
	var group sync.WaitGroup
	for i, w := range worlds {
		group.Go(func() { answers[i] = w.askAll(t.Context(), w.reads(), func() {}) })
	}
	group.Wait()
	// The watches of all worlds are on before anything is written.
	watched, written := make([]map[string]string, len(worlds)), make([]map[string]string, len(worlds))
	var begun sync.WaitGroup
	for i, w := range worlds {
		begun.Add(len(w.watches()))
		group.Go(func() { watched[i] = w.askAll(t.Context(), w.watches(), begun.Done) })
	}
	begun.Wait()
	for i, w := range worlds {
		w.mark(t)
		group.Go(func() { written[i] = w.askInTurn(t.Context(), w.writes()) })
	}
	group.Wait()
	for i := range worlds {
		maps.Copy(answers[i], watched[i])
		maps.Copy(answers[i], written[i])
	}
	return answers
}

// askAll asks at the same time, but for what waits for an answer, of which there is not too much at a time.
func (w *matrixWorld) askAll(ctx context.Context, requests []matrixRequest, opened func()) map[string]string {
	var mu sync.Mutex
	var group sync.WaitGroup
	out := make(map[string]string, len(requests))
	room := make(chan struct{}, atOnce)
	for _, r := range requests {
		room <- struct{}{}
		group.Go(func() {
			answer := w.ask(ctx, r, func() {
				<-room
				opened()
			})
			mu.Lock()
			defer mu.Unlock()
			out[r.name] = answer
		})
	}
	group.Wait()
	return out
}

// askInTurn asks one after the other: each answer depends on what was before.
func (w *matrixWorld) askInTurn(ctx context.Context, requests []matrixRequest) map[string]string {
	out := make(map[string]string, len(requests))
	for _, r := range requests {
		out[r.name] = w.ask(ctx, r, func() {})
	}
	return out
}

// goldenFile is where the answers for a resource are kept. Of a server without a cache those are kept that differ from
// those of one with it.
func goldenFile(resource string, cached bool) string {
	if !cached {
		resource += ".nocache"
	}
	return filepath.Join("testdata", "matrix", resource+".golden")
}

// writeGolden writes the cases below their answers: most answers have many.
func writeGolden(t *testing.T, resource string, cached bool, answers map[string]string) {
	t.Helper()
	if !cached {
		known := readGolden(t, resource, true)
		if len(known) != len(answers) {
			t.Fatalf("%s: %d cases, %d with the cache: keep the answers with it first", resource, len(answers), len(known))
		}
		maps.DeleteFunc(answers, func(name, answer string) bool { return known[name] == answer })
	}
	cases := map[string][]string{}
	for name, answer := range answers {
		cases[answer] = append(cases[answer], name)
	}
	var out strings.Builder
	for _, answer := range slices.Sorted(maps.Keys(cases)) {
		slices.Sort(cases[answer])
		fmt.Fprintf(&out, "%s\n\t%s\n", answer, strings.Join(cases[answer], "\n\t"))
	}
	file := goldenFile(resource, cached)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readGolden returns answers by case.
func readGolden(t *testing.T, resource string, cached bool) map[string]string {
	t.Helper()
	out := readGoldenFile(t, goldenFile(resource, true))
	if !cached {
		maps.Copy(out, readGoldenFile(t, goldenFile(resource, false)))
	}
	return out
}

func readGoldenFile(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	answer := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		name, isCase := strings.CutPrefix(line, "\t")
		if !isCase {
			answer = line
			continue
		}
		if _, ok := out[name]; ok {
			t.Fatalf("%s has case %q twice", file, name)
		}
		out[name] = answer
	}
	return out
}

// compareGolden holds answers against upstream's and against what is known to deviate, and marks what does.
func compareGolden(t *testing.T, resource string, want, got map[string]string, deviations []deviation, used []bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		upstream, ok := want[name]
		i := deviationOf(deviations, name, upstream)
		switch {
		case !ok:
			t.Errorf("%s: case %q has no golden answer", resource, name)
		case i < 0:
			if got[name] != upstream {
				t.Errorf("%s: %s\n   is %s\n want %s", resource, name, got[name], upstream)
			}
		case got[name] == upstream:
			t.Errorf("%s: %s does not deviate any more", resource, name)
		default:
			used[i] = true
			if !whole(deviations[i].ours, got[name]) {
				t.Errorf("%s: %s\n   is %s\n want %s\n where upstream says %s", resource, name, got[name], deviations[i].ours, upstream)
			}
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: golden case %q is not asked", resource, name)
		}
	}
}

// Of the events of a watch bookmarks are told, but for those that come since the mark has not come yet.
func TestMatrixEvents(t *testing.T) {
	w := &matrixWorld{latest: 7, objects: map[uint64]string{5: "a1", 7: "LATEST"}}
	event := func(kind string, rv int, annotations string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"kind":"Thing","metadata":{"name":"a","resourceVersion":"%d"%s}}}`+"\n", kind, rv, annotations)
	}
	mere, initial := event("BOOKMARK", 7, ""), event("BOOKMARK", 7, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
	first, mark := event("ADDED", 5, ""), event("MODIFIED", 8, "")
	const added, marked = "ADDED a@a1, ", "MODIFIED a@NEW, …"
	for body, want := range map[string]string{
		first + mark:                  added + marked,
		first + mere + mere + mark:    added + marked,
		first + initial + mere + mark: added + "BOOKMARK Thing at=LATEST k8s.io/initial-events-end=true, " + marked,
		mere + first + mark:           "BOOKMARK Thing at=LATEST, " + added + marked,
		first + mere:                  added + "BOOKMARK Thing at=LATEST, end",
	} {
		if got := w.events(strings.NewReader(body)); got != want {
			t.Errorf("of\n%s\ngot  %s\nwant %s", body, got, want)
		}
	}
}
