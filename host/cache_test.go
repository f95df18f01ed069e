package host_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// cacheUses are the uses of the code cache by result.
func cacheUses(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	uses := map[string]float64{}
	for _, m := range series(t, reg, "weir_host_code_cache_total") {
		uses[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return uses
}

// codeFiles are the engine's files in a cache.
func codeFiles(t *testing.T, dir string) (files []string, size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		if d.Name() != "sums" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, size
}

// echoes calls an echo guest.
func echoes(t *testing.T, m *host.Module) {
	t.Helper()
	object := doc(t, `{"spec":{"replicas":1}}`)
	res, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: object})
	if err != nil || !res.Object.Equal(object) {
		t.Errorf("%v, %v", res, err)
	}
}

func TestCodeCache(t *testing.T) {
	change := func(file string, at int64, data []byte) error {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(data, at)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	}
	tests := []struct {
		name   string
		damage func(file string) error
		want   map[string]float64
	}{
		{"as it was", func(string) error { return nil }, map[string]float64{"hit": 1}},
		{"an offset of a function", func(file string) error { return change(file, 30, []byte{0x40}) }, map[string]float64{"corrupt": 1}},
		{"machine code", func(file string) error { return change(file, 300, []byte{0xcc, 0xcc}) }, map[string]float64{"corrupt": 1}},
		{"cut off", func(file string) error { return os.Truncate(file, 100) }, map[string]float64{"corrupt": 1}},
		{"empty", func(file string) error { return os.Truncate(file, 0) }, map[string]float64{"corrupt": 1}},
		{"gone", os.Remove, map[string]float64{"corrupt": 1}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			first := newRuntime(t, host.Config{CacheDir: dir})
			echoes(t, load(t, first, hosttest.Echo("echo"), host.ModuleConfig{}))
			files, _ := codeFiles(t, dir)
			if len(files) != 1 {
				t.Fatalf("files %v", files)
			}
			if err := tc.damage(files[0]); err != nil {
				t.Fatal(err)
			}
			reg := prometheus.NewRegistry()
			second := newRuntime(t, host.Config{CacheDir: dir, Registerer: reg})
			m := load(t, second, hosttest.Echo("echo"), host.ModuleConfig{})
			echoes(t, m)
			if got := cacheUses(t, reg); len(got) != 1 || got["hit"] != tc.want["hit"] || got["corrupt"] != tc.want["corrupt"] {
				t.Errorf("uses %v, want %v", got, tc.want)
			}
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			echoes(t, load(t, second, hosttest.Echo("echo"), host.ModuleConfig{}))
			if got := cacheUses(t, reg)["hit"]; got != tc.want["hit"]+1 {
				t.Errorf("%v hits after it was mended", got)
			}
		})
	}
}

// TestCodeCacheIsNoNeed: without a directory that can be written to, guests are
// compiled each time.
func TestCodeCacheIsNoNeed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	rt := newRuntime(t, host.Config{CacheDir: file, Registerer: reg})
	echoes(t, load(t, rt, hosttest.Echo("echo"), host.ModuleConfig{}))
	if got := cacheUses(t, reg); len(got) != 1 || got["error"] != 1 {
		t.Errorf("uses %v", got)
	}
}

func TestCodeCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	rt := newRuntime(t, host.Config{CacheDir: dir})
	m := load(t, rt, hosttest.Echo("echo"), host.ModuleConfig{})
	_, one := codeFiles(t, dir)
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt = newRuntime(t, host.Config{CacheDir: dir, CacheBytes: 3*one + one/2})
	for i := range 10 {
		m := load(t, rt, hosttest.Unique(hosttest.Echo("echo"), i), host.ModuleConfig{Limits: host.Limits{Depth: 100 + i}})
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if files, size := codeFiles(t, dir); size > 3*one+one/2 || len(files) != min(i+2, 3) {
			t.Errorf("after %d modules %d bytes in %d files", i+1, size, len(files))
		}
	}
}

// TestCodeCacheIsShared loads the same modules in several runtimes, as the
// processes of a cluster on one disk do.
func TestCodeCacheIsShared(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		rt := newRuntime(t, host.Config{CacheDir: dir, CacheBytes: 20_000})
		all.Go(func() {
			for i := range 12 {
				m, err := rt.Load(context.Background(), hosttest.Echo("echo"), host.ModuleConfig{Limits: host.Limits{Depth: 100 + i%6}})
				if err != nil {
					t.Error(err)
					return
				}
				echoes(t, m)
				if err := m.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
