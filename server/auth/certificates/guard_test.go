package certificates

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
)

// verbs is an authorizer that allows some verbs.
type verbs map[string]bool

func (v verbs) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if v[a.GetVerb()] {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// What an update of approval or status may change, of whom it is asked, and what is stored: a decision says True and stays as it was,
// a certificate is given once, and who changes what a request has come to must sign for its signer.
func TestGuardOfDecisions(t *testing.T) {
	const (
		times     = `"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z",`
		approved  = `{` + times + `"reason":"AutoApproved","status":"True","type":"Approved"}`
		failed    = `{` + times + `"status":"True","type":"Failed"}`
		own       = `{` + times + `"status":"Unknown","type":"example.com/Own"}`
		forbidden = "Forbidden"
		invalid   = "Invalid"
	)
	tests := []struct {
		name, subresource, old, new string
		allowed                     verbs
		want                        string // the conditions, or forbidden or invalid
	}{
		{"approved", "approval", `{}`, `{"conditions":[{"status":"True","type":"Approved"}]}`, verbs{"approve": true},
			`[{"lastTransitionTime":"2026-05-05T05:05:05Z","lastUpdateTime":"2026-05-05T05:05:05Z","status":"True","type":"Approved"}]`},
		{"approved by none", "approval", `{}`, `{"conditions":[` + approved + `]}`, verbs{"sign": true}, forbidden},
		{"neither approved nor not", "approval", `{}`, `{"conditions":[{"status":"False","type":"Approved"}]}`, verbs{"approve": true}, invalid},
		{"without a status", "approval", `{}`, `{"conditions":[{"type":"Denied"}]}`, verbs{"approve": true}, invalid},
		{"of no type", "approval", `{}`, `{"conditions":[{"status":"True","type":""}]}`, verbs{"approve": true}, invalid},
		{"approved again", "approval", `{"conditions":[` + approved + `]}`, `{"conditions":[{"lastTransitionTime":null,"lastUpdateTime":null,"status":"True","type":"Approved"}]}`, verbs{"approve": true},
			`[{"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-05-05T05:05:05Z","status":"True","type":"Approved"}]`},
		{"stored before with another status", "approval", `{"conditions":[{"type":"Denied"}]}`, `{"conditions":[{` + times + `"type":"Denied"}]}`, verbs{"approve": true}, `[{` + times + `"type":"Denied"}]`},
		{"failed, by who may not sign", "status", `{}`, `{"conditions":[` + failed + `]}`, verbs{"approve": true}, forbidden},
		{"failed", "status", `{}`, `{"conditions":[` + failed + `]}`, verbs{"sign": true}, `[` + failed + `]`},
		{"failed no more", "status", `{"conditions":[` + failed + `]}`, `{"conditions":[]}`, verbs{"sign": true}, invalid},
		{"not failed", "status", `{}`, `{"conditions":[{"status":"False","type":"Failed"}]}`, verbs{"sign": true}, invalid},
		{"a condition of its own", "status", `{"conditions":[` + approved + `]}`, `{"conditions":[` + approved + `,` + own + `]}`, verbs{"sign": true}, `[` + approved + `,` + own + `]`},
		{"a condition of its own, by who may not sign", "status", `{}`, `{"conditions":[` + own + `]}`, nil, forbidden},
		{"another approval", "status", `{"conditions":[` + approved + `]}`, `{"conditions":[{"message":"by me","status":"True","type":"Approved"}]}`, nil, `[` + approved + `]`},
		{"nothing", "status", `{"conditions":[` + approved + `]}`, `{"conditions":[` + approved + `]}`, nil, `[` + approved + `]`},
		{"nothing, spelt otherwise", "status", `{}`, `{"conditions":[]}`, nil, `[]`},
		{"signed", "status", `{}`, `{"certificate":"b25l"}`, verbs{"sign": true}, ``},
		{"signed again", "status", `{"certificate":"b25l"}`, `{"certificate":"dHdv"}`, verbs{"sign": true}, invalid},
		{"the certificate taken back", "status", `{"certificate":"b25l"}`, `{}`, verbs{"sign": true}, invalid},
	}
	parse := func(status string) *document.Document {
		obj, err := document.Parse(fmt.Appendf(nil, `{"metadata":{"name":"a"},"spec":{"signerName":"example.com/s"},"status":%s}`, status))
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := NewGuard(tc.subresource, tc.allowed)
			g.now = func() time.Time { return time.Date(2026, 5, 5, 5, 5, 5, 5, time.UTC) }
			old := parse(tc.old)
			obj, err := g.PrepareForUpdate(ctx, parse(tc.new), old)
			if err != nil {
				t.Fatal(err)
			}
			errs, err := g.ValidateUpdate(ctx, obj, old)
			var status apierrors.APIStatus
			got := string(obj.Get("status", "conditions").Raw())
			switch {
			case len(errs) > 0:
				got = invalid
			case errors.As(err, &status):
				got = string(status.Status().Reason)
			case err != nil:
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s\n%v %v", got, tc.want, errs, err)
			}
		})
	}
}
