// Package registry keeps the objects of a resource: a Store runs the resource's
// strategy (server/rest) around storage (server/storage) and answers errors as clients
// know them.
//
// A Store serves the object itself; Store.Subresource serves the same objects by
// another strategy (status, finalize); Scale shows a part of them as an
// autoscaling/v1 Scale; Namespaces is the Store of namespaces, which end only when they are empty.
package registry
