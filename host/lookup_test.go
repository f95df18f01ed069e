package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// counting counts the look-ups that come to an answerer.
type counting struct {
	host.Lookuper
	n atomic.Int32
}

func (c *counting) Lookup(ctx context.Context, q *lookup.Query) (*lookup.Found, error) {
	c.n.Add(1)
	if q.Namespace == "away" {
		return nil, errors.New("the cache is not ready")
	}
	if q.Resource == "nowheres" {
		return nil, abi.EINVAL
	}
	return c.Lookuper.Lookup(ctx, q)
}

func objects(t testing.TB, n int) *counting {
	t.Helper()
	docs := make([]*document.Document, n)
	for i := range docs {
		docs[i] = doc(t, fmt.Sprintf(`{"apiVersion":"v1","data":{"filler":%q,"n":"%d"},"kind":"ConfigMap","metadata":{"name":"c%03d","namespace":"shop","resourceVersion":"%d"}}`,
			strings.Repeat("x", 100), i, i, 10+i))
	}
	o, err := lookup.NewObjects(docs...)
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Lookuper: o}
}

const (
	oneMap  = `{"resource":"configmaps","namespace":"shop","name":"c001","fields":["data.n"]}`
	allMaps = `{"resource":"configmaps","namespace":"shop","limit":2}`
)

// bothEngines runs a test with guests that are compiled, and that are interpreted.
func bothEngines(t *testing.T, run func(t *testing.T, rt *host.Runtime)) {
	t.Helper()
	for _, interpreter := range []bool{false, true} {
		t.Run(fmt.Sprintf("interpreter %v", interpreter), func(t *testing.T) {
			run(t, newRuntime(t, host.Config{Interpreter: interpreter}))
		})
	}
}

func TestLookup(t *testing.T) {
	grants := []string{"lookup:configmaps", "lookup:nowheres"}
	tests := []struct {
		name     string
		requests []string
		want     string // the response, or the end of the error
		class    host.Class
		lookups  string
		fuel     uint64
	}{
		{
			name: "fields of one", requests: []string{oneMap},
			want:    `{"items":[{"apiVersion":"v1","data":{"n":"1"},"kind":"ConfigMap","metadata":{"name":"c001","namespace":"shop","resourceVersion":"11"}}],"resourceVersion":"11"}`,
			lookups: "lookup:configmaps shop/c001: 1 item at resourceVersion 11", fuel: 3020,
		},
		{
			name: "the second answer of two requests", requests: []string{allMaps, oneMap},
			want:    `{"items":[{"apiVersion":"v1","data":{"n":"1"},"kind":"ConfigMap","metadata":{"name":"c001","namespace":"shop","resourceVersion":"11"}}],"resourceVersion":"11"}`,
			lookups: "lookup:configmaps shop/*: 2 items and more at resourceVersion 13; lookup:configmaps shop/c001: 1 item at resourceVersion 11", fuel: 5907,
		},
		{
			name: "absent", requests: []string{`{"resource":"configmaps","namespace":"shop","name":"none"}`},
			want: `{"items":[],"resourceVersion":""}`, lookups: "lookup:configmaps shop/none: absent", fuel: 2798,
		},
		{
			name: "none of those selected", requests: []string{`{"resource":"configmaps","labelSelector":"a=b","fieldSelector":"metadata.name=c"}`},
			want: `{"items":[],"resourceVersion":"13"}`, lookups: "lookup:configmaps * where a=b where metadata.name=c: 0 items at resourceVersion 13", fuel: 3044,
		},
		{name: "not asked for", requests: []string{`{"resource":"secrets","namespace":"shop"}`}, want: "status 101", class: host.ClassBadOutput},
		{name: "another group", requests: []string{`{"group":"apps","resource":"configmaps"}`}, want: "status 101", class: host.ClassBadOutput},
		{name: "no JSON", requests: []string{`{"resource":`}, want: "status 122", class: host.ClassBadOutput},
		{name: "no such resource", requests: []string{`{"resource":"nowheres"}`}, want: "status 122", class: host.ClassBadOutput},
		{name: "too long", requests: []string{strings.Repeat(" ", abi.MaxLookupRequestBytes) + oneMap}, want: "status 107", class: host.ClassBadOutput},
		{
			name: "away", requests: []string{oneMap, `{"resource":"configmaps","namespace":"away"}`},
			want:  "module[m] hook[connect]: lookup:configmaps cannot be looked up now: the cache is not ready",
			class: host.ClassNotReady, lookups: "lookup:configmaps shop/c001: 1 item at resourceVersion 11",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, rt *host.Runtime) {
				o := objects(t, 4)
				m := load(t, rt, hosttest.Looker(grants, tc.requests, abi.OpConnect), host.ModuleConfig{Capabilities: grants, Lookuper: o})
				res, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)})
				var found []host.Lookup
				if err != nil {
					var e *host.Error
					if !errors.As(err, &e) || e.Class != tc.class || !strings.HasSuffix(err.Error(), tc.want) {
						t.Errorf("%v, want %q", err, tc.want)
					}
					found = e.Lookups
				} else {
					found = res.Lookups
					if string(res.Object.Bytes()) != tc.want || tc.class != 0 {
						t.Errorf("got %s, want %s", res.Object.Bytes(), tc.want)
					}
					if res.Fuel != tc.fuel {
						t.Errorf("%d units of fuel, want %d", res.Fuel, tc.fuel)
					}
					if int(o.n.Load()) != len(tc.requests) {
						t.Errorf("%d look-ups, want %d: the same request is answered once", o.n.Load(), len(tc.requests))
					}
				}
				var records []string
				for i := range found {
					records = append(records, found[i].String())
				}
				if got := strings.Join(records, "; "); got != tc.lookups {
					t.Errorf("records %q, want %q", got, tc.lookups)
				}
			})
		})
	}
}

