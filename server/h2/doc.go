// Package h2 serves HTTP/2 on the TLS connections of an http.Server, in the place of the library's own server.
//
// Configure plugs it in; net/http keeps accepting, TLS, ALPN and HTTP/1.1. Frames are read, and header blocks
// encoded, by golang.org/x/net/http2 and its hpack. What is built here is the connection: who reads, who writes, and
// what waits for what.
//
//   - One goroutine a connection reads frames. It never waits for a handler or for the client to read.
//   - One goroutine a stream runs the handler.
//   - Handlers append their frames to the connection's output, under its mutex and within the windows of flow control.
//     Whoever finds nobody sending sends for all, so that the events of many watches leave in one TLS write.
//   - Below TLS, a connection of Listener gathers records and hands them to the socket in one system call, which does
//     not wait. What the socket does not take is sent by a goroutine of its own, so that a handler waits only for room
//     in the output, and can be released from that by its deadline.
//
// What a client can make the server hold is bounded: its streams, handlers that outlive their streams, bodies that
// are not read, answers that are not taken, header blocks, and frames that must be answered. RATIONALE.md says why
// the library's server is not used.
package h2
