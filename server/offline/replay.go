package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/recording"
)

// Ruling is what a policy, by all its bindings and params, says of a request, as far as a client can tell. Whether a binding
// enforces it is another matter: what a shadow would have denied is denied.
type Ruling string

// The rulings, the gravest first.
const (
	// RulingFailed: it could not be evaluated, and the failure policy refuses.
	RulingFailed Ruling = "failed"
	RulingDenied Ruling = "denied"
	// RulingIgnored: it could not be evaluated, and the failure policy admits.
	RulingIgnored Ruling = "failed, ignored"
	RulingChanged Ruling = "changed"
	// RulingAllowed is that of a policy that does not concern a request, too.
	RulingAllowed Ruling = "allowed"
)

// order of rulings: of several, the first counts.
var order = []Ruling{RulingFailed, RulingDenied, RulingIgnored, RulingChanged, RulingAllowed} // never written to

func rulingOf(outcome string) Ruling {
	switch outcome {
	case policy.OutcomeError:
		return RulingFailed
	case policy.OutcomeDeny, policy.OutcomeShadowDeny:
		return RulingDenied
	case policy.OutcomeIgnored:
		return RulingIgnored
	case policy.OutcomeMutate, policy.OutcomeShadowMutate:
		return RulingChanged
	}
	return RulingAllowed
}

// said is what one policy says of a request.
type said struct {
	Ruling   Ruling   `json:"verdict"`
	Messages []string `json:"messages,omitempty"`
}

func (s *said) add(outcome, message string) {
	r := rulingOf(outcome)
	if slices.Index(order, r) < slices.Index(order, s.Ruling) {
		s.Ruling = r
	}
	if message != "" && (r == RulingFailed || r == RulingDenied || r == RulingIgnored) && !slices.Contains(s.Messages, message) {
		s.Messages = append(s.Messages, message)
		slices.Sort(s.Messages)
	}
}

