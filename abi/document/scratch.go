package document

// maxScratch is the longest tape that a Scratch keeps, 16 bytes a node.
const maxScratch = 1 << 16

// Scratch reads one document after another into the same memory, for those who look at many rows and keep none of
// them. It is for one goroutine at a time. The zero Scratch is ready.
type Scratch struct {
	doc  Document
	tape []node
}

// FromCanonical returns the Document of raw, which must be canonical JSON, as [FromCanonical] does. The Document and
// every Value of it are good until the next call; texts that were read from it are good for as long as raw is.
func (s *Scratch) FromCanonical(raw []byte) *Document {
	tape, err := scanCanonical(raw, s.tape[:0])
	s.doc = Document{raw: raw, indexed: true, tape: tape, err: err}
	if tape != nil && cap(tape) <= maxScratch {
		s.tape = tape
	}
	return &s.doc
}
