package loader

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestEventBudget(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := newEvents(nil, newStatusWriter(slog.New(slog.DiscardHandler)), clock)
	allowed := func() (n int) {
		for range 100 {
			if r.allow("one") {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, eventBurst}, {0, 0}, {eventPause - 1, 0}, {1, 1}, {3 * eventPause, 3}, {time.Hour, eventBurst}} {
		clock.Step(step.after)
		if n := allowed(); n != step.want {
			t.Errorf("after %v: %d events, want %d", step.after, n, step.want)
		}
	}
	if !r.allow("another") {
		t.Error("one object takes from the budget of another")
	}
	r.forget("one")
	if n := allowed(); n != eventBurst {
		t.Errorf("%d events of a new object, want %d", n, eventBurst)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		text string
		most int
		want string
	}{
		{"short", 5, "short"},
		{"longer", 5, "lo…"},
		{"aéé", 5, "aéé"},
		{"aéééé", 8, "aéé…"},
		{"aéééé", 7, "aé…"},
		{strings.Repeat("日", 10), 10, "日日…"},
	} {
		if got := cut(tc.text, tc.most); got != tc.want || !utf8.ValidString(got) || len(got) > tc.most {
			t.Errorf("cut(%q, %d) is %q, want %q", tc.text, tc.most, got, tc.want)
		}
	}
}
