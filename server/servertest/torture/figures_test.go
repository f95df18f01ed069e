package torture_test

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// figures of one scenario.
type figures struct {
	name                                       string
	took                                       time.Duration
	operations, acknowledged, unknown, keys    int
	lists, pagesExpired                        int
	answered                                   map[string]int // of readKinds
	watchers, events, bookmarks                int
	shared, whole, broken                      int // revisions of several events; those that watchers saw whole, and that a break cut short
	resumes, expired                           int
	faults                                     int
	lostWrites, lostEvents, repeated, disorder int
	other                                      int
	delay, write                               time.Duration // 99th percentiles
	memory                                     int           // MiB
}

// byRevision is how many reads with a resourceVersion were answered.
func (f *figures) byRevision() (n int) {
	for _, of := range f.answered {
		n += of
	}
	return n
}

// table prints figures.
func table(out io.Writer, rows []figures) {
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scenario\tseconds\tfaults\toperations\tacknowledged\tunknown\tkeys\tlists\tby revision\t410 pages\twatchers\tevents\tbookmarks\tresumes\t410 watches\twrite p99\tevent p99\tMiB\tbatches\tbroken off\tlost writes\tlost events\trepeated\tout of order\tother\t")
	for _, f := range rows {
		fmt.Fprintf(w, "%s\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", f.name, f.took.Seconds(), f.faults,
			f.operations, f.acknowledged, f.unknown, f.keys, f.lists, f.byRevision(), f.pagesExpired, f.watchers, f.events, f.bookmarks, f.resumes, f.expired,
			f.write.Round(time.Millisecond/10), f.delay.Round(time.Millisecond/10), f.memory, f.shared, f.broken, f.lostWrites, f.lostEvents, f.repeated, f.disorder, f.other)
	}
	_ = w.Flush()
}

// percentile99 sorts durations in nanoseconds.
func percentile99(of []int64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return time.Duration(of[len(of)*99/100])
}
