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

// brief is how long most scenarios of the short form run.
const brief = 3 * time.Second

// plans are the scenarios.
func plans() []plan {
	return []plan{
		{name: "calm", etcds: 1},
		{name: "kill", brief: brief, faults: killServers, shows: []effect{kills}},
		{name: "kill-external", etcds: 1, faults: killServers, shows: []effect{kills}},
		{name: "etcd-brief", brief: brief, etcds: 1, faults: breakEtcd, shows: []effect{pauses, kills}},
		{name: "etcd-pause", etcds: 1, faults: pauseEtcd, shows: []effect{pauses}},
		{name: "etcd-kill", etcds: 1, faults: killEtcd, shows: []effect{kills}},
		{name: "members", brief: 2 * brief, etcds: 3, etcdProxy: true, faults: cutOff, showsAny: []effect{pauses, kills, held}},
		{name: "net-etcd", brief: brief, etcds: 1, etcdProxy: true, faults: storm, showsAny: networkEffects},
		{name: "net-client", brief: brief, clientProxy: true, faults: storm, showsAny: networkEffects},
		{name: "compaction", brief: brief, etcds: 1, pagers: 6, expires: true, faults: compactAlways, each: compactionEach, shows: []effect{compactions}},
		{name: "compaction-uncached", etcds: 1, pagers: 6, expires: true, silent: true, weirArgs: []string{"--watch-cache=false"},
			faults: compactAlways, each: compactionEach, shows: []effect{compactions, expiredPages}},
		{name: "compaction-servers", etcds: 1, weirs: 2, pagers: 6, expires: true, roams: true,
			weirArgs: []string{"--watch-cache-sizes=configmaps#16"}, faults: compactAlways, each: compactionEach, shows: []effect{compactions}},
		{name: "quota", etcds: 1, etcdArgs: []string{"--quota-backend-bytes=8388608"}, pad: 20000, expires: true, faults: fillQuota, each: time.Minute, shows: []effect{fullStorage}},
		{name: "quota-embedded", brief: 2 * brief, weirArgs: []string{"--embedded-etcd-quota-backend-bytes=16777216"}, pad: 100000, expires: true, sweeps: true,
			faults: killFull, shows: []effect{kills, fullStorage, fullAnswers, roomMade}},
		{name: "disk", brief: brief, fsync: true, pad: 20000, dir: smallDisk, faults: fillDisk, shows: []effect{fullStorage}},
		{name: "disk-external", etcds: 1, fsync: true, pad: 20000, dir: smallDisk, faults: fillDisk, shows: []effect{fullStorage}},
		{name: "stalled", brief: 3 * brief, stalled: 200, pad: 60000, expires: true, faults: stall, each: time.Hour,
			shows: []effect{kills, stalledWatches, stalledInitial, stalledPast}, check: checkStalled},
		{name: "ring", etcds: 1, weirArgs: []string{"--watch-cache-sizes=configmaps#32"}, expires: true, faults: killServers, shows: []effect{kills}},
		{name: "uncached", etcds: 1, weirArgs: []string{"--watch-cache=false"}, silent: true, faults: breakEtcd, shows: []effect{pauses, kills}},
		{name: "servers-2", brief: brief, etcds: 1, weirs: 2, roams: true, faults: killServers, shows: []effect{kills}},
		{name: "servers-3", etcds: 1, weirs: 3, roams: true, faults: breakServers, showsAny: []effect{pauses, kills}},
		{name: "events", brief: 2 * brief, resource: events, leases: true, etcds: 1, weirs: 2, roams: true, faults: killServers, shows: []effect{kills}},
		{name: "encryption", brief: 2 * brief, encrypted: true, etcds: 1, weirs: 2, roams: true, faults: rotateKeys, shows: []effect{rotations}},
		{name: "all", etcds: 3, weirs: 2, etcdProxy: true, clientProxy: true, roams: true, faults: breakAll, showsAny: networkEffects},
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
		if *long == 0 && p.brief == 0 {
			continue
		}
		p.short = *long == 0
		t.Run(p.name, func(t *testing.T) {
			duration := *long
			if duration == 0 {
				duration = p.brief
				t.Parallel()
			}
			f := p.execute(t, duration, *seed)
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, f)
		})
	}
}
