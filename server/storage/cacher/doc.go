// Package cacher serves the objects of one resource from memory.
//
// A Cacher stands on another storage.Interface. It lists the resource once, follows
// one watch, and keeps
//
//   - a copy-on-write tree of the rows, from which objects and lists are read; rows share what
//     storage.Row.Compact finds in more than one, and
//   - one ring of the latest events, on which every watcher is a cursor.
//
// Writes pass through, with the cached row as a guess at the current one. A read that
// must be current asks the storage for its revision, one question for all who wait,
// and then waits until the cache has seen that revision; nothing but the revision
// crosses to the storage.
//
// A watcher costs a few hundred bytes and no goroutine. It is woken only for events
// that its key prefix, or the one field or label value that its selector demands, may
// concern. One that does not keep up falls behind by itself, and only when the ring
// has overwritten what it has not read does it end, cleanly: the next watch, from where
// it was, reads from the storage what the storage still has.
package cacher
