// Package filters is the chain of http.Handlers that every request passes before the
// endpoints, one file a filter. Chain builds it in upstream's order.
package filters
