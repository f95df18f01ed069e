package document

import "strconv"

const (
	// maxDuplicates is the most duplicates reported of one text, as by sigs.k8s.io/json.
	maxDuplicates = 100
	// maxDuplicateText bounds the bytes of paths made to find them, so that a deep
	// text of nothing but duplicates costs no more than another.
	maxDuplicateText = 1 << 20
)

type duplicate struct {
	Duplicate
	offset int // behind the name
}

// visit is an object or array whose duplicates are being looked for.
type visit struct {
	next, end uint32
	isObject  bool
	at        int            // array: number of the element visited last
	name      string         // object: the member visited last
	seen      map[string]int // object: how often a name occurred
}

// findDuplicates returns the duplicate members of raw in the order of the text, each
// path once, at most limit.
func findDuplicates(raw []byte, tape []node, limit int) []duplicate {
	var found []duplicate
	reported := map[string]struct{}{}
	text := 0
	open := []visit{{next: 0, end: 1, at: -1}} // the root, as if alone in an array
	for len(open) > 0 {
		top := &open[len(open)-1]
		if top.next >= top.end {
			open = open[:len(open)-1]
			continue
		}
		value := top.next
		if top.isObject {
			name := &tape[top.next]
			value = top.next + 1
			top.name = name.text(raw)
			top.seen[top.name]++
			if top.seen[top.name] == 2 {
				path := visitPath(open[1:])
				text += len(path)
				if _, ok := reported[path]; !ok {
					reported[path] = struct{}{}
					found = append(found, duplicate{Duplicate{Path: path}, int(name.end)})
				}
				if len(found) >= limit || text > maxDuplicateText {
					return found
				}
			}
		} else {
			top.at++
		}
		n := &tape[value]
		top.next = n.next
		switch n.kind() {
		case Object:
			open = append(open, visit{next: value + 1, end: n.next, isObject: true, seen: map[string]int{}})
		case Array:
			open = append(open, visit{next: value + 1, end: n.next, at: -1})
		}
	}
	return found
}

func visitPath(open []visit) string {
	var path []byte
	for i := range open {
		if !open[i].isObject {
			path = append(path, '[')
			path = strconv.AppendInt(path, int64(open[i].at), 10)
			path = append(path, ']')
			continue
		}
		if i > 0 {
			path = append(path, '.')
		}
		path = append(path, open[i].name...)
	}
	return string(path)
}