// Difference is a request of which two versions of a policy do not say the same.
type Difference struct {
	// UID of the request, and where it stands in its input.
	UID  string `json:"uid"`
	Line int    `json:"line"`
	// Operation, Resource (deployments.apps/scale), Namespace, Name and User of the request.
	Operation string `json:"operation"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	User      string `json:"user,omitempty"`
	// Policy is its kind and name, or "" where the input only says what became of the request as a whole.
	Policy string `json:"policy,omitempty"`
	Old    said   `json:"old"`
	New    said   `json:"new"`
	// Object shows how what the old version made of the object ("-") differs from what the new one makes of it ("+").
	Object string `json:"object,omitempty"`
}

// Change is the difference in a few words: allowed → denied.
func (d *Difference) Change() string {
	switch {
	case d.Old.Ruling != d.New.Ruling:
		return string(d.Old.Ruling) + " → " + string(d.New.Ruling)
	case d.New.Ruling == RulingChanged, d.Object != "":
		return string(d.New.Ruling) + ", to another object"
	}
	return string(d.New.Ruling) + ", in other words"
}

// Summary counts what came of a replay.
type Summary struct {
	// Judged requests, and those of them that differ.
	Judged int `json:"judged"`
	Differ int `json:"differ"`
	// Changes counts verdicts by what Difference.Change says.
	Changes map[string]int `json:"changes"`
	// Redacted requests have content that was never recorded; they are not judged.
	Redacted int `json:"redacted"`
	// Unknown are requests that could not be judged, by the reason.
	Unknown map[string]int `json:"unknown,omitempty"`
	// WithoutOldObject were judged without what was stored before, which an audit log does not have.
	WithoutOldObject int `json:"withoutOldObject,omitempty"`
	// Others are lines that are no request to judge, such as reads in an audit log.
	Others int `json:"others,omitempty"`
	// Broken lines do not parse, such as one that was cut off when a server ended.
	Broken int `json:"broken,omitempty"`
}

// maxUnknown bounds the reasons that are kept apart.
const maxUnknown = 32

// Replay judges recorded requests again.
type Replay struct {
	// New is the version to try, Against the one to compare it with; nil: what was recorded.
	New, Against *Set
	// Differs is told of each difference.
	Differs func(*Difference) error
	Summary Summary

	compared map[string]bool // by kind/name
	mutates  bool
}

// Begin prepares a replay.
func (r *Replay) Begin() {
	r.compared, r.Summary = map[string]bool{}, Summary{Changes: map[string]int{}, Unknown: map[string]int{}}
	for _, s := range []*Set{r.New, r.Against} {
		if s == nil {
			continue
		}
		for _, p := range s.policies {
			r.compared[p.Kind+"/"+p.Name] = true
			if _, ok := p.Judge.(policy.Mutator); ok {
				r.mutates = true
			}
		}
	}
}

// Judge judges one record. line is where it stands. The error ends a replay.
func (r *Replay) Judge(ctx context.Context, record *recording.Record, line int) error {
	details := record.Weir
	if details == nil {
		details = &recording.Details{}
	}
	if details.Redacted {
		r.Summary.Redacted++
		return nil
	}
	if details.Phase == recording.Mutate && !r.mutates {
		return nil // the same request stands in the phase Validate, or was refused by a policy that is not asked
	}
	request, err := requestOf(record, details)
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	out, err := r.New.Judge(ctx, request)
	var before *Outcome
	if err == nil && r.Against != nil {
		before, err = r.Against.Judge(ctx, request)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		if reason := err.Error(); r.Summary.Unknown[reason] > 0 || len(r.Summary.Unknown) < maxUnknown {
			r.Summary.Unknown[reason]++
		} else {
			r.Summary.Unknown["other reasons"]++
		}
		return nil
	}
	r.Summary.Judged++
	if details.WithoutOldObject {
		r.Summary.WithoutOldObject++
	}
	return r.compare(record, details, line, before, out)
}

// compare tells of each policy that says something else than before.
func (r *Replay) compare(record *recording.Record, details *recording.Details, line int, before, out *Outcome) error {
	var differences []*Difference
	note := func(name string, old, new said) {
		if old.Ruling != new.Ruling || !slices.Equal(old.Messages, new.Messages) {
			differences = append(differences, &Difference{Policy: name, Old: old, New: new})
		}
	}
	olds, news := map[string]*said{}, byPolicy(out.Verdicts)
	switch {
	case before != nil:
		olds = byPolicy(before.Verdicts)
	case record.Weir != nil && !details.WithoutVerdicts:
		for _, v := range details.Verdicts {
			add(olds, v.Kind+"/"+v.Policy, v.Outcome, v.Message)
		}
	default: // only what became of the request as a whole is known
		old, new := whole(record), said{Ruling: RulingAllowed}
		if out.Status != nil {
			new.Ruling = RulingDenied
			new.Messages = []string{out.Status.Message}
		}
		if old.Ruling == new.Ruling {
			old.Messages = new.Messages // of whom the old ones are is not known
		}
		note("", old, new)
		return r.tell(record, line, differences)
	}
	for _, name := range slices.Sorted(maps.Keys(r.compared)) {
		old, new := said{Ruling: RulingAllowed}, said{Ruling: RulingAllowed}
		if s := olds[name]; s != nil {
			old = *s
		}
		if s := news[name]; s != nil {
			new = *s
		}
		note(name, old, new)
	}
	if diff := r.objects(record, details, before, out, olds); diff != "" {
		if len(differences) == 0 {
			differences = append(differences, &Difference{Policy: strings.Join(changers(news), ", "), Old: said{Ruling: RulingChanged}, New: said{Ruling: RulingChanged}})
		}
		differences[0].Object = diff
	}
	return r.tell(record, line, differences)
}

// objects compares what the policies made of an object.
func (r *Replay) objects(record *recording.Record, details *recording.Details, before, out *Outcome, olds map[string]*said) string {
	if out.Object == nil || out.Status != nil {
		return ""
	}
	var old *document.Document
	switch {
	case before != nil:
		if before.Status != nil {
			return ""
		}
		old = before.Object
	case details.Phase == recording.Validate && details.Mutated, record.Response == nil || !record.Response.Allowed:
		return ""
	default:
		for name, s := range olds {
			if s.Ruling == RulingChanged && !r.compared[name] {
				return "" // of what that policy made nothing is known apart
			}
		}
		text := details.Patched
		if text == nil {
			text = record.Request.Object
		}
		var err error
		if old, err = document.Parse(text); err != nil {
			return ""
		}
	}
	if old == nil || old.Equal(out.Object) {
		return ""
	}
	return policytest.Diff(policytest.YAML(old), policytest.YAML(out.Object))
}

// tell reports the differences of one request, and counts them.
func (r *Replay) tell(record *recording.Record, line int, differences []*Difference) error {
	if len(differences) == 0 {
		return nil
	}
	r.Summary.Differ++
	q := record.Request
	resource := q.Resource.Resource
	if q.Resource.Group != "" {
		resource += "." + q.Resource.Group
	}
	if sub := cmp.Or(q.SubResource, q.RequestSubResource); sub != "" {
		resource += "/" + sub
	}
	for _, d := range differences {
		d.UID, d.Line, d.Operation, d.Resource, d.Namespace, d.Name, d.User = q.UID, line, q.Operation, resource, q.Namespace, q.Name, q.UserInfo.Username
		r.Summary.Changes[d.Change()]++
		if err := r.Differs(d); err != nil {
			return err
		}
	}
	return nil
}

// whole is what became of a request.
func whole(record *recording.Record) said {
	s := said{Ruling: RulingAllowed}
	if a := record.Response; a != nil && !a.Allowed {
		s.Ruling = RulingDenied
		if a.Status != nil && a.Status.Message != "" {
			s.Messages = []string{a.Status.Message}
		}
	}
	return s
}

func byPolicy(verdicts []Verdict) map[string]*said {
	all := map[string]*said{}
	for i := range verdicts {
		v := &verdicts[i]
		add(all, v.Kind+"/"+v.Policy, v.Outcome, v.Message)
	}
	return all
}

func add(all map[string]*said, name, outcome, message string) {
	if all[name] == nil {
		all[name] = &said{Ruling: RulingAllowed}
	}
	all[name].add(outcome, message)
}

// changers are the policies that changed an object.
func changers(news map[string]*said) []string {
	var names []string
	for name, s := range news {
		if s.Ruling == RulingChanged {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// requestOf makes of a record what is judged.
func requestOf(record *recording.Record, details *recording.Details) (*Request, error) {
	text, err := json.Marshal(record.Request)
	if err != nil {
		return nil, err
	}
	review, err := document.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	r := &Request{Review: review.Root(), Default: true, Time: details.Time,
		OnlyMutate: details.Phase == recording.Mutate, OnlyValidate: details.Phase == recording.Validate && details.Mutated}
	if len(details.Namespace) > 0 {
		if r.Namespace, err = document.Parse(details.Namespace); err != nil {
			return nil, fmt.Errorf("namespace: %w", err)
		}
	}
	var errs []error
	for _, p := range details.Params {
		obj, err := document.Parse(p.Object)
		errs = append(errs, err)
		r.Bound = append(r.Bound, BoundParam{Kind: p.Kind, Policy: p.Policy, Object: obj})
	}
	return r, errors.Join(errs...)
}
