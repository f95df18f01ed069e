package storage

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unique"
	"unsafe"
)

// Text is the JSON of an object. Pieces of it may be in memory once for all texts that have them, see Row.Compact. It is
// immutable and may be copied. The zero Text is none: there is no such object.
type Text struct {
	// own is the text without the pieces that are shared. Invariant: it is empty only in the zero Text.
	own    string
	shared *piece
}

// piece is a part of a Text that others may have too.
type piece struct {
	at   int // where it is in own
	text unique.Handle[string]
	next *piece // nil, or one with a larger at
}

const (
	// minShared is how long a piece is at least that is shared.
	minShared = 128
	// pieceSize is what a piece takes beside its text, in bytes: 24 itself, and what package unique needs to find it.
	pieceSize = 24 + 256
	// maxEntries is how many entries of managedFields are looked at. Objects have one to ten of updates, a client may write
	// tens of thousands.
	maxEntries = 32
	// worthSharing is the part of a text that must be shared at least: less is not worth that the whole is put together for
	// those who read it.
	worthSharing = 8
	// seenPieces is about how many pieces are remembered by their hash, to find those that come again.
	seenPieces = 4096
	// latestPieces is how many pieces are remembered themselves, and maxLatest how long they are at most.
	latestPieces, maxLatest = 256, 4 << 10
)

// NewText returns the Text of raw, which the caller hands over: nobody may write to it any more. That of nothing is the zero Text.
func NewText(raw []byte) Text {
	if len(raw) == 0 {
		return Text{}
	}
	return Text{own: alias(raw)}
}

// IsZero reports whether there is no object.
func (t Text) IsZero() bool { return t.own == "" }

// IsWhole reports whether the text is in one piece, so that Bytes costs nothing.
func (t Text) IsWhole() bool { return t.shared == nil }

// Len returns the length of the text in bytes.
func (t Text) Len() int {
	n := len(t.own)
	for p := t.shared; p != nil; p = p.next {
		n += len(p.text.Value())
	}
	return n
}

// Size returns how many bytes the text keeps alive were it the only one that has its pieces.
func (t Text) Size() int {
	n := t.Len()
	for p := t.shared; p != nil; p = p.next {
		n += pieceSize
	}
	return n
}

// Bytes returns the text, nil of the zero Text. The caller must not write to it. Where pieces are shared it is made anew
// with each call.
func (t Text) Bytes() []byte {
	switch {
	case t.own == "":
		return nil
	case t.shared == nil:
		return bytesOf(t.own)
	}
	out := make([]byte, 0, t.Len())
	var scratch [8][]byte
	for _, piece := range t.Pieces(scratch[:0]) {
		out = append(out, piece...)
	}
	return out
}

// Pieces appends the pieces of the text, in their order. The caller must not write to them.
func (t Text) Pieces(dst [][]byte) [][]byte {
	from := 0
	for p := t.shared; p != nil; p = p.next {
		dst = append(dst, bytesOf(t.own[from:p.at]), bytesOf(p.text.Value()))
		from = p.at
	}
	if from == len(t.own) {
		return dst
	}
	return append(dst, bytesOf(t.own[from:]))
}

// String returns the text.
func (t Text) String() string { return string(t.Bytes()) }

// Equal reports whether both texts are the same, byte for byte.
func (t Text) Equal(other Text) bool {
	switch {
	case t.Is(other):
		return true
	case t.Len() != other.Len():
		return false
	case t.shared == nil:
		return other.reads(t.own)
	}
	return t.reads(alias(other.Bytes()))
}

// reads reports whether the text is s, which has its length.
func (t Text) reads(s string) bool {
	var scratch [8][]byte
	for _, piece := range t.Pieces(scratch[:0]) {
		if s[:len(piece)] != string(piece) {
			return false
		}
		s = s[len(piece):]
	}
	return true
}

// Is reports whether both are one text in memory, which costs nothing to know.
func (t Text) Is(other Text) bool {
	return t.Place() == other.Place() && len(t.own) == len(other.own) && t.shared == other.shared
}

// Place returns where the text is in memory. No other text is there as long as it is, but for those that Is reports. It
// is nil of the zero Text.
func (t Text) Place() *byte {
	if t.own == "" {
		return nil
	}
	return unsafe.StringData(t.own)
}

