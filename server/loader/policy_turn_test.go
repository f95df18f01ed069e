package loader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
)

// Whoever blocks lets another have the turn, and has it again afterwards.
func TestTurnIsGivenUpWhileBlocked(t *testing.T) {
	synctest.Test(t, testTurnIsGivenUpWhileBlocked) // on a busy machine what does not block may take as long as what does
}

func testTurnIsGivenUpWhileBlocked(t *testing.T) {
	turn := make(chan struct{}, 1)
	one, other := impactTurn{of: turn}, impactTurn{of: turn}
	if err := one.take(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	for _, want := range []error{nil, gone} {
		err := one.whileBlocked(t.Context(), func() error {
			if err := other.take(t.Context(), 0); err != nil { // blocks until it is given up
				t.Error(err)
			}
			other.give()
			return want
		})
		if !errors.Is(err, want) || one.held != (want == nil) {
			t.Errorf("got %v, held %v", err, one.held)
		}
	}
	one.give()
	if err := one.take(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := one.whileBlocked(t.Context(), func() error { return other.take(canceled(t), 0) }); !errors.Is(err, errNoTurn) || !one.held {
		t.Errorf("what does not block has given it up: %v", err)
	}
	if err := other.take(t.Context(), time.Millisecond); !errors.Is(err, errNoTurn) {
		t.Errorf("got %v", err)
	}
	one.give()
	one.give() // once more changes nothing
	if len(turn) != 0 {
		t.Error("the turn is lost")
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// warned collects warnings.
type warned struct{ texts []string }

// AddWarning implements warning.Recorder.
func (w *warned) AddWarning(_, text string) { w.texts = append(w.texts, text) }

// A dry run does not wait long for another question, and says that it was not counted.
func TestDryRunDoesNotWaitForItsTurn(t *testing.T) {
	policy := []byte(`{"apiVersion":"weir.dev/v1alpha1","kind":"Policy","metadata":{"name":"p"},"spec":{}}`)
	x := &Impact{open: make(chan struct{}, 2), turn: make(chan struct{}, 1)}
	x.turn <- struct{}{}
	w := &warned{}
	x.Tell(warning.WithWarningRecorder(t.Context(), w), document.FromCanonical(policy))
	if got := strings.Join(w.texts, "\n"); !strings.HasPrefix(got, "impact not counted: another policy impact is being counted") {
		t.Errorf("got %q", got)
	}
	x.open <- struct{}{}
	x.open <- struct{}{}
	_, err := x.Answer(t.Context(), &v1alpha1.PolicyImpactSpec{Objects: []runtime.RawExtension{{Raw: policy}}}, nil)
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "wait to be counted already") {
		t.Errorf("got %v", err)
	}
	<-x.open
	<-x.open
	<-x.turn
}
