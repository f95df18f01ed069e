package storage

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// compact returns the text of raw as a row has it that was compacted.
func compact(raw string) Text {
	return Row{Key: "/registry/x", Value: NewText([]byte(raw))}.Compact().Value
}

// managed returns an object whose managers own these fields.
func managed(name string, owned ...string) string {
	var entries []string
	for i, fields := range owned {
		entries = append(entries, fmt.Sprintf(`{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s,"manager":"m%d","operation":"Update","time":"2026-01-01T00:00:%02dZ"}`, fields, i, len(name)))
	}
	return `{"apiVersion":"v1","kind":"Widget","metadata":{"labels":{"a\"}":"]"},"managedFields":[` + strings.Join(entries, ",") + `],"name":"` + name + `"},"spec":{"metadata":{"managedFields":[{"fieldsV1":{}}]}}}`
}

// ownedFields returns fields that a manager owns, in n bytes or some more; those of another seed are others.
func ownedFields(seed string, n int) string {
	var b strings.Builder
	b.WriteString(`{"f:spec":{`)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `"f:%s%d":{},`, seed, i)
	}
	return strings.TrimSuffix(b.String(), ",") + `}}`
}

// newRun returns what makes the pieces of a test others than those of the same test before, which the process may still know.
func newRun() uint64 { return rand.Uint64() } //nolint:gosec // nothing is secret

func TestCompact(t *testing.T) {
	a, b, short := ownedFields("a", 300), ownedFields("b", 1000), ownedFields("s", 20)
	tests := []struct {
		name   string
		text   string
		pieces int // that are shared
	}{
		{"one manager", managed("x", a), 1},
		{"two managers", managed("x", a, b), 2},
		{"one of little", managed("x", a, short, b), 2},
		{"of little only", managed("x", short), 0},
		{"none", managed("x"), 0},
		{"no managedFields", `{"metadata":{"name":"x","annotations":{"long":"` + strings.Repeat("x", 300) + `"}}}`, 0},
		{"no metadata", `{"spec":"` + strings.Repeat("x", 300) + `"}`, 0},
		{"metadata is no object", `{"metadata":"` + strings.Repeat("x", 300) + `"}`, 0},
		{"entry is no object", `{"metadata":{"managedFields":["` + strings.Repeat("x", 300) + `",{"fieldsV1":` + a + `}]}}`, 0},
		{"little of the whole", managed(strings.Repeat("x", 3000), a), 0},
		{"space", `{ "metadata" : { "managedFields" : [ { "fieldsV1" : ` + a + ` , "time" : 1 } , { "fieldsV1" : ` + b + ` , "time" : 2 , "x" : 1 } ] } }`, 2},
		{"no time", `{"metadata":{"managedFields":[{"fieldsV1":` + a + `},{"fieldsV1":` + b + `,"time":1}]}}`, 2},
		{"cut off in the first", managed("x", a)[:150], 0},
		{"cut off after the first", managed("x", a, b)[:len(managed("x", a, b))-100], 1},
		{"no JSON", strings.Repeat("}", 300), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			compact(test.text) // seen
			first, second := compact(test.text), compact(test.text)
			for _, text := range []Text{first, second} {
				pieces := 0
				for p := text.shared; p != nil; p = p.next {
					pieces++
				}
				if pieces != test.pieces {
					t.Errorf("%d pieces are shared, want %d", pieces, test.pieces)
				}
				if got := string(text.Bytes()); got != test.text {
					t.Errorf("Bytes() = %s, want %s", got, test.text)
				}
				if got := string(slices.Concat(text.Pieces(nil)...)); got != test.text {
					t.Errorf("Pieces() = %s, want %s", got, test.text)
				}
				if got := text.Len(); got != len(test.text) {
					t.Errorf("Len() = %d, want %d", got, len(test.text))
				}
				if got, want := text.Size(), len(test.text)+test.pieces*pieceSize; got != want {
					t.Errorf("Size() = %d, want %d", got, want)
				}
				for _, same := range []Text{NewText([]byte(test.text)), first, second} {
					if !text.Equal(same) || !same.Equal(text) {
						t.Error("Equal() is false of the same text")
					}
					seed := maphash.MakeSeed()
					if text.Sum(seed) != same.Sum(seed) {
						t.Error("Sum() differs of the same text")
					}
				}
				other := NewText([]byte(strings.ToUpper(test.text)))
				if text.Equal(other) != (test.text == strings.ToUpper(test.text)) {
					t.Error("Equal() of another text")
				}
			}
			if !first.Is(first) || first.Is(second) {
				t.Errorf("Is() = %t of itself, %t of another in memory", first.Is(first), first.Is(second))
			}
		})
	}
}

