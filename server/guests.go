package server

import (
	"context"
	"time"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/host"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/request"
)

// allow gives what the modules of a request may use together. Requests that read call none.
func (s *Server) allow(ctx context.Context) context.Context {
	info, ok := request.InfoFrom(ctx)
	if !ok || info.Verb == "get" || info.Verb == "list" || info.Verb == "watch" {
		return ctx
	}
	if _, ok := apirequest.ReceivedTimestampFrom(ctx); !ok {
		ctx = apirequest.WithReceivedTimestamp(ctx, time.Now()) // the clock of guests and policies
	}
	return extension.Allowance{Fuel: s.config.ModuleRequestFuel, Timeout: s.config.ModuleRequestTimeout}.Begin(ctx)
}

// lookupKeeper keeps in memory what modules look up, longer than caches that nobody uses stay.
func (s *Server) lookupKeeper() loader.LookupKeeper {
	keep := extension.Lookuper{Holder: func() *extension.Holder { return s.loader.Holder() }}.Keep
	return loader.LookupKeeper{Keep: keep, Interval: s.config.Storage.WatchCacheIdleTimeout / 4}
}

// lookuper is what modules look objects up in.
func (s *Server) lookuper() host.Lookuper {
	return extension.Lookuper{Holder: func() *extension.Holder { return s.loader.Holder() }}
}

// guestAuthorizer is what modules ask what users may do.
func (s *Server) guestAuthorizer() host.Authorizer {
	return extension.Authorizer{Authorizer: s.access.authorizer}
}
