package policies

import "weir.dev/weir/abi/document"

// Held remembers whether match conditions hold for the documents of a request, for all bindings and params by which a
// policy judges it. The zero value remembers nothing yet; a nil one nothing at all. One goroutine uses it.
type Held struct{ entries []heldEntry }

type heldEntry struct {
	conditions                 *Conditions
	object, oldObject, request document.Value
	holds                      bool
	err                        error
}

// Reset forgets everything.
func (h *Held) Reset() { h.entries = h.entries[:0] }

func (h *Held) find(c *Conditions, r *Review) *heldEntry {
	if h == nil {
		return nil
	}
	for i := range h.entries {
		if e := &h.entries[i]; e.conditions == c && e.object == r.Object && e.oldObject == r.OldObject && e.request == r.Request {
			return e
		}
	}
	return nil
}

func (h *Held) add(c *Conditions, r *Review, holds bool, err error) {
	if h != nil {
		h.entries = append(h.entries, heldEntry{c, r.Object, r.OldObject, r.Request, holds, err})
	}
}
