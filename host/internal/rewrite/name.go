package rewrite

// nameSection keeps the module's and the functions' names; those of locals,
// labels and the rest would have to be moved too and serve debuggers only.
// A section that does not parse is dropped, as engines ignore it.
func (m *module) nameSection() []byte {
	if m.name == nil {
		return nil
	}
	out := appendName(nil, "name")
	r := &reader{b: m.name}
	for r.left() > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		switch id {
		case 0:
			out = appendSection(out, id, body)
		case 1:
			s := &reader{b: body}
			n := s.count("names", maxFunctions+maxImports)
			names := appendU32(make([]byte, 0, len(body)+n/2), uint32(n))
			for range n {
				names = appendU32(names, m.funcIndex(s))
				names = appendName(names, s.name())
			}
			if s.err != nil {
				return nil
			}
			out = appendSection(out, id, names)
		}
	}
	return out
}
