package h2

// inflow is a window of flow control that the server gives: how much a client may send. It is guarded by mu of the
// connection.
type inflow struct {
	size   int64 // of the whole window
	avail  int64 // what the client may still send
	unsent int64 // what has been read and the client does not know of
}

func (f *inflow) init(size uint32) { f.size, f.avail = int64(size), int64(size) }

// take notes that the client has sent n bytes. It reports whether it was allowed to.
func (f *inflow) take(n uint32) bool {
	if int64(n) > f.avail {
		return false
	}
	f.avail -= int64(n)
	return true
}

// give notes that n bytes have been read. It returns what to tell the client, which is 0 until it is worth a frame: where
// others have much that is not read, that is when the client has little left to send.
func (f *inflow) give(n int) uint32 {
	f.unsent += int64(n)
	if f.unsent == 0 || f.unsent < min(f.size/4, f.avail) {
		return 0
	}
	told := f.unsent
	f.avail += told
	f.unsent = 0
	return uint32(told)
}
