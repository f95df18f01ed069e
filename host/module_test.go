package host_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

func newRuntime(t testing.TB, config host.Config) *host.Runtime {
	t.Helper()
	rt, err := host.NewRuntime(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan error, 1)
		go func() { closed <- rt.Close(context.Background()) }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute): // what a test that failed holds would be waited for without an end
			t.Error("the runtime does not close")
		}
	})
	return rt
}

func load(t testing.TB, rt *host.Runtime, wasm []byte, config host.ModuleConfig) *host.Module {
	t.Helper()
	if config.Name == "" {
		config.Name = "m"
	}
	m, err := rt.Load(t.Context(), wasm, config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func doc(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGuestsForget(t *testing.T) {
	for _, mode := range []host.RestoreMode{host.RestoreAuto, host.RestoreCopy, host.RestoreDiscard, host.RestoreSticky} {
		for name, wasm := range map[string][]byte{"keeper": hosttest.Keeper(), "table keeper": hosttest.TableKeeper(), "segment keeper": hosttest.SegmentKeeper()} {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				rt := newRuntime(t, host.Config{Restore: mode, Guests: 1})
				m := load(t, rt, wasm, host.ModuleConfig{Warm: []*host.Call{}})
				var fuel uint64
				for i := range 20 {
					object := doc(t, `{}`)
					if i%5 == 4 {
						object = doc(t, `{"trap":1}`)
					}
					res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: object})
					if i%5 == 4 {
						if class, _ := host.ClassOf(err); class != host.ClassTrap {
							t.Fatalf("call %d: %v", i, err)
						}
						continue
					}
					if err != nil {
						t.Fatalf("call %d: %v", i, err)
					}
					if res.Warnings[0] != "0:0" {
						t.Fatalf("call %d remembers %s", i, res.Warnings[0])
					}
					if fuel != 0 && fuel != res.Fuel {
						t.Fatalf("call %d used %d units of fuel, others %d", i, res.Fuel, fuel)
					}
					fuel = res.Fuel
				}
			})
		}
	}
}

func TestWarmCallsAreRemembered(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	warm := []*host.Call{
		{Op: abi.OpValidateCreate, Object: doc(t, `{"trap":1}`)}, // leaves nothing
		{Op: abi.OpValidateUpdate, Object: doc(t, `{}`)},
	}
	m := load(t, rt, growOnce(t), host.ModuleConfig{Warm: warm})
	for range 3 {
		res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Audit["before"]; got != "1" {
			t.Fatalf("%s calls before, want the one that did not trap", got)
		}
	}
}

// growOnce counts its calls in memory that it grew.
func growOnce(t *testing.T) []byte {
	t.Helper()
	g := hosttest.NewGuest("grower", abi.OpValidateCreate, abi.OpValidateUpdate)
	const head = `{"audit":{"before":"`
	at, n := g.Text(head + `0"}}`)
	path, pathLen := g.Text("trap")
	digit := at + int32(len(head))
	return g.Finish(hosttest.Code(nil).
		I32Const(1).MemoryGrow().Drop().
		I32Const(digit).I32Const(1 << 16).Load(0).I32Const('0').Op(0x6a).Store8(0).
		I32Const(1 << 16).I32Const(1 << 16).Load(0).I32Const(1).Op(0x6a).Store(0).
		I32Const(int32(abi.SlotResult)).I32Const(at).I32Const(n).Call(g.Write).Drop().
		I32Const(int32(abi.SlotObject)).I32Const(path).I32Const(pathLen).I32Const(100).I32Const(100).Call(g.Query).
		I32Const(0).Op(0x4e).If(hosttest.Code(nil).Unreachable()))
}

