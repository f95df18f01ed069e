package rest

import "context"

type eachKey struct{}

// WithEach returns a context for a request that may be about many objects: each gives what is to be had for one of them
// alone, such as a budget of its own.
func WithEach(ctx context.Context, each func(context.Context) context.Context) context.Context {
	return context.WithValue(ctx, eachKey{}, each)
}

// Each returns the context for one of the objects that the request of ctx is about. Who works through many calls it for
// every one.
func Each(ctx context.Context) context.Context {
	if each, ok := ctx.Value(eachKey{}).(func(context.Context) context.Context); ok {
		return each(ctx)
	}
	return ctx
}