// Sum returns a hash of the text.
func (t Text) Sum(seed maphash.Seed) uint64 {
	if t.shared == nil {
		return maphash.String(seed, t.own)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	var scratch [8][]byte
	for _, piece := range t.Pieces(scratch[:0]) {
		_, _ = h.Write(piece)
	}
	return h.Sum64()
}

// Compact returns the same row in less memory: pieces of its text that other texts have too are in memory once. These are
// those that say in metadata.managedFields what a manager owns, a third of a small object, which all objects that are
// written in one way have, but for the time. A piece is shared from the second time on that it comes. What is the row's own,
// its key too, is then in one allocation: a part of the key keeps all of it. It returns r itself where there is little to
// share.
func (r Row) Compact() Row {
	text := r.Value.own
	if r.Value.shared != nil || len(text) < minShared {
		return r
	}
	var first piece
	last, removed := &first, 0
	for at, same := range entries(text) {
		last.next = &piece{at: at - removed, text: same}
		last = last.next
		removed += len(same.Value())
	}
	if removed == 0 || removed*worthSharing < len(text) {
		return r
	}
	var own strings.Builder
	own.Grow(len(r.Key) + len(text) - removed)
	own.WriteString(r.Key)
	from, skipped := 0, 0
	for p := first.next; p != nil; p = p.next {
		own.WriteString(text[from : p.at+skipped])
		skipped += len(p.text.Value())
		from = p.at + skipped
	}
	own.WriteString(text[from:])
	all := own.String()
	r.Key, r.Value = all[:len(r.Key)], Text{own: all[len(r.Key):], shared: first.next}
	return r
}

// entries calls yield with what is to be shared of each of metadata.managedFields, which is all up to the time that the
// entry ends with, and where it begins. It stops at what is no JSON.
func entries(text string) func(yield func(int, unique.Handle[string]) bool) {
	return func(yield func(int, unique.Handle[string]) bool) {
		s := scanner{bytesOf(text)}
		i := s.member(s.member(s.space(0), "metadata"), "managedFields")
		if i < 0 || i >= len(text) || text[i] != '[' {
			return
		}
		i = s.space(i + 1)
		for n := 0; n < maxEntries && i < len(text) && text[i] == '{'; n++ {
			start, end := i, i // the place of the piece
			known, ok := lately(text[start:])
			if ok {
				end += len(known.Value())
			} else if end = s.upToTime(start); end < 0 {
				return
			} else if end-start >= minShared && seenBefore(text[start:end]) {
				known, ok = unique.Make(text[start:end]), true
				remember(known)
			}
			if ok && !yield(start, known) {
				return
			}
			if i = end - 1; text[i] != '}' { // else there is no time
				if i = s.closing(end); i < 0 {
					return
				}
			}
			if i = s.space(i + 1); i >= len(text) || text[i] != ',' {
				return
			}
			i = s.space(i + 1)
		}
	}
}

// upToTime returns where the time of the entry at i begins, or the index after the entry where there is none; -1 where
// there is no entry.
func (s scanner) upToTime(i int) int {
	if at := s.member(i, "time"); at >= 0 {
		return at
	}
	return s.value(i)
}

// What is known of pieces is known to all texts of the process, as what unique holds is.
var (
	// seen holds hashes of pieces, two where their low bits say, the later first: another takes the place of the earlier. So
	// two that objects have by turns are both found. A piece that never comes again costs no more than that.
	seen [seenPieces / 2][2]atomic.Uint64
	// latest holds pieces that are shared, each where latestOf says.
	latest    [latestPieces]atomic.Pointer[unique.Handle[string]]
	pieceSeed = maphash.MakeSeed()
)

// seenBefore reports whether a piece has come before, as far as is remembered.
func seenBefore(text string) bool {
	sum := maphash.String(pieceSeed, text)
	slot := &seen[sum%uint64(len(seen))]
	if slot[0].Load() == sum || slot[1].Load() == sum {
		return true
	}
	slot[1].Store(slot[0].Swap(sum))
	return false
}

// lately returns the piece that text begins with, if it was shared lately. To compare it is far less than to find its end:
// what begins with an entry up to its time, or with a whole one, has no other.
func lately(text string) (unique.Handle[string], bool) {
	if len(text) < 2*minShared {
		return unique.Handle[string]{}, false
	}
	p := latestOf(text).Load()
	if p == nil || !strings.HasPrefix(text, p.Value()) {
		return unique.Handle[string]{}, false
	}
	return *p, true
}

// remember has lately find a piece, which thus lives until another takes its place.
func remember(known unique.Handle[string]) {
	if text := known.Value(); len(text) >= 2*minShared && len(text) <= maxLatest {
		latestOf(text).Store(&known)
	}
}

// latestOf returns where a piece is remembered that begins as text does. Most begin alike, so it is not the first bytes
// that tell.
func latestOf(text string) *atomic.Pointer[unique.Handle[string]] {
	return &latest[maphash.String(pieceSeed, text[minShared:2*minShared])%latestPieces]
}

func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
