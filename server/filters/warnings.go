package filters

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/warning"
)

// Bounds on the warnings of one answer, as upstream has them.
const (
	maxWarnings      = 256
	maxWarningLength = 4 << 10
)

// withWarnings lets what serves the request add Warning headers until the answer begins.
func withWarnings(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := warning.WithWarningRecorder(r.Context(), &warnings{header: w.Header(), seen: map[string]bool{}})
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

type warnings struct {
	mu     sync.Mutex
	header http.Header     // guarded by mu
	seen   map[string]bool // guarded by mu
}

// AddWarning implements warning.Recorder. A text comes once, cut to a bound.
func (w *warnings) AddWarning(agent, text string) {
	if len(text) > maxWarningLength {
		text = fmt.Sprintf("%s…", text[:maxWarningLength])
	}
	header, err := net.NewWarningHeader(299, agent, text)
	if err != nil {
		return // a text that no header can hold; upstream drops it too
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[header] || len(w.seen) >= maxWarnings {
		return
	}
	w.seen[header] = true
	w.header.Add("Warning", header)
}
