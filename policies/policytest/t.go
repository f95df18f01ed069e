package policytest

import "context"

// T is what is needed of a *testing.T, which is S: the command checks cases too, and does not link package testing.
type T[S any] interface {
	Helper()
	Run(name string, f func(S)) bool
	Error(args ...any)
	Context() context.Context
}
