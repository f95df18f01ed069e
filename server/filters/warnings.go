package filters

import (
	"net/http"
	"sync"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/warning"
)

// Bounds on the warnings of one answer, in characters, as upstream has them: clients refuse longer headers.
// Once they are more than maxWarningsLength together, each is cut to cutWarningLength.
const (
	maxWarningsLength = 4 << 10
	cutWarningLength  = 256
)

// withWarnings lets what serves the request add Warning headers until the answer begins.
func withWarnings(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := warning.WithWarningRecorder(r.Context(), &warnings{header: w.Header()})
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// warnings are those of one answer.
type warnings struct {
	mu     sync.Mutex
	header http.Header        // guarded by mu
	seen   map[agentText]bool // guarded by mu
	order  []agentText        // guarded by mu; those in header
	length int                // guarded by mu; of the texts in header
	cut    bool               // guarded by mu
}

type agentText struct{ agent, text string }

// AddWarning implements warning.Recorder. A text comes once.
func (w *warnings) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := agentText{agent, text}
	if text == "" || w.seen[one] || w.cut && w.length >= maxWarningsLength {
		return
	}
	if w.seen == nil {
		w.seen = map[agentText]bool{}
	}
	w.seen[one] = true
	w.order = append(w.order, one)
	if w.cut || w.length+utf8.RuneCountInString(text) <= maxWarningsLength {
		w.writeLocked(one)
		return
	}
	w.cut, w.length = true, 0
	w.header.Del("Warning")
	for _, one := range w.order {
		w.writeLocked(one)
	}
}

// writeLocked adds the header of a warning. A text that no header can hold is dropped, as upstream does.
func (w *warnings) writeLocked(one agentText) {
	if w.cut {
		n := 0
		for i := range one.text {
			if n++; n > cutWarningLength {
				one.text = one.text[:i]
				break
			}
		}
	}
	header, err := net.NewWarningHeader(299, one.agent, one.text)
	if err != nil {
		return
	}
	w.length += utf8.RuneCountInString(one.text)
	w.header.Add("Warning", header)
}