// TestLookupIsBounded: the seventeenth is refused, and an answer above 1 MiB.
func TestLookupIsBounded(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	grants := []string{"lookup:configmaps"}
	var many []string
	for i := range abi.MaxLookups + 1 {
		many = append(many, fmt.Sprintf(`{"resource":"configmaps","namespace":"shop","name":"c%d"}`, i))
	}
	m := load(t, rt, hosttest.Looker(grants, many[:abi.MaxLookups], abi.OpConnect), host.ModuleConfig{Capabilities: grants, Lookuper: objects(t, 1)})
	if _, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)}); err != nil {
		t.Error(err)
	}
	m = load(t, rt, hosttest.Looker(grants, many, abi.OpConnect), host.ModuleConfig{Capabilities: grants, Lookuper: objects(t, 1)})
	if _, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)}); err == nil || !strings.HasSuffix(err.Error(), "status 107") {
		t.Errorf("one too many: %v", err)
	}
	large := doc(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large"},"x":%q}`, strings.Repeat("x", abi.MaxLookupBytes)))
	o, err := lookup.NewObjects(large)
	if err != nil {
		t.Fatal(err)
	}
	m = load(t, rt, hosttest.Looker(grants, []string{`{"resource":"configmaps"}`}, abi.OpConnect), host.ModuleConfig{Capabilities: grants})
	call := &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`), Lookuper: o}
	if _, err := m.Call(t.Context(), call); err == nil || !strings.HasSuffix(err.Error(), "status 107") {
		t.Errorf("a large answer: %v", err)
	}
	// What is read is paid for, though little of it is given.
	m = load(t, rt, hosttest.Looker(grants, []string{`{"resource":"configmaps","fields":["y"]}`}, abi.OpConnect), host.ModuleConfig{Capabilities: grants, Limits: host.Limits{Fuel: 100_000}})
	if _, err := m.Call(t.Context(), call); err == nil || !strings.Contains(err.Error(), "fuel exhausted") {
		t.Errorf("a large object: %v", err)
	}
	// Without anything to look it up in, the call must not come to a verdict.
	if _, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)}); err == nil {
		t.Error("a look-up in nothing")
	} else if class, _ := host.ClassOf(err); class != host.ClassNotReady {
		t.Errorf("a look-up in nothing: %v", err)
	}
}

// scans goes through a number of objects to find none.
type scans struct {
	rows int
	asks []int // MaxScan of each look-up
}

func (s *scans) Lookup(_ context.Context, q *lookup.Query) (*lookup.Found, error) {
	s.asks = append(s.asks, q.MaxScan)
	if s.rows > q.MaxScan {
		return nil, abi.E2BIG
	}
	return &lookup.Found{ResourceVersion: "1", Scanned: s.rows}, nil
}

// TestLookupPaysForWhatItGoesThrough: a selector that selects nothing is not for nothing, and all look-ups of a call together go
// through so many objects.
func TestLookupPaysForWhatItGoesThrough(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	grants := []string{"lookup:configmaps"}
	requests := make([]string, 4)
	for i := range requests {
		requests[i] = fmt.Sprintf(`{"resource":"configmaps","labelSelector":"a=%d"}`, i)
	}
	tests := []struct {
		name  string
		rows  int
		fuel  uint64 // limit
		asks  []int
		least uint64 // fuel
		want  string // in the error; "" is none
	}{
		{name: "a few", rows: 1000, fuel: 1_000_000, asks: []int{100_000, 99_000, 98_000, 97_000}, least: 4 * 50_000},
		{name: "all there may be", rows: 25_000, fuel: 10_000_000, asks: []int{100_000, 75_000, 50_000, 25_000}, least: 4 * 25_000 * 50},
		{name: "too many", rows: 40_000, fuel: 10_000_000, asks: []int{100_000, 60_000, 20_000}, want: "status 107"},
		{name: "too many for the fuel", rows: 40_000, fuel: 3_000_000, asks: []int{100_000, 60_000}, want: "fuel exhausted"},
		{name: "more than there may be for the fuel", rows: 200_000, fuel: 3_000_000, asks: []int{100_000}, want: "fuel exhausted"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := &scans{rows: tc.rows}
			m := load(t, rt, hosttest.Looker(grants, requests, abi.OpConnect), host.ModuleConfig{Capabilities: grants, Lookuper: s, Limits: host.Limits{Fuel: tc.fuel}})
			res, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`)})
			switch {
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			case tc.want == "" && (err != nil || res.Fuel < tc.least):
				t.Errorf("%+v, %v, want %d units or more", res, err, tc.least)
			}
			if !slices.Equal(s.asks, tc.asks) {
				t.Errorf("asked %v, want %v", s.asks, tc.asks)
			}
		})
	}
}

