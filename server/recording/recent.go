package recording

// maxRecent is how many requests a recent remembers.
const maxRecent = 1 << 16

// recent remembers the last few names. The zero value is empty. One goroutine uses it.
type recent struct {
	known map[string]bool
	order []string // a ring, once it is full
	next  int
}

func (r *recent) add(name string) {
	if name == "" || r.known[name] {
		return
	}
	if r.known == nil {
		r.known = map[string]bool{}
	}
	if r.known[name] = true; len(r.order) < maxRecent {
		r.order = append(r.order, name)
		return
	}
	delete(r.known, r.order[r.next])
	r.order[r.next] = name
	r.next = (r.next + 1) % maxRecent
}

func (r *recent) has(name string) bool { return r.known[name] }
