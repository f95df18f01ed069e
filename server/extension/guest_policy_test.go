package extension_test

import (
	"encoding/json"
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