// TestCompactMemory shows that objects which are written alike take memory for what they do not have in common.
func TestCompactMemory(t *testing.T) {
	fields := ownedFields("memory", 1000)
	const n = 1000
	own, whole := 0, 0
	for i := range n {
		text := compact(managed(fmt.Sprint("w", i), fields))
		own += len(text.own)
		whole += text.Len()
	}
	if most := whole - (n-1)*len(fields); own > most {
		t.Errorf("%d objects of %d bytes keep %d of their own, want at most %d", n, whole, own, most)
	}
}

func TestTextOfNothing(t *testing.T) {
	for _, text := range []Text{{}, NewText(nil), NewText([]byte{})} {
		if !text.IsZero() || text.Bytes() != nil || text.Len() != 0 || len(text.Pieces(nil)) != 0 || text.Place() != nil || !text.Equal(Text{}) || !(Row{Value: text}).Compact().Value.IsZero() {
			t.Errorf("%#v is not nothing", text)
		}
	}
}

// TestCompactOnce shows that what does not come again is not shared.
func TestCompactOnce(t *testing.T) {
	run := newRun()
	for i := range 100 {
		if text := compact(managed("x", ownedFields(fmt.Sprint("once", run, "-", i, "-"), 300))); text.shared != nil {
			t.Fatal("a piece is shared that has come once")
		}
	}
}

// TestCompactByTurns shows that two pieces are shared which objects have by turns, though their hashes fall on one place.
func TestCompactByTurns(t *testing.T) {
	run := newRun()
	at := func(i int) (fields string, place uint64) {
		fields = ownedFields(fmt.Sprint("turns", run, "-", i, "-"), 300)
		entry := managed("x", fields)
		start := strings.Index(entry, `{"apiVersion":"v1","fieldsType"`)
		end := strings.Index(entry, `"time":`) + len(`"time":`)
		return fields, maphash.String(pieceSeed, entry[start:end]) % seenPieces
	}
	one, place := at(0)
	for i := 1; ; i++ {
		other, same := at(i)
		if same != place {
			continue
		}
		for turn := range 2 {
			for _, fields := range []string{one, other} {
				if text := compact(managed("x", fields)); (text.shared != nil) != (turn > 0) {
					t.Errorf("turn %d: shared: %t", turn, text.shared != nil)
				}
			}
		}
		return
	}
}

// craftedEntry is an entry whose text could be taken for that of others: most begin alike, some go on where others end.
func craftedEntry(r *rand.Rand) string {
	space := func() string { return []string{"", "", "", " ", "  "}[r.IntN(5)] }
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	long := `"fieldsV1":{"f:` + strings.Repeat("x", 130+10*r.IntN(3)) + strings.Repeat("y", 120) + `":{}` + pick("", `,"time":1`, `,"f:\"time\":":{}`, `,"}":[]`) + `}`
	members := []string{space() + long}
	for range r.IntN(3) {
		members = append(members, space()+pick(`"manager":"a"`, `"manager":"a\\"`, `"manager":"\",\"time\":"`, `"tim\u0065":1`, `"x":"}],{"`, `"x":[{"time":"y"}]`))
	}
	if r.IntN(4) > 0 {
		members = append(members, space()+`"time"`+space()+`:`+space()+pick(`"2026"`, `1`, `{"time":1}`, `"}"`)+space())
	}
	if r.IntN(4) == 0 {
		members = append(members, pick(`"time":2`, `"z":"time"`))
	}
	return `{` + strings.Join(members, ",") + space() + `}`
}

