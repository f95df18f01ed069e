package policy

import (
	"slices"
	"strings"

	"weir.dev/weir/abi/document"
)

// ledger has which mutating policy has written which paths.
type ledger struct{ entries []ledgerEntry }

type ledgerEntry struct {
	policy  *Policy
	binding *Binding // by which it did so first
	paths   []string
}

// overlap is a path that several policies have written.
type overlap struct {
	path     string
	policies []string
	bindings []*Binding
}

// maxLedgerPaths bounds the paths that are remembered of one change.
const maxLedgerPaths = 256

// note adds what a policy has changed.
func (l *ledger) note(p *Policy, b *Binding, before, after *document.Document) {
	paths := changedPaths(nil, "", before.Root(), after.Root())
	for i := range l.entries {
		if l.entries[i].policy == p {
			l.entries[i].paths = append(l.entries[i].paths, paths...)
			return
		}
	}
	l.entries = append(l.entries, ledgerEntry{policy: p, binding: b, paths: paths})
}

// overlaps returns the paths that more than one policy has written, each with the names of two of them.
func (l *ledger) overlaps() []overlap {
	var found []overlap
	for i := range l.entries {
		for j := range l.entries[:i] {
			for _, path := range l.entries[i].paths {
				if slices.ContainsFunc(l.entries[j].paths, func(other string) bool { return within(path, other) || within(other, path) }) {
					found = append(found, overlap{path: path, policies: []string{l.entries[j].policy.Name, l.entries[i].policy.Name},
						bindings: []*Binding{l.entries[j].binding, l.entries[i].binding}})
				}
			}
		}
	}
	return found
}

// within reports whether a path is another or below it.
func within(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (rest == "" || rest[0] == '.')
}

// changedPaths appends the paths of what differs: of objects their members, of all else the whole value.
func changedPaths(paths []string, at string, before, after document.Value) []string {
	if len(paths) >= maxLedgerPaths || string(before.Raw()) == string(after.Raw()) {
		return paths
	}
	if before.Kind() != document.Object || after.Kind() != document.Object {
		return append(paths, at)
	}
	for name, value := range after.Members() {
		paths = changedPaths(paths, join(at, name), before.Get(name), value)
	}
	for name := range before.Members() {
		if !after.Get(name).Exists() {
			paths = append(paths, join(at, name))
		}
	}
	return paths
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
