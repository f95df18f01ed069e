package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// result is what one measurement says.
type result struct {
	scenario string
	// value is what counts, in the unit of the scenario.
	value    float64
	p50, p99 time.Duration
	// other is the number of cores that somebody else has used.
	other float64
}

// targetOf returns what the server must reach: a part of what kube-apiserver needs, or a figure where its unit is given.
func targetOf(scenario string) string {
	switch scenario {
	case "start":
		return "400 ms"
	case "idle":
		return "60 MB"
	case "create":
		return "1/8"
	case "get":
		return "1/10"
	case "list", "list-consistent", "list-pages":
		return "1/40"
	case "merge-patch", "apply", "apply-same":
		return "1/6"
	case "watch":
		return "1/5"
	case "held-rss", "policies-100":
		return "1/15"
	case "guest-c":
		return "1/40"
	case "guest-go":
		return "1/10"
	case "held-heap":
		return "1/6"
	}
	return ""
}

func unitOf(scenario string) string {
	switch scenario {
	case "start":
		return "ms"
	case "idle":
		return "MB"
	case "held-rss", "held-heap":
		return "B"
	}
	return "µs"
}

// table collects results by scenario and server.
type table struct {
	scenarios []string
	results   map[string]map[string][]result
}

func newTable() *table { return &table{results: map[string]map[string][]result{}} }

func (t *table) add(server string, r result) {
	if t.results[r.scenario] == nil {
		t.scenarios = append(t.scenarios, r.scenario)
		t.results[r.scenario] = map[string][]result{}
	}
	t.results[r.scenario][server] = append(t.results[r.scenario][server], r)
}

func median(rs []result, of func(result) float64) float64 {
	if len(rs) == 0 {
		return 0
	}
	values := make([]float64, 0, len(rs))
	for _, r := range rs {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// write prints the medians as a table in Markdown.
func (t *table) write(w io.Writer) error {
	_, err := fmt.Fprint(w, "| scenario | kube-apiserver | weir | ratio | at most | weir, etcd embedded | p50, p99 of kube-apiserver | of weir | other cores |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	if err != nil {
		return err
	}
	for _, name := range t.scenarios {
		value := func(server string) float64 {
			return median(t.results[name][server], func(r result) float64 { return r.value })
		}
		times := func(server string) string {
			rs := t.results[name][server]
			p50, p99 := median(rs, func(r result) float64 { return float64(r.p50) }), median(rs, func(r result) float64 { return float64(r.p99) })
			if p50 == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f, %.1f ms", p50/1e6, p99/1e6)
		}
		var all []result
		for _, rs := range t.results[name] {
			all = append(all, rs...)
		}
		kube, weir, unit, ratio := value("kube-apiserver"), value("weir"), unitOf(name), ""
		if weir > 0 && kube > 0 {
			ratio = fmt.Sprintf("1/%.1f", kube/weir)
		}
		if _, err := fmt.Fprintf(w, "| %s | %.0f %s | %.0f %s | %s | %s | %.0f %s | %s | %s | %.1f |\n", name, kube, unit, weir, unit, ratio, targetOf(name),
			value("weir-embedded"), unit, times("kube-apiserver"), times("weir"), median(all, func(r result) float64 { return r.other })); err != nil {
			return err
		}
	}
	return nil
}