// TestCompactTakesWholeEntries shows that what an entry shares ends where its own time begins, or the entry ends, however much
// it is like others. It is a hammer too: many find and remember pieces at once.
func TestCompactTakesWholeEntries(t *testing.T) {
	var shared atomic.Int64
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for range 3000 {
				var crafted []string
				for range 1 + r.IntN(4) {
					crafted = append(crafted, craftedEntry(r))
				}
				raw := `{"metadata":{"managedFields":[` + strings.Join(crafted, ",") + `],"name":"x"}}`
				if !json.Valid([]byte(raw)) {
					t.Errorf("no JSON: %s", raw)
					return
				}
				if got := compact(raw).String(); got != raw {
					t.Errorf("got  %s\nwant %s", got, raw)
					return
				}
				s := scanner{[]byte(raw)}
				for at, piece := range entries(raw) {
					shared.Add(1)
					want := raw[at:s.upToTime(at)] // but for space before the time, which others have not
					if strings.TrimRight(piece.Value(), " ") != strings.TrimRight(want, " ") {
						t.Errorf("%s is taken of %s", piece.Value(), raw[at:])
						return
					}
				}
			}
		})
	}
	all.Wait()
	if shared.Load() < 1000 {
		t.Errorf("%d pieces are shared", shared.Load())
	}
}

// TestCompactMany shows that an object with very many managers has few pieces: lists write each by itself, and each takes
// memory beside its text.
func TestCompactMany(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = ownedFields(fmt.Sprint("many", i, "-"), 150)
	}
	raw := managed("x", many...)
	compact(raw)
	text := compact(raw)
	if n := len(text.Pieces(nil)); n < 3 || n > 100 {
		t.Errorf("%d pieces", n)
	}
	if got := string(text.Bytes()); got != raw {
		t.Error("the text is another")
	}
}

// TestTextSize shows that a text takes no more memory than it says, also if nothing else has its pieces.
func TestTextSize(t *testing.T) {
	const n = 5000
	rows := make([]Row, n)
	before := heap()
	size := n * int(unsafe.Sizeof(Text{}))
	for i := range rows {
		raw := managed("x", ownedFields(fmt.Sprint("size", i, "-"), 40))
		compact(raw)
		rows[i] = Row{Value: NewText([]byte(raw))}.Compact()
		if rows[i].Value.shared == nil {
			t.Fatal("nothing is shared")
		}
		size += rows[i].Value.Size()
	}
	if took := heap() - before; took > size+size/8 { // what the allocator rounds up
		t.Errorf("%d texts take %d bytes, and say %d", n, took, size)
	}
	runtime.KeepAlive(rows)
}

// heap returns how many bytes are alive.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first finds out what unique need not have
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func BenchmarkCompact(b *testing.B) {
	raw := []byte(managed("x", ownedFields("bench", 1000)))
	Row{Value: NewText(raw)}.Compact()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		Row{Value: NewText(raw)}.Compact()
	}
}

func FuzzCompact(f *testing.F) {
	f.Add([]byte(managed("x", ownedFields("a", 300), ownedFields("b", 300))))
	f.Add([]byte(`{"metadata":{"managedFields":[{"fieldsV1":{` + strings.Repeat(" ", 200) + `}},{}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for range 2 {
			text := compact(string(raw))
			if got := string(text.Bytes()); got != string(raw) {
				t.Fatalf("Bytes() = %q, want %q", got, raw)
			}
		}
	})
}
