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
// that are kept in testdata/matrix. Where WEIR_MATRIX_URL names a kube-apiserver, its answers are written there
// instead; see the target matrix-golden of the Makefile.
func TestMatrix(t *testing.T) {
	server, isPeer := dialMatrixServer(t)
	if !isPeer {
		server = startMatrixServer(t)
	}
	worlds := prepareMatrix(t, server)
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
	used := make([]bool, len(deviations))
	for i, w := range worlds {
		file := filepath.Join("testdata", "matrix", w.name+".golden")
		if isPeer {
			writeGolden(t, file, answers[i])
			continue
		}
		t.Run(w.name, func(t *testing.T) { compareGolden(t, readGolden(t, file), answers[i], used) })
	}
	for i, d := range deviations {
		if !used[i] && !isPeer {
			t.Errorf("no case deviates as said: %s: %s", d.cases, d.reason)
		}
	}
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

// writeGolden writes the cases below their answers: most answers have many.
func writeGolden(t *testing.T, file string, answers map[string]string) {
	t.Helper()
	cases := map[string][]string{}
	for name, answer := range answers {
		cases[answer] = append(cases[answer], name)
	}
	var out strings.Builder
	for _, answer := range slices.Sorted(maps.Keys(cases)) {
		slices.Sort(cases[answer])
		fmt.Fprintf(&out, "%s\n\t%s\n", answer, strings.Join(cases[answer], "\n\t"))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readGolden returns answers by case.
func readGolden(t *testing.T, file string) map[string]string {
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
func compareGolden(t *testing.T, want, got map[string]string, used []bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		upstream, ok := want[name]
		i := deviationOf(name, upstream)
		switch {
		case !ok:
			t.Errorf("case %q has no golden answer", name)
		case i < 0:
			if got[name] != upstream {
				t.Errorf("%s\n   is %s\n want %s", name, got[name], upstream)
			}
		case got[name] == upstream:
			t.Errorf("%s does not deviate any more", name)
		default:
			used[i] = true
			if !whole(deviations[i].ours, got[name]) {
				t.Errorf("%s\n   is %s\n want %s\n where upstream says %s", name, got[name], deviations[i].ours, upstream)
			}
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("golden case %q is not asked", name)
		}
	}
}
