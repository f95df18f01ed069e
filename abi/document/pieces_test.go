package document_test

import (
	"strings"
	"sync"
	"testing"

	"weir.dev/weir/abi/document"
)

// inPieces is a text in pieces; joined counts how often it was put together.
type inPieces struct {
	pieces []string
	mu     sync.Mutex
	joined int
}

func (p *inPieces) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined++
	return []byte(strings.Join(p.pieces, ""))
}

func (p *inPieces) Len() int { return len(strings.Join(p.pieces, "")) }

func (p *inPieces) Pieces(dst [][]byte) [][]byte {
	for _, piece := range p.pieces {
		dst = append(dst, []byte(piece))
	}
	return dst
}

// TestFromPieces reads documents that are kept in pieces as any other, from many goroutines at once.
func TestFromPieces(t *testing.T) {
	texts := []*inPieces{
		{pieces: []string{`{"a":`, `{"b":"x"}`, `}`}},
		{pieces: []string{`{"a":{"b":"x"}`, `,"c":1}`}},
		{pieces: []string{`{"b":1,`, `"a":2}`}}, // not canonical
	}
	docs := document.FromAllPieces(len(texts), func(i int) document.Pieces { return texts[i] })
	for i, d := range docs {
		whole := strings.Join(texts[i].pieces, "")
		if got := d.Pieces(nil); len(got) != len(texts[i].pieces) {
			t.Errorf("Pieces() of %s = %q", whole, got)
		}
		if d.Len() != len(whole) {
			t.Errorf("Len() = %d, want %d", d.Len(), len(whole))
		}
		if texts[i].joined != 0 {
			t.Error("put together without need")
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if got := string(d.Bytes()); got != whole {
					t.Errorf("Bytes() = %s, want %s", got, whole)
				}
				if i == 2 {
					if d.Err() == nil {
						t.Error("Err() is nil of what is not canonical")
					}
					return
				}
				if got := d.Get("a", "b").String(); got != "x" {
					t.Errorf("a.b = %q, want x", got)
				}
			})
		}
		all.Wait()
		if texts[i].joined != 1 {
			t.Errorf("put together %d times, want once", texts[i].joined)
		}
		if !d.Equal(document.FromCanonical([]byte(whole))) {
			t.Error("not equal to the whole")
		}
	}
	if got := string(document.FromPieces(texts[0]).Bytes()); got != `{"a":{"b":"x"}}` {
		t.Errorf("Bytes() = %s", got)
	}
	patch, err := document.Parse([]byte(`{"a":{"b":"y"}}`))
	if err != nil {
		t.Fatal(err)
	}
	edited, err := docs[1].ApplyMergePatch(patch)
	if err != nil || string(edited.Bytes()) != `{"a":{"b":"y"},"c":1}` {
		t.Errorf("ApplyMergePatch: %s, %v", edited.Bytes(), err)
	}
	var none *document.Document
	if none.Len() != 0 || none.Pieces(nil) != nil {
		t.Error("a nil Document has a text")
	}
}