func TestQuery(t *testing.T) {
	object := `{"metadata":{"labels":{"app.kubernetes.io/name":"x","a*b":"star"}},"spec":{"containers":[{"name":"a"},{"name":"b"}],"n":12345678901234567890}}`
	tests := []struct{ path, want string }{
		{"spec.n", `12345678901234567890`},
		{"spec.containers[1].name", `"b"`},
		{"spec.containers[*].name", `["a","b"]`},
		{"spec.containers[*].image", `[]`},
		{"metadata.labels['app.kubernetes.io/name']", `"x"`},
		{"metadata.labels['a*b']", `"star"`},
		{"spec.containers[0]", `{"name":"a"}`},
	}
	rt := newRuntime(t, host.Config{})
	for _, tc := range tests {
		t.Run(tc.path, func(t *testing.T) {
			// A warning has to be a string, so other answers are quoted by
			// asking the message of the error for them.
			m := load(t, rt, hosttest.Asker(tc.path), host.ModuleConfig{})
			res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, object)})
			if tc.want[0] == '"' {
				if err != nil || `"`+res.Warnings[0]+`"` != tc.want {
					t.Errorf("%v, %v, want %s", res, err, tc.want)
				}
				return
			}
			if class, _ := host.ClassOf(err); class != host.ClassBadOutput {
				t.Errorf("%v, %v", res, err)
			}
		})
	}
	for path, errno := range map[string]string{"spec.absent": "102", "spec..": "122", strings.Repeat("a", 5000): "107"} {
		m := load(t, rt, hosttest.Asker(path), host.ModuleConfig{})
		_, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, object)})
		if err == nil || !strings.HasSuffix(err.Error(), "status "+errno) {
			t.Errorf("query of %.10s: %v, want status %s", path, err, errno)
		}
	}
}

func TestPatch(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	m := load(t, rt, hosttest.Patcher(`[{"op":"replace","path":"/a","value":2}]`), host.ModuleConfig{})
	res, err := m.Call(t.Context(), &host.Call{Op: abi.OpPrepareForCreate, Object: doc(t, `{"a":1}`)})
	if err != nil || string(res.Object.Bytes()) != `{"a":2}` {
		t.Errorf("%v, %v", res, err)
	}
	res, err = m.Call(t.Context(), &host.Call{Op: abi.OpPrepareForCreate, Object: doc(t, `{"a":2}`)})
	if err != nil || res.Object != nil {
		t.Errorf("unchanged: %v, %v", res, err)
	}
}

func TestLogIsCapped(t *testing.T) {
	var buf bytes.Buffer
	rt := newRuntime(t, host.Config{})
	m := load(t, rt, hosttest.Flooder(), host.ModuleConfig{Logger: slog.New(slog.NewTextHandler(&buf, nil))})
	if _, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate}); err != nil {
		t.Fatal(err)
	}
	const line = "the water rises"
	if n := strings.Count(buf.String(), line); n != abi.MaxLogLines {
		t.Errorf("%d lines, want %d", n, abi.MaxLogLines)
	}
	if !strings.Contains(buf.String(), "level=WARN") || !strings.Contains(buf.String(), "hook=validateCreate") {
		t.Errorf("log: %.200s", buf.String())
	}
}

