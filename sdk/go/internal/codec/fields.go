package codec

import "reflect"

const (
	// deepestField is where the fields of a type are asked for whole.
	deepestField = 5
	// mostFields is how many fields are asked for; a type that has more is asked
	// for by its outermost members.
	mostFields = 40
)

// Fields returns the paths, by names of members, of what the struct that v points
// to can hold of an object. It is nil for other types.
func (c *Codec) Fields(v any) [][]string {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil
	}
	p := c.plan(t.Elem())
	if p.kind != kindStruct {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.paths == nil {
		p.paths = p.appendPaths(nil, nil, deepestField)
		if len(p.paths) > mostFields {
			p.paths = p.appendPaths(nil, nil, 1)
		}
		if len(p.paths) == 0 {
			p.paths = [][]string{{"kind"}} // every answer has it
		}
	}
	return p.paths
}

func (p *plan) appendPaths(paths [][]string, parent []string, depth int) [][]string {
	for i := range p.fields {
		f := &p.fields[i]
		path := append(append([]string{}, parent...), f.name)
		inner := f.plan
		if inner.kind == kindPointer {
			inner = inner.elem
		}
		if inner.kind == kindStruct && len(inner.fields) > 0 && depth > 1 {
			paths = inner.appendPaths(paths, path, depth-1)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}
