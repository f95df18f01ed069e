// Package weir is the Go SDK for guests of a Weir server: strategies and
// admission policies that run as WebAssembly modules.
//
// A module is a Go command whose init registers a strategy for a type:
//
//	package main
//
//	import weir "weir.dev/weir/sdk/go"
//
//	type Quote struct {
//		Spec struct {
//			Author string `json:"author,omitempty"`
//			Text   string `json:"text,omitempty"`
//		} `json:"spec,omitempty"`
//	}
//
//	type Strategy struct{}
//
//	func (Strategy) Default(_ *weir.Context, q *Quote) {
//		if q.Spec.Author == "" {
//			q.Spec.Author = "unknown"
//		}
//	}
//
//	func (Strategy) ValidateCreate(_ *weir.Context, q *Quote) weir.ErrorList {
//		if q.Spec.Text == "" {
//			return weir.ErrorList{weir.Required("spec.text", "a quote says something")}
//		}
//		return nil
//	}
//
//	func init() {
//		weir.Register(weir.Info{Name: "quotes", Version: "1.0.0"}, weir.For[Quote](Strategy{}))
//	}
//
//	func main() {}
//
// It is built with `weir module build`, or by hand with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags "-s -w" -o quotes.wasm .
//
// # Hooks
//
// The hooks are methods that [For] finds by their interfaces: [Defaulter],
// [CreatePreparer], [CreateValidator], [UpdatePreparer], [UpdateValidator],
// [DeleteValidator], [Canonicalizer], [StatusPreparer], [StatusValidator],
// [CreateWarner], [UpdateWarner], [MutatingAdmitter], [ValidatingAdmitter],
// [Configurer], [Converter] and [Connecter]. What is not implemented is not
// called. Assert what should be, as in
//
//	var _ weir.Defaulter[Quote] = Strategy{}
//
// since a method of another signature is no hook; outside of WebAssembly, in
// tests that is, [For] panics when it meets one.
//
// # Objects
//
// A hook gets the object decoded into its type. The type needs only the fields
// that the hook works with: what a hook that may change the object has changed
// is returned as a patch, so that fields it does not know survive. Names are
// matched as they are spelled, and null is the same as absent.
//
// A hook whose parameter is [Object] instead of the type is given the object
// undecoded, to ask for single fields and to set them. That is faster where a
// hook needs little of a large object, and both kinds may be mixed in one
// strategy.
//
// # Settings
//
// A strategy that is a [Configurer] has settings, which Configure decodes into a
// struct:
//
//	type Strategy struct {
//		Banned []string `json:"banned,omitempty"`
//	}
//
//	func (s *Strategy) Configure(ctx *weir.Context) weir.ErrorList {
//		return ctx.Settings(s)
//	}
//
// Settings that the struct has no field for are refused, with those that there
// are; so are any of a strategy that does not read them.
//
// # Look-ups
//
// A hook can look other objects of the server up, with [Get] and [List], and ask
// what a user may do, with [Authorize]. A module names the capabilities for that
// in its [Info], and the operator grants them:
//
//	limits, err := weir.Get[struct {
//		Data map[string]string `json:"data,omitempty"`
//	}](ctx, weir.Ref{Resource: "configmaps", Namespace: q.Namespace, Name: "limits"})
//
// # Failures
//
// A hook that panics fails; the server does then as it does for a module that
// is broken, and puts the module's memory back. Nothing that a hook leaves in
// memory is seen by the next call, apart from what Configure leaves.
//
// # Tests
//
// Hooks are plain methods and run under go test. Package weirtest runs them
// as the server does, with objects in JSON.
package weir
