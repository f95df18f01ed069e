//go:build unix

package torture_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// killServers kills a server with -9 and starts it again, over and over.
func killServers(ctx context.Context, r *run) {
	for {
		r.wait(ctx, 500*time.Millisecond, 2*time.Second)
		if ctx.Err() != nil {
			return
		}
		s := r.servers[r.random.IntN(len(r.servers))]
		r.fault("kill %s", s.name)
		s.kill()
		if len(r.servers) > 1 { // others go on meanwhile
			r.wait(ctx, 0, time.Second)
		}
		r.restart(s)
		_ = s.ready(ctx)
	}
}

// breakServers kills servers, and stops some for a while: when they go on they must not take what they know for
// what is.
func breakServers(ctx context.Context, r *run) {
	for {
		r.wait(ctx, 300*time.Millisecond, 1500*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		s := r.servers[r.random.IntN(len(r.servers))]
		if r.random.IntN(2) == 0 {
			r.fault("pause %s", s.name)
			s.stop()
			r.wait(ctx, 500*time.Millisecond, 5*time.Second)
			s.cont()
			continue
		}
		r.fault("kill %s", s.name)
		s.kill()
		r.wait(ctx, 0, time.Second)
		r.restart(s)
		_ = s.ready(ctx)
	}
}

// breakAll breaks servers, members and connections at the same time.
func breakAll(ctx context.Context, r *run) {
	var work sync.WaitGroup
	for _, faults := range []func(context.Context, *run){breakServers, cutOff, storm} {
		work.Go(func() { faults(ctx, r) })
	}
	work.Wait()
}

// pauseEtcd stops etcd for a while, up to a time at which requests fail.
func pauseEtcd(ctx context.Context, r *run) {
	for {
		r.wait(ctx, 500*time.Millisecond, 2*time.Second)
		if ctx.Err() != nil {
			return
		}
		n := r.nodes[0]
		r.fault("pause %s", n.name)
		n.stop()
		longest := 3 * time.Second
		if r.random.IntN(4) == 0 {
			longest = 14 * time.Second
		}
		r.wait(ctx, 200*time.Millisecond, longest)
		n.cont()
	}
}

// killEtcd kills etcd with -9 and starts it again.
func killEtcd(ctx context.Context, r *run) {
	for {
		r.wait(ctx, 500*time.Millisecond, 3*time.Second)
		if ctx.Err() != nil {
			return
		}
		n := r.nodes[0]
		r.fault("kill %s", n.name)
		n.kill()
		r.wait(ctx, 0, 2*time.Second)
		if err := n.start(); err != nil {
			r.t.Error(err)
		}
	}
}

// breakEtcd pauses and kills etcd in turn, briefly.
func breakEtcd(ctx context.Context, r *run) {
	for i := 0; ; i++ {
		r.wait(ctx, 300*time.Millisecond, time.Second)
		if ctx.Err() != nil {
			return
		}
		n := r.nodes[0]
		if i%2 == 0 {
			r.fault("pause %s", n.name)
			n.stop()
			r.wait(ctx, 200*time.Millisecond, 800*time.Millisecond)
			n.cont()
			continue
		}
		r.fault("kill %s", n.name)
		n.kill()
		if err := n.start(); err != nil {
			r.t.Error(err)
		}
	}
}

// cutOff takes one of three members away from the others, from the server, or from both.
func cutOff(ctx context.Context, r *run) {
	for i := 0; ; i++ {
		r.wait(ctx, time.Second, 3*time.Second)
		if ctx.Err() != nil {
			return
		}
		// The first is the one that the server asks first.
		n := r.nodes[(i/2)%len(r.nodes)*(i%2)]
		switch r.random.IntN(4) {
		case 0:
			r.fault("pause %s", n.name)
			n.stop()
			r.wait(ctx, 2*time.Second, 8*time.Second)
			n.cont()
		case 1:
			r.fault("cut %s off from the other members", n.name)
			for _, other := range r.nodes {
				if other != n {
					other.peers.set(weather{cut: map[string]bool{n.id: true}})
				}
			}
			n.peers.set(weather{up: true, down: true})
			r.wait(ctx, 2*time.Second, 8*time.Second)
			for _, other := range r.nodes {
				other.peers.set(weather{})
				other.peers.reset()
			}
		case 2:
			r.fault("cut %s off from the server", n.name)
			n.client.set(weather{up: true, down: true})
			r.wait(ctx, 2*time.Second, 8*time.Second)
			n.client.set(weather{})
			n.client.reset()
		case 3:
			r.fault("kill %s", n.name)
			n.kill()
			r.wait(ctx, 0, 3*time.Second)
			if err := n.start(); err != nil {
				r.t.Error(err)
			}
		}
	}
}

// storm changes the weather of all proxies.
func storm(ctx context.Context, r *run) {
	var proxies []*proxy
	for _, n := range r.nodes {
		if n.client != nil {
			proxies = append(proxies, n.client)
		}
	}
	for _, s := range r.servers {
		if s.proxy != nil {
			proxies = append(proxies, s.proxy)
		}
	}
	for {
		r.wait(ctx, 300*time.Millisecond, 1500*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		p := proxies[r.random.IntN(len(proxies))]
		switch r.random.IntN(6) {
		case 0:
			r.fault("delay")
			p.set(weather{delay: time.Duration(1+r.random.IntN(60)) * time.Millisecond})
			r.wait(ctx, 500*time.Millisecond, 2*time.Second)
		case 1:
			r.fault("reset of %d connections", p.reset())
		case 2:
			r.fault("refuse")
			p.set(weather{refuse: true})
			p.reset()
			r.wait(ctx, 100*time.Millisecond, time.Second)
		case 3:
			r.fault("halve: answers do not come")
			p.set(weather{down: true})
			r.wait(ctx, 500*time.Millisecond, 5*time.Second)
			p.reset()
		case 4:
			r.fault("halve: requests do not arrive")
			p.set(weather{up: true})
			r.wait(ctx, 500*time.Millisecond, 5*time.Second)
			p.reset()
		case 5:
			r.fault("nothing passes, then all does")
			p.set(weather{up: true, down: true})
			r.wait(ctx, 500*time.Millisecond, 3*time.Second)
		}
		p.set(weather{})
	}
}

// compactAlways drops etcd's history up to what is recorded, every 100 ms.
func compactAlways(ctx context.Context, r *run) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		rv := r.recorder.seen.Load()
		raise(&r.compacted, rv)
		if _, err := r.recorder.client.Compact(ctx, rv); err == nil {
			r.fault("compact %d", rv)
			r.note(compactions)
		}
	}
}

