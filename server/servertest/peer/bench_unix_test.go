//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir.dev/weir/sdk/build"
	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest/tools"
)

// gadgets are widgets that no policy is for.
func gadgets(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("widget"), []byte("gadget"))
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("Widget"), []byte("Gadget")), []byte(`"wg"`), []byte(`"gg"`))
}

// BenchmarkAdded is what a policy adds to a creation of 2 KiB: of widgets, which it is for, and of gadgets, which it is not
// for, so many are made in turn that what else the machine does falls on both. The server and its clients are this process,
// so that profiles are of both; etcd is one of its own. added-us/create is CPU time, of the server's alone; what it is
// without a policy says how exact that is.
func BenchmarkAdded(b *testing.B) {
	for _, policy := range []string{"none", "guest-c", "guest-go"} {
		for _, workers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/workers=%d", policy, workers), func(b *testing.B) { added(b, policy, workers) })
		}
	}
}

// perTurn creations of a kind follow each other.
const perTurn = 64

func added(b *testing.B, policy string, workers int) {
	if missing := build.Missing(b.Context(), build.C); policy == "guest-c" && missing != nil {
		b.Skip(missing)
	}
	ctx := b.Context()
	binary, err := tools.BuildEtcd(ctx)
	var unreachable *tools.UnreachableError
	switch {
	case errors.As(err, &unreachable):
		b.Skip(err)
	case err != nil:
		b.Fatal(err)
	}
	etcd := &running{}
	b.Cleanup(etcd.stop)
	address, err := etcd.startEtcd(ctx, b.TempDir(), binary)
	if err != nil {
		b.Fatal(err)
	}
	config := server.Config{EtcdServers: []string{address}}
	config.Storage.ConsistencyCheckInterval = -1
	env, c := inProcess(b, config)
	if err := c.do(ctx, 0, http.MethodPost, definitions, typeJSON, gadgets(definition), nil); err != nil {
		b.Fatal(err)
	}
	modules, err := env.ModuleDir()
	if err != nil {
		b.Fatal(err)
	}
	if policy != "none" {
		undo, err := guest(policy)(ctx, &bench{client: c, modules: modules})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = undo(context.WithoutCancel(ctx)) }) // the server ends
	}
	paths := [2]string{widgets, string(gadgets([]byte(widgets)))}
	made := 0
	turn := func(kind int) (cpu time.Duration) {
		made++
		bodies := make([][]byte, perTurn)
		for i := range bodies {
			bodies[i] = widget(fmt.Sprintf("o-%d-%d", made, i), i, 0)
			if kind == 1 {
				bodies[i] = gadgets(bodies[i])
			}
		}
		var wait sync.WaitGroup
		errs := make([]error, workers)
		before := used(b)
		for worker := range workers {
			wait.Go(func() {
				for i := worker; i < perTurn && errs[worker] == nil; i += workers {
					errs[worker] = c.do(ctx, worker, http.MethodPost, paths[kind], typeJSON, bodies[i], nil)
				}
			})
		}
		wait.Wait()
		cpu = used(b) - before
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
		return cpu
	}
	for kind := range paths { // what is compiled and cached once
		for deadline := time.Now().Add(time.Minute); ; {
			err := c.do(ctx, 0, http.MethodPost, paths[kind], typeJSON, []byte("{}"), nil)
			var status *statusError
			if errors.As(err, &status) && status.code != http.StatusNotFound {
				break
			}
			if time.Now().After(deadline) {
				b.Fatal(err)
			}
		}
		turn(kind)
	}
	var sums [2]time.Duration
	turns := 0
	b.ReportAllocs()
	for b.Loop() {
		for kind := range paths {
			sums[(kind+turns)%2] += turn((kind + turns) % 2)
		}
		turns++
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(turns*perTurn) }
	b.ReportMetric(each(sums[0]-sums[1]), "added-us/create")
	b.ReportMetric(each(sums[1]), "without-us/create")
}

// used is the CPU time of this process so far.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
