package torture_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// answers counts what servers said other than success.
type answers struct {
	mu    sync.Mutex
	count map[string]int    // guarded by mu
	texts map[string]string // the first of each kind; guarded by mu
}

func (a *answers) add(server, verb string, code int, answer *wire, err error) {
	var kind, text string
	switch {
	case err != nil:
		kind, text = verb+" no answer", err.Error()
	case code < 300 || code == 404 || code == 409:
		return
	default:
		kind, text = fmt.Sprintf("%s %d %s", verb, code, answer.Reason), answer.Message
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil {
		a.count, a.texts = map[string]int{}, map[string]string{}
	}
	if a.count[kind]++; a.count[kind] == 1 {
		a.texts[kind] = server + ": " + text
	}
}

// String is one line for each kind of answer.
func (a *answers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(a.count)) {
		fmt.Fprintf(&b, "  %6d %s, first: %.300s\n", a.count[kind], kind, a.texts[kind])
	}
	return b.String()
}

// noSpace is how a server says that the storage is full.
const noSpace = "no space left"

// unclear returns the kinds of answers with a 500 that do not say what failed.
func (a *answers) unclear() (kinds []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for kind, n := range a.count {
		if strings.Contains(kind, " 500 ") && !strings.Contains(a.texts[kind], noSpace) {
			kinds = append(kinds, fmt.Sprintf("%d times %s: %s", n, kind, a.texts[kind]))
		}
	}
	return kinds
}
