package etcd3

import (
	"bytes"
	"context"
	"os"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

const (
	// packingRows are read at once: reads and writes go on between them only.
	packingRows = 100
	// packingShare is which part of a file that is packed is not rows: at most, but for the smallest of files.
	packingShare = 50
)

// packed returns how large the file would be if it were defragmented, or a little more. It reads all rows up to a revision.
func (s *space) packed(ctx context.Context, revision int64) (int64, error) {
	b := s.backend()
	b.ForceCommit() // what a compaction has deleted is still there before
	p := packing{pageSize: int64(os.Getpagesize())}
	// What is not committed is of later revisions: etcd would return it with each chunk, behind rows that it leaves out for it.
	// A concurrent transaction would do so with what was committed last.
	end := mvcc.RevToBytes(mvcc.Revision{Main: revision + 1}, mvcc.NewRevBytes())
	for from := []byte{0}; from != nil; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		tx := b.ReadTx()
		tx.RLock()
		keys, values := tx.UnsafeRange(schema.Key, from, end, packingRows)
		for i := range keys {
			p.add(int64(len(keys[i]) + len(values[i])))
		}
		from = nil
		if len(keys) == packingRows {
			from = append(bytes.Clone(keys[len(keys)-1]), 0)
		}
		tx.RUnlock()
	}
	size := p.bytes()
	return size + size/packingShare, nil
}

// packing counts the pages that rows fill which are written one behind the other, as bbolt does in a defragmentation: nine
// tenths of each, and two rows at least, for which a page is as long as they need.
type packing struct {
	pageSize int64
	full     int64 // pages that no row is added to
	rows     int64 // of the page that is not full, and the bytes of it
	used     int64
}

// What bbolt keeps with each page, and with each row.
const (
	pageHeader = 16
	rowHeader  = 16
)

// add adds a row whose key and value have so many bytes.
func (p *packing) add(size int64) {
	size += rowHeader
	if p.rows >= 2 && pageHeader+p.used+size > p.pageSize*9/10 {
		p.full += p.pages()
		p.rows, p.used = 0, 0
	}
	p.rows++
	p.used += size
}

// pages returns how many the page that is not full counts for.
func (p *packing) pages() int64 { return (pageHeader + p.used + p.pageSize - 1) / p.pageSize }

func (p *packing) bytes() int64 { return (p.full + p.pages()) * p.pageSize }