// TestLookupWhileLoading: what is kept from configure on would be kept for ever.
func TestLookupWhileLoading(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	grants := []string{"lookup:configmaps"}
	o := objects(t, 2)
	_, err := rt.Load(t.Context(), hosttest.Looker(grants, []string{oneMap}, abi.OpConfigure, abi.OpConnect), host.ModuleConfig{Name: "m", Capabilities: grants, Lookuper: o})
	if err == nil || !strings.HasSuffix(err.Error(), "status 101") {
		t.Errorf("configure: %v", err)
	}
	warm := []*host.Call{{Op: abi.OpConnect, Object: doc(t, `{}`)}}
	load(t, rt, hosttest.Looker(grants, []string{oneMap}, abi.OpConnect), host.ModuleConfig{Capabilities: grants, Lookuper: o, Warm: warm})
	if o.n.Load() != 0 {
		t.Errorf("%d look-ups while it was loaded", o.n.Load())
	}
}

func TestGrants(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	tests := []struct {
		name   string
		wasm   []byte
		grants []string
		want   string // end of the error; "" is none
		class  host.Class
	}{
		{"granted", hosttest.Looker([]string{"lookup:pods"}, nil, abi.OpConnect), []string{"lookup:*"}, "", 0},
		{"one is missing", hosttest.Looker([]string{"lookup:pods", "lookup:secrets"}, nil, abi.OpConnect), []string{"lookup:*"},
			`asks for "lookup:secrets", which is not granted; to grant it: spec.capabilities: ["lookup:*", "lookup:secrets"]`, host.ClassCapability},
		{"two are missing", hosttest.Looker([]string{"lookup:pods", "authorize"}, nil, abi.OpConnect), nil,
			`asks for "lookup:pods", "authorize", which are not granted; to grant it: spec.capabilities: ["lookup:pods", "authorize"]`, host.ClassCapability},
		{"imported and not asked for", hosttest.Looker([]string{"authorize"}, nil, abi.OpConnect), []string{"lookup:*", "authorize"},
			`name each resource among its capabilities, as in "lookup:configmaps"`, host.ClassCapability},
		{"authorize not asked for", hosttest.Supplicant(nil, "{}", 1), []string{"authorize"},
			`name "authorize" among its capabilities`, host.ClassCapability},
		{"a wildcard is asked for", hosttest.Looker([]string{"lookup:*"}, nil, abi.OpConnect), []string{"lookup:*"},
			`capability "lookup:*" does not exist; there are "lookup:<resource>[.<group>]" and "authorize"`, host.ClassABIMismatch},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := rt.Load(t.Context(), tc.wasm, host.ModuleConfig{Name: "m", Capabilities: tc.grants})
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if class, _ := host.ClassOf(err); class != tc.class || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("%v (%v)", err, class)
			}
			if i, err := rt.Inspect(t.Context(), tc.wasm, host.Limits{}); (err == nil) != strings.Contains(tc.name, "missing") {
				t.Errorf("inspected: %+v, %v", i, err)
			}
		})
	}
}

