//go:build unix

package torture_test

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	long  = flag.Duration("torture", 0, "how long each scenario runs; 0: the short form, some seconds each, of a part of them")
	built = flag.String("weir", "", "the server's binary; empty: it is built")
	seed  = flag.Uint64("seed", 0, "of all that is random; 0: one of the time")
)

// brief is how long a scenario of the short form runs.
const brief = 3 * time.Second

// plans are the scenarios.
func plans() []plan {
	return []plan{
		{name: "calm", etcds: 1},
		{name: "kill", brief: true, faults: killServers},
		{name: "kill-external", etcds: 1, faults: killServers},
		{name: "etcd-brief", brief: true, etcds: 1, faults: breakEtcd},
		{name: "etcd-pause", etcds: 1, faults: pauseEtcd},
		{name: "etcd-kill", etcds: 1, faults: killEtcd},
		{name: "members", etcds: 3, etcdProxy: true, faults: cutOff},
		{name: "net-etcd", etcds: 1, etcdProxy: true, faults: storm},
		{name: "net-client", clientProxy: true, faults: storm},
		{name: "compaction", brief: true, etcds: 1, pagers: 6, expires: true, faults: compactAlways},
		{name: "compaction-uncached", etcds: 1, pagers: 6, expires: true, silent: true, weirArgs: []string{"--watch-cache=false"}, faults: compactAlways},
		{name: "compaction-servers", etcds: 1, weirs: 2, pagers: 6, expires: true, roams: true,
			weirArgs: []string{"--watch-cache-sizes=configmaps#16"}, faults: compactAlways},
		{name: "quota", etcds: 1, etcdArgs: []string{"--quota-backend-bytes=8388608"}, pad: 20000, expires: true, faults: fillQuota},
		{name: "disk", fsync: true, pad: 20000, dir: smallDisk, faults: fillDisk},
		{name: "disk-external", etcds: 1, fsync: true, pad: 20000, dir: smallDisk, faults: fillDisk},
		{name: "stalled", stalled: 200, pad: 60000, expires: true, faults: stall, check: checkStalled},
		{name: "ring", etcds: 1, weirArgs: []string{"--watch-cache-sizes=configmaps#32"}, expires: true, faults: killServers},
		{name: "uncached", etcds: 1, weirArgs: []string{"--watch-cache=false"}, silent: true, faults: breakEtcd},
		{name: "servers-2", brief: true, etcds: 1, weirs: 2, roams: true, faults: killServers},
		{name: "servers-3", etcds: 1, weirs: 3, roams: true, faults: breakServers},
		{name: "all", etcds: 3, weirs: 2, etcdProxy: true, clientProxy: true, roams: true, faults: breakAll},
	}
}

func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts processes")
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	var mu sync.Mutex
	var rows []figures // guarded by mu
	t.Cleanup(func() {
		var b strings.Builder
		mu.Lock()
		defer mu.Unlock()
		table(&b, rows)
		if *long > 0 {
			_, _ = os.Stdout.WriteString(b.String())
			return
		}
		t.Logf("\n%s", b.String())
	})
	for _, p := range plans() {
		if *long == 0 && !p.brief {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			duration := *long
			if duration == 0 {
				duration = brief
				t.Parallel()
			}
			f := p.execute(t, duration, *seed)
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, f)
		})
	}
}
