package request

import "context"

type servedKey struct{}

// WithServed returns a context in which MarkServed sets served. What a path names is a client's word
// until it is known to be served.
func WithServed(ctx context.Context) (marked context.Context, served *bool) {
	served = new(bool)
	return context.WithValue(ctx, servedKey{}, served), served
}

// MarkServed says that the resource which the path of the request names is served. The goroutine that
// serves the request calls it.
func MarkServed(ctx context.Context) {
	if served, ok := ctx.Value(servedKey{}).(*bool); ok {
		*served = true
	}
}