func TestBudgetIsShared(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	m := load(t, rt, hosttest.Echo("echo"), host.ModuleConfig{})
	call := &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`)}
	res, err := m.Call(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	call.Budget = host.NewBudget(3*res.Fuel, time.Time{})
	for i := range 3 {
		if _, err := m.Call(t.Context(), call); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if left := call.Budget.Fuel(); left != 0 {
		t.Errorf("%d units left", left)
	}
	_, err = m.Call(t.Context(), call)
	if class, _ := host.ClassOf(err); class != host.ClassFuel {
		t.Errorf("fourth call: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	rt := newRuntime(t, host.Config{Limits: host.Limits{Fuel: 1 << 50, Timeout: time.Hour}})
	var loop []byte
	for _, s := range hosttest.Sinners() {
		if s.Name == "calls_without_a_loop" {
			loop = s.Wasm
		}
	}
	m := load(t, rt, loop, host.ModuleConfig{Name: "spin", Warm: []*host.Call{}})
	expired, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	tests := []struct {
		name string
		ctx  context.Context
		call host.Call
	}{
		{"context", expired, host.Call{}},
		{"budget", t.Context(), host.Call{Budget: host.NewBudget(1<<50, time.Now().Add(20*time.Millisecond))}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.call.Op = abi.OpValidateCreate
			_, err := m.Call(tc.ctx, &tc.call)
			if class, _ := host.ClassOf(err); class != host.ClassDeadline || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestSpinningGuestsYield: guest code cannot be preempted, so a guest that
// never yielded would hold up a garbage collection until it is stopped.
func TestSpinningGuestsYield(t *testing.T) {
	rt := newRuntime(t, host.Config{Limits: host.Limits{Fuel: 1 << 50, Timeout: time.Hour}})
	g := hosttest.NewGuest("spin", abi.OpValidateCreate)
	m := load(t, rt, g.Finish(hosttest.Code(nil).Loop(hosttest.Code(nil).Br(0))), host.ModuleConfig{Warm: []*host.Call{}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, &host.Call{Op: abi.OpValidateCreate})
		stopped <- err
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped by itself: %v", err)
	default:
	}
	cancel()
	if class, _ := host.ClassOf(<-stopped); class != host.ClassDeadline {
		t.Errorf("class %v", class)
	}
}

func TestArtefactsAreShared(t *testing.T) {
	reg := prometheus.NewRegistry()
	rt := newRuntime(t, host.Config{Registerer: reg})
	wasm := hosttest.Echo("echo")
	a := load(t, rt, wasm, host.ModuleConfig{Name: "a"})
	b := load(t, rt, wasm, host.ModuleConfig{Name: "b", Settings: []byte(`{"x":1}`)})
	if a.Digest() != b.Digest() || a.Digest() != host.Digest(wasm) {
		t.Errorf("digests %s and %s", a.Digest(), b.Digest())
	}
	if n := compilations(t, reg); n != 1 {
		t.Errorf("%d compilations, want 1", n)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Call(t.Context(), &host.Call{Op: abi.OpConnect}); err == nil {
		t.Error("a closed module answers")
	} else if class, _ := host.ClassOf(err); class != host.ClassNotReady {
		t.Errorf("a closed module: %v", err)
	}
	if _, err := b.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)}); err != nil {
		t.Errorf("the other module of the artefact: %v", err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	load(t, rt, wasm, host.ModuleConfig{Name: "c"})
	if n := compilations(t, reg); n != 2 {
		t.Errorf("%d compilations, want 2: the code should have gone with its last module", n)
	}
}

func series(t *testing.T, reg prometheus.Gatherer, name string) []*dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

func compilations(t *testing.T, reg prometheus.Gatherer) uint64 {
	t.Helper()
	return series(t, reg, "weir_host_compile_duration_seconds")[0].GetHistogram().GetSampleCount()
}

func TestCloseDrains(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	m := load(t, rt, hosttest.Echo("echo"), host.ModuleConfig{})
	if !m.Acquire() {
		t.Fatal("cannot acquire")
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Close(short); !errors.Is(err, context.Canceled) {
		t.Fatalf("close with a reference out: %v", err)
	}
	if m.Acquire() {
		t.Fatal("a closed module can be acquired")
	}
	call := &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`)}
	if _, err := m.Call(t.Context(), call); err != nil {
		t.Fatalf("a call of who holds a reference: %v", err)
	}
	m.Release()
	if _, err := m.Call(t.Context(), call); err == nil {
		t.Fatal("a module that nobody holds can be called")
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	rt := newRuntime(t, host.Config{Registerer: reg})
	m := load(t, rt, hosttest.Keeper(), host.ModuleConfig{Name: "keeper", Warm: []*host.Call{}})
	for _, object := range []string{`{}`, `{}`, `{"trap":1}`} {
		_, _ = m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, object)})
	}
	want := map[string]float64{
		"class=ok,hook=validateCreate,module=keeper":   2,
		"class=trap,hook=validateCreate,module=keeper": 1,
	}
	if got := values(t, reg, "weir_host_calls_total"); !maps.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(series(t, reg, "weir_host_calls_total")); n != 0 {
		t.Errorf("%d series of a closed module", n)
	}
}

// values are the series of a counter or gauge by their labels.
func values(t *testing.T, reg prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for _, s := range series(t, reg, name) {
		var labels []string
		for _, l := range s.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		got[strings.Join(labels, ",")] = s.GetCounter().GetValue() + s.GetGauge().GetValue()
	}
	return got
}

var poolFamilies = []string{
	"weir_host_guests", "weir_host_guests_made_total", "weir_host_guests_discarded_total",
	"weir_host_guest_waits_total", "weir_host_restores_total", "weir_host_restored_bytes_total",
}

