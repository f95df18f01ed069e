package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/request"
)

// The request that a policy is told of is the one that it judges, whatever the client's is: a survey judges what is stored.
func TestGuestJudgeMeta(t *testing.T) {
	g := &fakeGuest{ops: allOps(), result: &host.Result{}}
	judge := extension.NewGuestJudge(g)
	ctx := extension.WithBudget(t.Context(), nil)
	ctx = apirequest.WithReceivedTimestamp(ctx, time.Unix(1700000000, 0))
	ctx = request.WithInfo(ctx, &request.Info{IsResourceRequest: true, Verb: "create", Resource: "policyimpacts", Name: "question"})
	obj := parse(t, `{"apiVersion":"g/v1","kind":"Thing","metadata":{"namespace":"ns","generateName":"n-"}}`)
	ask := func(request document.Value) abi.Meta {
		t.Helper()
		if _, err := judge.Judge(ctx, &policies.Review{Object: obj.Root(), Request: request}); err != nil {
			t.Fatal(err)
		}
		var got abi.Meta
		if err := json.Unmarshal(g.calls[len(g.calls)-1].Meta.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		got.Seed = ""
		return got
	}
	want := abi.Meta{Operation: "CREATE", Time: "2023-11-14T22:13:20Z", Group: "g", Version: "v1", Kind: "Thing",
		Resource: "things", Subresource: "scale", Namespace: "ns", Name: "one", DryRun: true}
	judged := parse(t, `{"requestResource":{"group":"g","version":"v1","resource":"things"},"requestSubResource":"scale","name":"one","namespace":"ns","dryRun":true}`)
	for range 2 {
		if diff := cmp.Diff(want, ask(judged.Root())); diff != "" {
			t.Error(diff)
		}
	}
	if g.calls[0].Meta != g.calls[1].Meta {
		t.Error("the request was encoded twice")
	}
	// Without it, the client's is all that is known.
	if got := ask(document.Value{}); got.Resource != "policyimpacts" || got.Name != "question" {
		t.Errorf("got %+v", got)
	}
}

// A module gets the namespace that is there, or reads it itself.
func TestGuestJudgeNamespace(t *testing.T) {
	g := &fakeGuest{ops: allOps(), result: &host.Result{}}
	judge := extension.NewGuestJudge(g)
	obj, namespace := parse(t, `{"apiVersion":"g/v1","kind":"Thing"}`), parse(t, `{"kind":"Namespace"}`)
	gone := errors.New("gone")
	tests := []struct {
		name   string
		review policies.Review
		given  bool
		want   *document.Document
		err    error
	}{
		{"none", policies.Review{}, false, nil, nil},
		{"there", policies.Review{NamespaceObject: namespace.Root()}, true, namespace, nil},
		{"read", policies.Review{ReadNamespace: func(context.Context) (document.Value, error) { return namespace.Root(), nil }}, false, namespace, nil},
		{"gone", policies.Review{ReadNamespace: func(context.Context) (document.Value, error) { return document.Value{}, gone }}, false, nil, gone},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.review.Object = obj.Root()
			if _, err := judge.Judge(t.Context(), &tc.review); err != nil {
				t.Fatal(err)
			}
			call := g.calls[len(g.calls)-1]
			got, err := call.Namespace, error(nil)
			if (got != nil) != tc.given {
				t.Errorf("given %v", got)
			}
			if call.ReadNamespace != nil {
				got, err = call.ReadNamespace(t.Context())
			}
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