type unreachable struct{}

func (unreachable) Authorize(context.Context, *abi.AuthorizeRequest) (bool, error) {
	return false, errors.New("no route")
}

func TestAuthorize(t *testing.T) {
	rules := lookup.Allowed{{Verb: "get", Resource: "pods"}}
	tests := []struct {
		name, request string
		times         int
		authorizer    host.Authorizer
		want          string // the end of the error; "" is none
		fuel          uint64
	}{
		{name: "allowed", request: `{"verb":"get","resource":"pods"}`, times: abi.MaxAuthorize, authorizer: rules, fuel: 41428},
		{name: "not allowed", request: `{"verb":"delete","resource":"pods"}`, times: 1, authorizer: rules, want: "status 50"},
		{name: "once too often", request: `{"verb":"get","resource":"pods"}`, times: abi.MaxAuthorize + 1, authorizer: rules, want: "status 107"},
		{name: "no verb", request: `{"resource":"pods"}`, times: 1, authorizer: rules, want: "status 122"},
		{name: "no answer", request: `{"verb":"get","resource":"pods"}`, times: 1, authorizer: unreachable{}, want: "authorize: there is no answer now: no route"},
		{name: "nobody", request: `{"verb":"get","resource":"pods"}`, times: 1, want: "authorize: there is nobody to ask here"},
	}
	grants := []string{abi.CapabilityAuthorize}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, rt *host.Runtime) {
				m := load(t, rt, hosttest.Supplicant(grants, tc.request, tc.times), host.ModuleConfig{Capabilities: grants, Authorizer: tc.authorizer})
				res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`)})
				if tc.want != "" {
					if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
						t.Errorf("%v, want %q", err, tc.want)
					}
					return
				}
				if err != nil || res.Fuel != tc.fuel {
					t.Errorf("%v, %+v, want %d units", err, res, tc.fuel)
				}
			})
		})
	}
}

// TestLookupTrace: the trace has each look-up once, with the resourceVersion.
func TestLookupTrace(t *testing.T) {
	rt := newRuntime(t, host.Config{})
	grants := []string{"lookup:configmaps"}
	m := load(t, rt, hosttest.Looker(grants, []string{oneMap}, abi.OpConnect), host.ModuleConfig{Capabilities: grants, Lookuper: objects(t, 2)})
	var got []string
	var fuel int64
	res, err := m.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: doc(t, `{}`), Trace: func(c host.ImportCall) {
		fuel += c.Fuel
		if c.Import != abi.ImportLookup {
			return
		}
		record := "again"
		if c.Lookup != nil {
			record = c.Lookup.String()
		}
		got = append(got, fmt.Sprintf("%s = %d: %s", c.Data, c.Returned, record))
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s = %d: lookup:configmaps shop/c001: 1 item at resourceVersion 11|%s = %d: again", oneMap, len(res.Object.Bytes()), oneMap, len(res.Object.Bytes()))
	if strings.Join(got, "|") != want {
		t.Errorf("got  %q\nwant %q", strings.Join(got, "|"), want)
	}
	if fuel <= 0 || uint64(fuel) > res.Fuel {
		t.Errorf("%d of %d units in the trace", fuel, res.Fuel)
	}
}
