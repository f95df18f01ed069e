package rewrite

// A test of the fuel on entry costs small functions more than what they do. So
// a function is not tested if all that it can execute between two tests is
// little: what it has itself, each instruction once, as loops test, and the
// same of those it calls that are not tested either. That is its span.
const (
	// maxSpan is the largest span of a function that is not tested.
	maxSpan = 2048
	// maxRun is how much a function may execute and call for, straight on,
	// before it tests.
	maxRun = 4096
)

// spans finds the functions that need no test.
type spans struct {
	own     []int64 // instructions; -1: it has to be tested
	first   []int   // of its callees
	callees []uint32
	span    []int64
	state   []spanState
}

type spanState uint8

const (
	spanUnknown spanState = iota
	spanOpen              // its callees are being looked at
	spanCycle             // and it is one of theirs
	spanDone
)

func newSpans(n int) *spans {
	return &spans{own: make([]int64, n), first: make([]int, n+1), span: make([]int64, n), state: make([]spanState, n)}
}

// add says what a function has; they come in order. An indirect call can reach
// any function, so whoever makes one is tested.
func (s *spans) add(i int, f *function) {
	s.own[i] = f.total
	if f.indirect || f.total > maxSpan {
		s.own[i] = -1
	} else {
		s.callees = append(s.callees, f.callees...)
	}
	s.first[i+1] = len(s.callees)
}

// solve returns the spans; 0 is that of a function that is to be tested. Each
// cycle of calls has one.
func (s *spans) solve() []int64 {
	type visit struct{ function, next int }
	var path []visit
	for i := range s.own {
		if s.state[i] != spanUnknown {
			continue
		}
		s.state[i] = spanOpen
		path = append(path[:0], visit{i, s.first[i]})
		for len(path) > 0 {
			v := &path[len(path)-1]
			if v.next == s.first[v.function+1] || s.own[v.function] < 0 {
				s.close(v.function)
				path = path[:len(path)-1]
				continue
			}
			callee := int(s.callees[v.next])
			v.next++
			switch s.state[callee] {
			case spanUnknown:
				s.state[callee] = spanOpen
				path = append(path, visit{callee, s.first[callee]})
			case spanOpen:
				s.state[callee] = spanCycle
			}
		}
	}
	return s.span
}

// close computes the span of a function whose callees are known.
func (s *spans) close(i int) {
	total := s.own[i]
	cycle := s.state[i] == spanCycle
	s.state[i] = spanDone
	if total < 0 || cycle {
		return
	}
	for _, callee := range s.callees[s.first[i]:s.first[i+1]] {
		if total += s.span[callee]; total > maxSpan {
			return
		}
	}
	s.span[i] = max(1, total)
}

// straight tests the fuel, before what begins at the reader's position, if much
// has been executed since it was tested last. What follows is charged by
// itself, so that it is not paid for long before it is executed.
func (f *function) straight(calls int64) {
	if f.m.spans == nil || f.dead {
		return
	}
	if f.run += calls; f.total-f.testedAt+f.run <= maxRun {
		return
	}
	f.testedAt, f.run = f.total, calls
	f.newBlock()
	f.pieces = append(f.pieces, piece{kind: pieceCheck})
}

// callSpan is what a call at the reader's position executes without a test.
// The index that follows need not be valid.
func (f *function) callSpan(op byte) int64 {
	if op == opCallIndirect {
		return maxSpan // of any function
	}
	ahead := reader{b: f.r.b, pos: f.r.pos + 1}
	if i := int64(ahead.u32()) - int64(len(f.m.imported)); ahead.err == nil && i >= 0 && i < int64(len(f.m.spans)) {
		return f.m.spans[i]
	}
	return 0
}
