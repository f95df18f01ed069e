package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// Verdicts of a Finding.
const (
	// VerdictDenied: the request would be refused.
	VerdictDenied = "Denied"
	// VerdictChanged: the object would be changed.
	VerdictChanged = "Changed"
	// VerdictFailed: the policy could not judge; whether that refuses the request is Finding.Refused.
	VerdictFailed = "Failed"
	// VerdictWarned: a warning or an audit annotation would tell of a validation that failed.
	VerdictWarned = "Warned"
	// VerdictShadowed: a binding in shadow would count a denial or a change.
	VerdictShadowed = "Shadowed"
)

// Finding is what a binding would do to one object.
type Finding struct {
	// Resource is spelled resource.group.
	Resource        string
	Namespace, Name string
	// Policy and Binding are names; the policy is of a Kind. Binding is "" where the policy itself is at fault.
	Kind, Policy, Binding string
	Verdict               string
	// Refused is set where the request would be refused.
	Refused bool
	// Message of the denial, or the paths of what would change.
	Message string
}

// SurveyedResource counts the objects of one resource. An object counts once in each verdict.
type SurveyedResource struct {
	Resource schema.GroupVersionResource
	// Operations that objects were judged as.
	Operations []admission.Operation
	// Objects that were looked at, and those that a policy and a binding concern.
	Objects, Concerned                        int64
	Denied, Changed, Failed, Warned, Shadowed int64
	// NotCounted says why the objects were not looked at; "": they were.
	NotCounted string
}

// findings are those of one object.
type findings struct {
	resource  *SurveyedResource
	object    *document.Document
	concerned bool
	list      []Finding
}

// maxFindingText bounds a message, maxFindings those of one object.
const (
	maxFindingText = 1 << 10
	maxFindings    = 100
)

// note takes an outcome of a judgement.
func (f *findings) note(p *Policy, b *Binding, outcome, message string) {
	f.concerned = true
	verdict, refused := "", false
	switch outcome {
	case outcomeDeny:
		verdict, refused = VerdictWarned, b == nil || b.Deny || mutates(p)
		if refused {
			verdict = VerdictDenied
		}
	case outcomeMutate:
		verdict = VerdictChanged
	case outcomeError:
		verdict, refused = VerdictFailed, b == nil || b.Deny || mutates(p)
	case outcomeIgnored:
		verdict = VerdictFailed
	case outcomeShadowDeny, outcomeShadowMutate:
		verdict = VerdictShadowed
	default:
		return
	}
	name := ""
	if b != nil {
		name = b.Name
	}
	f.add(Finding{Kind: p.Kind, Policy: p.Name, Binding: name, Verdict: verdict, Refused: refused, Message: message})
}

// mutates reports whether a policy refuses whatever the actions of its bindings, which those of mutating policies do not have.
func mutates(p *Policy) bool {
	_, ok := p.Judge.(Mutator)
	return ok || p.Kind == mutatingKind
}

// fail takes an error that kept the object from being judged.
func (f *findings) fail(err error) {
	f.concerned = true
	f.add(Finding{Verdict: VerdictFailed, Refused: true, Message: err.Error()})
}

func (f *findings) add(x Finding) {
	if len(f.list) == maxFindings {
		return
	}
	meta := rest.MetaOf(f.object)
	x.Resource = f.resource.Resource.GroupResource().String()
	// Copies: the texts of a document would keep all of it.
	x.Namespace, x.Name = strings.Clone(meta.Namespace()), strings.Clone(meta.Name())
	if x.Message = strings.Clone(x.Message); len(x.Message) > maxFindingText {
		x.Message = strings.ToValidUTF8(x.Message[:maxFindingText], "") + "…"
	}
	f.list = append(f.list, x)
}

// count adds the object to the counts of its resource.
func (f *findings) count() {
	f.resource.Objects++
	if f.concerned {
		f.resource.Concerned++
	}
	for verdict, n := range map[string]*int64{VerdictDenied: &f.resource.Denied, VerdictChanged: &f.resource.Changed, VerdictFailed: &f.resource.Failed,
		VerdictWarned: &f.resource.Warned, VerdictShadowed: &f.resource.Shadowed} {
		if slices.ContainsFunc(f.list, func(x Finding) bool { return x.Verdict == verdict }) {
			*n++
		}
	}
}
