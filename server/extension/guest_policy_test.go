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
	metaOf := func(call *host.Call) *document.Document {
		t.Helper()
		meta, err := call.Late(ctx, abi.SlotMeta)
		if err != nil {
			t.Fatal(err)
		}
		return meta
	}
	ask := func(request document.Value) abi.Meta {
		t.Helper()
		if _, err := judge.Judge(ctx, &policies.Review{Object: obj.Root(), Request: request}); err != nil {
			t.Fatal(err)
		}
		var got abi.Meta
		if err := json.Unmarshal(metaOf(g.calls[len(g.calls)-1]).Bytes(), &got); err != nil {
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
	if metaOf(g.calls[0]) != metaOf(g.calls[1]) {
		t.Error("the request was encoded twice")
	}
	// Without it, the client's is all that is known.
	if got := ask(document.Value{}); got.Resource != "policyimpacts" || got.Name != "question" {
		t.Errorf("got %+v", got)
	}
}

// lateInputs give a request and a namespace, or an error.
type lateInputs struct {
	request, namespace document.Value
	err                error
}

func (l lateInputs) Request() document.Value { return l.request }
func (l lateInputs) NamespaceObject(context.Context) (document.Value, error) {
	return l.namespace, l.err
}

// A module gets what there is of the namespace and the options, or what it asks for.
func TestGuestJudgeLate(t *testing.T) {
	g := &fakeGuest{ops: allOps(), result: &host.Result{}}
	judge := extension.NewGuestJudge(g)
	obj, namespace := parse(t, `{"apiVersion":"g/v1","kind":"Thing"}`), parse(t, `{"kind":"Namespace"}`)
	asked := parse(t, `{"options":{"dryRun":["All"]}}`).Root()
	gone := errors.New("gone")
	tests := []struct {
		name                   string
		review                 policies.Review
		given                  bool // with the call
		wantNamespace, options string
		err                    error
	}{
		{name: "none"},
		{name: "there", review: policies.Review{NamespaceObject: namespace.Root(), Request: asked}, given: true, wantNamespace: `{"kind":"Namespace"}`, options: `{"dryRun":["All"]}`},
		{name: "asked for", review: policies.Review{Late: lateInputs{asked, namespace.Root(), nil}}, wantNamespace: `{"kind":"Namespace"}`, options: `{"dryRun":["All"]}`},
		{name: "the request is there", review: policies.Review{Request: asked, Late: lateInputs{}}, options: `{"dryRun":["All"]}`},
		{name: "gone", review: policies.Review{Late: lateInputs{err: gone}}, err: gone},
	}
	text := func(d *document.Document) string {
		if d == nil {
			return ""
		}
		return string(d.Bytes())
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.review.Object = obj.Root()
			if _, err := judge.Judge(t.Context(), &tc.review); err != nil {
				t.Fatal(err)
			}
			call := g.calls[len(g.calls)-1]
			got := call.Namespace
			if (got != nil) != tc.given {
				t.Errorf("given %v", got)
			}
			var err error
			if got == nil {
				got, err = call.Late(t.Context(), abi.SlotNamespace)
			}
			if text(got) != tc.wantNamespace || !errors.Is(err, tc.err) {
				t.Errorf("namespace %s, %v", text(got), err)
			}
			if got, err = call.Late(t.Context(), abi.SlotOptions); text(got) != tc.options || err != nil {
				t.Errorf("options %s, %v", text(got), err)
			}
			if got, err = call.Late(t.Context(), abi.SlotParams); got != nil || err != nil {
				t.Errorf("params %s, %v", text(got), err)
			}
		})
	}
}
