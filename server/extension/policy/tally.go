package policy

import (
	"slices"
	"sync"
	"time"

	"weir.dev/weir/server/admission"
)

const (
	// maxSamples is how many requests a shadow remembers, maxTimings how many of the last judgements percentiles are of.
	maxSamples = 10
	maxTimings = 512
	// maxSampleText bounds what is remembered of one, in bytes.
	maxSampleText = 512
)

// Tally counts what one binding did. It is safe for concurrent use, and nil counts nothing.
type Tally struct {
	mu sync.Mutex
	// allowed and worst are those of counts. What each judgement changes lies together: a server that does other things
	// between two requests has to fetch it anew for each policy.
	allowed int64
	worst   time.Duration
	next    int
	// timings is a ring of the last judgements.
	timings []time.Duration
	counts  Counts
}

// NewTally returns a Tally that goes on from what was counted before.
func NewTally(from Counts) *Tally {
	return &Tally{counts: from, allowed: from.Allowed, worst: from.Worst}
}

// Counts is the state of a Tally.
type Counts struct {
	Allowed, Denied, Warned, Changed, Failed int64
	ShadowDenied, ShadowChanged              int64
	Median, P99, Worst                       time.Duration
	LastError                                string
	LastErrorTime                            time.Time
	Samples                                  []Sample
	// Conflicts name fields that another mutating policy wrote too, and that policy.
	Conflicts []string
}

// Total is the number of judgements.
func (c *Counts) Total() int64 {
	return c.Allowed + c.Denied + c.Warned + c.Changed + c.Failed + c.ShadowDenied + c.ShadowChanged
}

// Sample is a request that a shadow would have denied or changed.
type Sample struct {
	Time                                              time.Time
	Operation, Resource, Subresource, Namespace, Name string
	Message                                           string
}

// Total is the number of judgements that were counted.
func (t *Tally) Total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.countsLocked()
	return c.Total()
}

func (t *Tally) countsLocked() Counts {
	c := t.counts
	c.Allowed, c.Worst = t.allowed, t.worst
	return c
}

// note counts a judgement.
func (t *Tally) note(outcome string, took time.Duration, message string, a *admission.Attributes, now time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counts
	switch outcome {
	case outcomeAllow:
		t.allowed++
	case outcomeDeny:
		c.Denied++
	case outcomeWarn:
		c.Warned++
	case outcomeMutate:
		c.Changed++
	case outcomeError, outcomeIgnored:
		c.Failed++
		c.LastError, c.LastErrorTime = clip(message), now
	case outcomeShadowDeny, outcomeShadowMutate:
		if outcome == outcomeShadowDeny {
			c.ShadowDenied++
		} else {
			c.ShadowChanged++
		}
		if len(c.Samples) == maxSamples {
			c.Samples = slices.Delete(c.Samples, 0, 1)
		}
		c.Samples = append(c.Samples, Sample{Time: now, Operation: string(a.Operation), Resource: a.Resource.GroupResource().String(),
			Subresource: a.Subresource, Namespace: a.Namespace, Name: admission.NameOf(a), Message: clip(message)})
	}
	t.worst = max(t.worst, took)
	if len(t.timings) < maxTimings {
		t.timings = append(t.timings, took)
		return
	}
	t.timings[t.next] = took
	if t.next++; t.next == maxTimings {
		t.next = 0
	}
}

// maxConflicts bounds the conflicts that are remembered.
const maxConflicts = 10

// conflict notes a field that another policy wrote too.
func (t *Tally) conflict(text string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if text = clip(text); len(t.counts.Conflicts) < maxConflicts && !slices.Contains(t.counts.Conflicts, text) {
		t.counts.Conflicts = append(t.counts.Conflicts, text)
	}
}

// Counts returns what has been counted.
func (t *Tally) Counts() Counts {
	t.mu.Lock()
	c := t.countsLocked()
	c.Samples, c.Conflicts = slices.Clone(c.Samples), slices.Clone(c.Conflicts)
	timings := slices.Clone(t.timings)
	t.mu.Unlock()
	if len(timings) > 0 {
		slices.Sort(timings)
		c.Median, c.P99 = timings[len(timings)/2], timings[len(timings)*99/100]
	}
	return c
}

// clip cuts a text that is to be remembered.
func clip(text string) string {
	if len(text) <= maxSampleText {
		return text
	}
	return text[:maxSampleText]
}
