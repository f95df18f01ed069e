package encryption

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// watch tells of changes of what a path leads to: of the file, and of every symbolic link on the way to it, as a
// volume of a ConfigMap or Secret replaces a link and not the file.
type watch struct {
	file     string
	logger   *slog.Logger
	notifier *fsnotify.Watcher // nil where the system has none to give; then polling must do
	// events has a token when something may have changed.
	events chan struct{}
	done   chan struct{}

	names atomic.Pointer[map[string]bool] // the paths that matter
}

// newWatch begins to watch. It must be closed.
func newWatch(file string, logger *slog.Logger) *watch {
	w := &watch{file: file, logger: logger, events: make(chan struct{}, 1), done: make(chan struct{})}
	w.names.Store(&map[string]bool{})
	var err error
	if w.notifier, err = fsnotify.NewWatcher(); err != nil {
		logger.Warn("changes of the encryption configuration are found by polling only", "error", err)
		close(w.done)
		return w
	}
	w.follow()
	go w.run()
	w.notify() // for what happened before
	return w
}

// follow watches the directories of all that matters, after a link may have changed.
func (w *watch) follow() {
	if w.notifier == nil {
		return
	}
	names, directories := map[string]bool{}, map[string]bool{}
	for _, name := range wayTo(w.file) {
		names[name] = true
		directories[filepath.Dir(name)] = true
	}
	w.names.Store(&names)
	for _, old := range w.notifier.WatchList() {
		if !directories[old] {
			_ = w.notifier.Remove(old) // it may be gone already
		}
	}
	for _, directory := range slices.Sorted(maps.Keys(directories)) {
		if err := w.notifier.Add(directory); err != nil {
			w.logger.Debug("directory of the encryption configuration cannot be watched", "directory", directory, "error", err)
		}
	}
}

func (w *watch) run() {
	defer close(w.done)
	for {
		select {
		case event, ok := <-w.notifier.Events:
			if !ok {
				return
			}
			if (*w.names.Load())[event.Name] && event.Op != fsnotify.Chmod {
				w.notify()
			}
		case _, ok := <-w.notifier.Errors: // events were lost
			if !ok {
				return
			}
			w.notify()
		}
	}
}

func (w *watch) notify() {
	select {
	case w.events <- struct{}{}:
	default:
	}
}

func (w *watch) close() {
	if w.notifier != nil {
		_ = w.notifier.Close() // nothing can be done about it
	}
	<-w.done
}

// longestWay bounds the symbolic links that are followed.
const longestWay = 40

// wayTo returns every symbolic link that a path leads over, and the file at its end, as absolute paths.
func wayTo(file string) []string {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil
	}
	const slash = string(filepath.Separator)
	root := filepath.VolumeName(file) + slash
	at, rest := root, strings.Split(file[len(root):], slash)
	var way []string
	for len(rest) > 0 && len(way) < longestWay {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil { // no link, or not there
			if at = next; len(rest) == 0 {
				way = append(way, next)
			}
			continue
		}
		way = append(way, next)
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(strings.Split(strings.Trim(filepath.Clean(target), slash), slash), rest...)
	}
	return way
}