// TestPoolMetrics: guests and restores are counted by the name of their module,
// and what a module of the name counted stays while another replaces it.
func TestPoolMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	rt := newRuntime(t, host.Config{Registerer: reg, Guests: 2})
	check := func(want map[string]float64) {
		t.Helper()
		got := map[string]float64{}
		for _, family := range poolFamilies {
			for labels, value := range values(t, reg, family) {
				got[strings.TrimPrefix(family, "weir_host_")+" "+labels] = value
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
	}
	check(map[string]float64{})
	// It recurses where it is asked to create, and writes one page where it is
	// asked to update.
	g := hosttest.NewGuest("m", abi.OpValidateCreate, abi.OpValidateUpdate)
	self := g.Next()
	g.Func("", g.Void, "", hosttest.Code(nil).Call(self))
	wasm := g.Finish(hosttest.Code(nil).
		LocalGet(0).I32Const(int32(abi.OpValidateCreate)).Op(0x46).If(hosttest.Code(nil).Call(self)).
		I32Const(40 << 10).I32Const(7).Store(0))
	config := host.ModuleConfig{Name: "m", Warm: []*host.Call{}}
	m := load(t, rt, wasm, config)
	other := load(t, rt, wasm, host.ModuleConfig{Name: "other", Warm: []*host.Call{}})
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	update := func(m *host.Module) (restored float64) {
		t.Helper()
		res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateUpdate})
		if err != nil {
			t.Fatal(err)
		}
		return float64(max(0, res.RestoredBytes))
	}
	restored := update(m) + update(m)
	if restored == 0 {
		t.Error("nothing is put back")
	}
	if _, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate}); err == nil {
		t.Error("no failure")
	}
	lent := host.LendGuests(t, m, 2)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Call(cancelled, &host.Call{Op: abi.OpValidateUpdate}); err == nil {
		t.Error("a third guest of two")
	}
	lent[0].Return()
	check(map[string]float64{
		"guests module=m,state=idle": 1, "guests module=m,state=lent": 1,
		"guests_made_total module=m":                  3,
		"guests_discarded_total module=m,reason=call": 1,
		"guests_discarded_total module=m,reason=idle": 0,
		"guest_waits_total module=m":                  1,
		"restores_total module=m":                     2,
		"restored_bytes_total module=m":               restored,
	})
	lent[1].Return()

	next := load(t, rt, wasm, config)
	restored += update(next)
	both := map[string]float64{
		"guests module=m,state=idle": 3, "guests module=m,state=lent": 0,
		"guests_made_total module=m":                  4,
		"guests_discarded_total module=m,reason=call": 1,
		"guests_discarded_total module=m,reason=idle": 0,
		"guest_waits_total module=m":                  1,
		"restores_total module=m":                     3,
		"restored_bytes_total module=m":               restored,
	}
	check(both)
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	both["guests module=m,state=idle"] = 1
	check(both)
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(map[string]float64{})
	load(t, rt, wasm, config)
	check(map[string]float64{
		"guests module=m,state=idle": 1, "guests module=m,state=lent": 0,
		"guests_made_total module=m":                  1,
		"guests_discarded_total module=m,reason=call": 0,
		"guests_discarded_total module=m,reason=idle": 0,
		"guest_waits_total module=m":                  0,
		"restores_total module=m":                     0,
		"restored_bytes_total module=m":               0,
	})
}

func TestMetaIsSeeded(t *testing.T) {
	a, err := host.NewMeta(abi.Meta{UID: "1", Time: host.FormatTime(time.Unix(1, 5))})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Get("time").String(); got != "1970-01-01T00:00:01.000000005Z" {
		t.Errorf("time %s", got)
	}
	b, _ := host.NewMeta(abi.Meta{UID: "2", Time: "1970-01-01T00:00:00Z"})
	if s := a.Get("seed").String(); len(s) != 32 || s == b.Get("seed").String() {
		t.Errorf("seeds %s and %s", s, b.Get("seed").String())
	}
	if _, err := host.NewMeta(abi.Meta{Time: "yesterday"}); err == nil {
		t.Error("a time that is none is accepted")
	}
}
