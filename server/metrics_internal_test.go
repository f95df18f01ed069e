package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
)

// collected is what is known of a metric without its values.
type collected struct {
	kind    string // Counter, Gauge, Histogram
	labels  string // sorted
	buckets []float64
}

// absent are upstream's metrics of its storages that are not served, and why.
var absent = map[string]string{
	"apiserver_watch_shards_total":                     "counts the watches of the alpha gate ShardedListAndWatch, which is off there and not offered here",
	"apiserver_watch_filtered_events_total":            "counts what such watches do not get",
	"apiserver_watch_events_dispatch_duration_seconds": "reads the clock and counts thrice for each event and watcher, which is of the order of what giving it to the watcher costs; apiserver_watch_cache_events_dispatched_total counts the events once",
}

// TestUpstreamMetrics: all metrics of upstream's etcd3 and cacher are served under the same names, of the same types
// and labels and with the same buckets, or there is a reason.
func TestUpstreamMetrics(t *testing.T) {
	upstream := map[string]collected{}
	for _, file := range []string{"etcd3/metrics/metrics.go", "cacher/metrics/metrics.go", "metrics/metrics.go"} {
		before := len(upstream)
		upstreamMetrics(t, filepath.Join(upstreamDir(t), "pkg/storage", file), upstream)
		if n := len(upstream) - before; n < 4 {
			t.Errorf("%s: %d metrics found, want 4 at least", file, n)
		}
	}
	if len(upstream) < 37 {
		t.Errorf("%d metrics found, want all 37 or more", len(upstream))
	}
	ours := ownMetrics(t)
	for name, want := range upstream {
		got, served := ours[name]
		switch _, excused := absent[name]; {
		case served && excused:
			t.Errorf("%s is served, and there is a reason not to", name)
		case !served && !excused:
			t.Errorf("%s is not served, without a reason", name)
		case served && got.kind != want.kind:
			t.Errorf("%s is a %s, want a %s", name, got.kind, want.kind)
		case served && got.labels != want.labels:
			t.Errorf("%s has the labels %s, want %s", name, got.labels, want.labels)
		case served && !slices.Equal(got.buckets, want.buckets):
			t.Errorf("%s has the buckets %v, want %v", name, got.buckets, want.buckets)
		}
	}
	for name := range absent {
		if _, ok := upstream[name]; !ok {
			t.Errorf("%s is not upstream's any more", name)
		}
	}
}

// upstreamDir is where the source of k8s.io/apiserver is.
func upstreamDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiserver").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// upstreamMetrics adds the metrics that a file declares.
func upstreamMetrics(t *testing.T, file string, to map[string]collected) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	text := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if value, err := strconv.Unquote(e.Value); err == nil {
				return value
			}
			return e.Value
		case *ast.Ident:
			if value, ok := constants[e.Name]; ok {
				return value
			}
		}
		t.Errorf("%s: %#v is not understood", file, e)
		return ""
	}
	list := func(e ast.Expr) (out []string) {
		literal, ok := e.(*ast.CompositeLit)
		if !ok {
			t.Errorf("%s: %#v is not a list", file, e)
			return nil
		}
		for _, item := range literal.Elts {
			out = append(out, text(item))
		}
		return out
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
			for i, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					constants[spec.Names[i].Name] = text(literal)
				}
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, ok := selector.X.(*ast.Ident)
		if !ok || from.Name != "compbasemetrics" || !strings.HasPrefix(selector.Sel.Name, "New") {
			return true
		}
		kind := strings.TrimSuffix(strings.TrimPrefix(selector.Sel.Name, "New"), "Vec")
		switch kind {
		case "ConstMetric": // a value of what NewDesc declares
		case "Desc":
			to[text(call.Args[0])] = collected{kind: kind, labels: sorted(list(call.Args[2]))}
		case "Counter", "Gauge", "Histogram":
			m := collected{kind: kind}
			fields := map[string]ast.Expr{}
			for _, field := range call.Args[0].(*ast.UnaryExpr).X.(*ast.CompositeLit).Elts {
				pair := field.(*ast.KeyValueExpr)
				fields[pair.Key.(*ast.Ident).Name] = pair.Value
			}
			part := func(name string) string {
				if value, ok := fields[name]; ok {
					return text(value)
				}
				return ""
			}
			if len(call.Args) > 1 {
				m.labels = sorted(list(call.Args[1]))
			}
			if kind == "Histogram" {
				for _, bound := range list(fields["Buckets"]) {
					value, err := strconv.ParseFloat(bound, 64)
					if err != nil {
						t.Errorf("%s: %v", file, err)
					}
					m.buckets = append(m.buckets, value)
				}
			}
			to[prometheus.BuildFQName(part("Namespace"), part("Subsystem"), part("Name"))] = m
		default:
			t.Errorf("%s: %s is not understood", file, selector.Sel.Name)
		}
		return true
	})
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ",")
}

// registered is a registry that tells what is in it.
type registered struct {
	*prometheus.Registry
	all []prometheus.Collector
}

func (r *registered) Register(c prometheus.Collector) error {
	err := r.Registry.Register(c)
	if err == nil {
		r.all = append(r.all, c)
	}
	return err
}

func (r *registered) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// described is how a Desc prints itself, which has no other way to say it.
var described = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// ownMetrics returns the metrics of the storages of a server.
func ownMetrics(t *testing.T) map[string]collected {
	t.Helper()
	registry := &registered{Registry: prometheus.NewRegistry()}
	if _, err := etcd3.NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	cacher.NewMetrics(registry)
	if _, err := newCountMetrics(registry); err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(&etcd3.SizeCollector{})
	out := map[string]collected{}
	for _, c := range registry.all {
		descs := make(chan *prometheus.Desc, 1)
		c.Describe(descs)
		desc := (<-descs).String()
		found := described.FindStringSubmatch(desc)
		if found == nil {
			t.Fatalf("%s is not understood", desc)
		}
		var labels []string
		if found[2] != "" {
			labels = strings.Split(found[2], ",")
		}
		m := collected{labels: sorted(labels)}
		switch c := c.(type) {
		case *etcd3.SizeCollector:
			m.kind = "Desc"
		case *prometheus.CounterVec:
			m.kind = "Counter"
		case *prometheus.GaugeVec, prometheus.Gauge:
			m.kind = "Gauge"
		case *prometheus.HistogramVec:
			m.kind, m.buckets = "Histogram", buckets(t, c.WithLabelValues(make([]string, len(labels))...))
		case prometheus.Histogram:
			m.kind, m.buckets = "Histogram", buckets(t, c)
		default:
			t.Errorf("%s is of type %T", found[1], c)
		}
		out[found[1]] = m
	}
	return out
}

func buckets(t *testing.T, o prometheus.Observer) (bounds []float64) {
	t.Helper()
	var value dto.Metric
	if err := o.(prometheus.Metric).Write(&value); err != nil {
		t.Fatal(err)
	}
	for _, b := range value.GetHistogram().GetBucket() {
		bounds = append(bounds, b.GetUpperBound())
	}
	return bounds
}

func TestHeldEstimate(t *testing.T) {
	for name, tc := range map[string]struct {
		held held
		n    int64
		want float64
	}{
		"all were seen":      {held{3, 500}, 3, 500},
		"more than were":     {held{2, 300}, 4, 600},
		"fewer":              {held{4, 600}, 2, 300},
		"there are none":     {held{4, 600}, 0, 0},
		"none was seen":      {held{}, 2, -1},
		"none, and none was": {held{}, 0, 0},
		"not known":          {held{4, 600}, -1, -1},
	} {
		if got := tc.held.estimate(tc.n); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
