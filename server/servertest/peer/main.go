// Command peer runs the server and kube-apiserver side by side, each on an etcd of its own in memory, and prints what
// one operation costs either of them.
//
//	go run ./server/servertest/peer [-rounds 2] [-scenarios create,get] [-duration 5s]
//
// The rows policies-100, guest-c and guest-go are what a creation costs more while 100 ValidatingAdmissionPolicies match
// it, or a policy that is a module, of C or of Go; of kube-apiserver, one webhook on loopback.
//
// The servers run in turn, so that what else the machine does falls on both. CPU time of the server's process per
// operation is what counts; "other" says how much of the machine somebody else has used meanwhile.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir.dev/weir/server/servertest/tools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		slog.Error("peer", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	rounds := flags.Int("rounds", 2, "times that each server is measured")
	only := flags.String("scenarios", "", "comma separated; empty: all")
	servers := flags.String("servers", "kube-apiserver,weir,weir-embedded", "which to measure, in this order")
	weir := flags.String("weir", "", "the server's binary; empty: it is built")
	kube := flags.String("kube-apiserver", "", "kube-apiserver's binary; empty: it is built")
	etcd := flags.String("etcd", "", "etcd's binary; empty: it is built")
	dir := flags.String("dir", "/dev/shm", "where directories of data are made; should be in memory")
	load := load{}
	flags.IntVar(&load.workers, "workers", 16, "requests under way at one time")
	flags.DurationVar(&load.duration, "duration", 5*time.Second, "of a measurement")
	flags.DurationVar(&load.warmup, "warmup", 2*time.Second, "before a measurement")
	flags.IntVar(&load.objects, "objects", 5000, "objects that lists have")
	flags.IntVar(&load.held, "held", 20000, "objects that memory is measured with")
	flags.IntVar(&load.watchers, "watchers", 500, "watchers")
	flags.IntVar(&load.turns, "turns", 5, "times that what policies and guests add is measured")
	flags.DurationVar(&load.settle, "settle", time.Minute, "between the last write and the measurement of memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if load.turns < 1 {
		return fmt.Errorf("-turns %d: at least one", load.turns)
	}
	b := binaries{weir: *weir, kube: *kube, etcd: *etcd}
	made, err := os.MkdirTemp("", "weir-peer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }() // binaries only
	if err := b.build(ctx, *servers, made); err != nil {
		return err
	}
	table := newTable()
	for round := range *rounds {
		for name := range strings.SplitSeq(*servers, ",") {
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, name)
			if err := measure(ctx, name, b, *dir, load, *only, table); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return table.write(os.Stdout)
}

// build makes the binaries that are not given, the server's own in dir.
func (b *binaries) build(ctx context.Context, servers, dir string) (err error) {
	if b.etcd == "" {
		if b.etcd, err = tools.BuildEtcd(ctx); err != nil {
			return err
		}
	}
	if b.kube == "" && strings.Contains(servers, "kube-apiserver") {
		if b.kube, err = tools.BuildKubeAPIServer(ctx); err != nil {
			return err
		}
	}
	if b.weir != "" {
		return nil
	}
	b.weir = filepath.Join(dir, "weir")
	return tools.BuildWeir(ctx, b.weir)
}

// measure runs the scenarios on a server that it starts on fresh data, and those that want one on a fresh server each.
func measure(ctx context.Context, name string, b binaries, dir string, load load, only string, table *table) error {
	wanted := func(name string) bool {
		return only == "" || strings.Contains(","+only+",", ","+name+",")
	}
	groups := [][]scenario{nil} // the first share a server
	for _, sc := range scenarios() {
		switch {
		case !wanted(sc.name):
		case sc.fresh:
			groups = append(groups, []scenario{sc})
		default:
			groups[0] = append(groups[0], sc)
		}
	}
	for i, group := range groups {
		starts := i == 0 && wanted("start")
		if len(group) == 0 && !starts {
			continue
		}
		if err := serving(ctx, name, b, dir, func(s *running) error {
			if starts {
				table.add(name, result{scenario: "start", value: s.ready.Seconds() * 1e3})
			}
			return s.measure(ctx, name, load, group, table)
		}); err != nil {
			return err
		}
	}
	return nil
}

// serving calls do while a server runs, on fresh data.
func serving(ctx context.Context, name string, b binaries, dir string, do func(*running) error) (err error) {
	data, err := os.MkdirTemp(dir, "weir-peer-")
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.RemoveAll(data); err == nil {
			err = removeErr
		}
	}()
	s, err := start(ctx, name, b, data)
	if err != nil {
		return err
	}
	defer s.stop()
	return do(s)
}

// measure runs scenarios on a server, one after the other.
func (s *running) measure(ctx context.Context, name string, load load, group []scenario, table *table) error {
	c := newClient(s.url, s.token, s.ca)
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for _, sc := range group {
		r, err := sc.run(ctx, &bench{client: c, load: load, process: s.process, modules: s.modules})
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		r.scenario = sc.name
		table.add(name, r)
		fmt.Fprintf(os.Stderr, "  %-14s %10.1f %-3s p50 %s p99 %s other %.1f cores\n", sc.name, r.value, unitOf(sc.name), r.p50, r.p99, r.other)
	}
	return nil
}
