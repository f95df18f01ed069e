package etcd3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// membersPause is the time between two looks at the members, while all answer.
	membersPause = time.Second
	// memberTimeout is how long a member may take for an answer. An election may take longer, but then no member answers.
	memberTimeout = 1500 * time.Millisecond
	// memberLost is after how many looks without an answer, while others answer, the connections of a member are given up.
	memberLost = 2
)

// Members is an etcd elsewhere, of which each member is asked each second. The client sends requests to all in turn: one
// that hangs, which only its silence tells, would have its share of them until gRPC gives its connection up. So a member
// that does not answer, while another does, gets no requests until it answers again; at the second such look its connections
// are closed, so that what waits for it goes on elsewhere: reads are sent again, watches begun again, and of writes it is said
// that they may have happened. All are asked when none answers. It is safe for concurrent use.
type Members struct {
	client  *clientv3.Client
	members []*member
	held    *heldConns
	logger  *slog.Logger

	mu sync.Mutex
	// asked is when the latest look began that one has answered; guarded by mu.
	asked time.Time
	gauge *prometheus.GaugeVec // by endpoint; nil is not told; guarded by mu

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// member is one endpoint.
type member struct {
	endpoint string
	// probe is a client of its own, which is not counted on for anything else.
	probe *clientv3.Client

	// As the latest look found it; guarded by Members.mu.
	err      error     // nil: it answers
	failures int       // looks without an answer, on end
	missed   int       // those of them that another has answered
	out      bool      // others are asked in its place
	since    time.Time // the first look of missed
	told     bool      // the log says that it does not answer
	toldAt   time.Time // when it said so last
}

// DialMembers returns an etcd elsewhere, asked until Close. It does not wait for a connection.
func DialMembers(cfg DialConfig) (*Members, error) {
	secured, err := cfg.prepare()
	if err != nil {
		return nil, err
	}
	m := &Members{held: &heldConns{open: map[*heldConn]struct{}{}}, logger: cfg.Logger}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	if m.client, err = cfg.dial(secured, m.held); err != nil {
		return nil, err
	}
	for _, endpoint := range cfg.Endpoints {
		probe, err := cfg.probe(endpoint, secured)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.members = append(m.members, &member{endpoint: endpoint, probe: probe})
	}
	// Its resolver is made for the first request else, with the endpoints of that time, and no lock guards those.
	m.client.ActiveConnection().Connect()
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	m.done.Go(func() { m.run(ctx) })
	return m, nil
}

// probe returns a client of one endpoint that gives an error as it comes.
func (c DialConfig) probe(endpoint string, secured *tls.Config) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: secured, MaxUnaryRetries: 1, Logger: newZap(nil), MaxCallRecvMsgSize: math.MaxInt32,
		DialKeepAliveTime: keepaliveTime, DialKeepAliveTimeout: keepaliveTimeout, DialOptions: []grpc.DialOption{redial()}})
	if err != nil {
		return nil, fmt.Errorf("etcd: dial %s: %w", endpoint, err)
	}
	return client, nil
}

// Client returns the client of all members, which ends with Close.
func (m *Members) Client() *clientv3.Client { return m.client }

// Close ends the client and waits for the looks at the members.
func (m *Members) Close() error {
	if m.cancel != nil {
		m.cancel()
	}
	m.done.Wait()
	errs := []error{m.client.Close()}
	for _, each := range m.members {
		errs = append(errs, each.probe.Close())
	}
	return errors.Join(errs...)
}

// Silent returns why members get no requests while others answer, nil when all do.
func (m *Members) Silent() error {
	return m.collect(func(each *member) bool { return each.out })
}

// Failed returns what each member said last that does not answer, nil where all do.
func (m *Members) Failed() error {
	if m == nil {
		return nil
	}
	return m.collect(func(each *member) bool { return each.err != nil })
}

func (m *Members) collect(which func(*member) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var texts []string
	var last error
	for _, each := range m.members {
		if which(each) {
			last = each.err
			texts = append(texts, fmt.Sprintf("%s: %v", each.endpoint, each.err))
		}
	}
	if last == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// Answering returns of each endpoint whether it has answered the latest look.
func (m *Members) Answering() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]bool, len(m.members))
	for _, each := range m.members {
		out[each.endpoint] = each.err == nil
	}
	return out
}

// answeredSince reports whether one of several members has answered what it was asked after began. Where there is one only, what
// the client is answered says more.
func (m *Members) answeredSince(began time.Time) bool {
	if m == nil || len(m.members) < 2 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked.After(began)
}

func (m *Members) run(ctx context.Context) {
	for {
		well := m.look(ctx)
		pause := membersPause
		if !well {
			pause = downPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look asks all members at once. It returns false where one that was well is so no more: that is looked at again at once.
func (m *Members) look(ctx context.Context) bool {
	began := time.Now()
	errs := make([]error, len(m.members))
	var asked sync.WaitGroup
	for i, each := range m.members {
		asked.Go(func() {
			if errs[i] = each.ask(ctx); errs[i] == nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.asked = began
			}
		})
	}
	asked.Wait()
	if ctx.Err() != nil {
		return true
	}
	return m.judge(began, errs)
}

// ask tries a linearizable read: a member that is cut off from the others, or behind them, does not answer it.
func (e *member) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	_, err := etcdserverpb.NewKVClient(e.probe.ActiveConnection()).Range(ctx, &etcdserverpb.RangeRequest{Key: []byte{0}, CountOnly: true}, grpc.WaitForReady(false))
	switch s := status.Convert(err); s.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("no answer in %s: %w", memberTimeout, context.DeadlineExceeded)
	case codes.Unavailable:
		return errors.New(s.Message())
	}
	return nil // whatever it says, it has agreed on that, or refuses a user
}

// judge takes the answers of one look, in the order of the members.
func (m *Members) judge(began time.Time, errs []error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers := 0
	for _, err := range errs {
		if err == nil {
			answers++
		}
	}
	var ask []string
	well, changed := true, false
	for i, each := range m.members {
		each.err = errs[i]
		if m.gauge != nil {
			value := 0.0
			if each.err == nil {
				value = 1
			}
			m.gauge.WithLabelValues(each.endpoint).Set(value)
		}
		out := each.err != nil && answers > 0
		changed = changed || out != each.out
		each.out = out
		if each.err == nil {
			each.failures, each.missed = 0, 0
			if each.told {
				each.told = false
				m.logger.Info("etcd member answers again", "endpoint", each.endpoint, "after", began.Sub(each.since).Round(time.Millisecond))
			}
		} else {
			each.failures++
			if answers > 0 { // else it may be the members that have no leader, and this one is well
				if each.missed++; each.missed == 1 {
					each.since = began
				}
			}
			well = well && each.failures >= memberLost
		}
		// One that hovers about the bound is told of once a minute.
		if out && !each.told && (each.toldAt.IsZero() || began.Sub(each.toldAt) >= downTold) {
			each.told, each.toldAt = true, began
			m.logger.Warn("etcd member does not answer: others are asked", "endpoint", each.endpoint, "error", each.err)
		}
		if !out {
			ask = append(ask, each.endpoint)
		}
	}
	if changed {
		m.client.SetEndpoints(ask...)
	}
	for _, each := range m.members {
		if each.out && each.missed >= memberLost && errors.Is(each.err, context.DeadlineExceeded) {
			m.held.close(authority(each.endpoint))
		}
	}
	return well
}