// fillQuota waits until etcd has no space, and makes some after a while.
func fillQuota(ctx context.Context, r *run) {
	c := r.recorder.client
	full := func(ctx context.Context) bool {
		resp, err := c.AlarmList(ctx)
		return err == nil && len(resp.Alarms) > 0
	}
	relieve := func(ctx context.Context) {
		// Nothing more can come, so all is recorded soon.
		rv := r.recorder.seen.Load()
		raise(&r.compacted, rv)
		if _, err := c.Compact(ctx, rv); err != nil {
			return
		}
		if _, err := c.Defragment(ctx, r.nodes[0].address); err != nil {
			return
		}
		_, _ = c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	for ctx.Err() == nil {
		if full(ctx) {
			r.fault("no space")
			r.note(fullStorage)
			r.wait(ctx, time.Second, 2*time.Second)
			if ctx.Err() == nil {
				relieve(ctx)
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
	_ = eventually(r.context, 50*time.Millisecond, func(ctx context.Context) error {
		if full(ctx) {
			relieve(ctx)
			return context.DeadlineExceeded
		}
		return nil
	})
}

// killFull waits until the etcd within the server has no space, once at least. Every other time it kills the server then;
// else the server makes room undisturbed.
func killFull(ctx context.Context, r *run) {
	full := func(ctx context.Context) bool {
		resp, err := r.recorder.client.AlarmList(ctx)
		return err == nil && len(resp.Alarms) > 0
	}
	within := func(ctx context.Context, want bool) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return eventually(ctx, 10*time.Millisecond, func(ctx context.Context) error {
			if full(ctx) != want {
				return errors.New("not yet")
			}
			return nil
		})
	}
	filling := r.context // at first
	for times := 1; ; times++ {
		if err := within(filling, true); err != nil {
			if filling.Err() == nil {
				r.t.Errorf("the etcd does not become full: %v", err)
			}
			return
		}
		filling = ctx
		r.fault("no space")
		r.note(fullStorage)
		if times%2 == 1 {
			r.killWhileFull(r.servers[0], times%4 == 1)
		}
		if err := within(r.context, false); err != nil {
			r.t.Errorf("no room is made in the etcd: %v", err)
			return
		}
		if n := r.servers[0].copies(); n > 0 {
			r.t.Errorf("room is made, and %d copies of the database are left of defragmentations", n)
		}
	}
}

// killWhileFull kills a server that has no space and starts it again: while it is being defragmented, or within a second.
// Then it drops all history, so that what the recorder has not got by then is lost to it: nothing is deleted from before
// the kill until it records again, and all other writes are refused.
func (r *run) killWhileFull(s *server, packing bool) {
	r.removals.Lock()
	defer r.removals.Unlock()
	ctx, cancel := context.WithTimeout(r.context, 2*time.Second)
	defer cancel()
	if err := r.recorder.catchUp(ctx); err != nil {
		return
	}
	if packing {
		for ctx.Err() == nil && s.copies() == 0 {
			pause(ctx, time.Millisecond)
		}
	} else {
		r.wait(ctx, 0, time.Second)
	}
	s.kill()
	if s.copies() > 0 {
		r.fault("kill %s in a defragmentation", s.name)
	} else {
		r.fault("kill %s", s.name)
	}
	r.restart(s)
	again, cancel := context.WithTimeout(r.context, patience)
	defer cancel()
	_ = s.ready(again)
	if err := eventually(again, 10*time.Millisecond, r.recorder.catchUp); err != nil {
		r.t.Errorf("after a kill: %v", err)
	}
}

// copies counts the files into which the etcd within is defragmented: one at most, and none afterwards.
func (s *server) copies() int {
	files, _ := filepath.Glob(filepath.Join(s.dir, "etcd", "member", "snap", "db.tmp.*")) // the pattern is good
	return len(files)
}
