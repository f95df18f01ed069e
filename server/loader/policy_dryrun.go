package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/rest"
)

const (
	// dryRunTime bounds the count of a dry run, and dryRunWait the wait for its turn: whoever runs kubectl waits for both.
	dryRunTime = 2 * time.Second
	dryRunWait = time.Second
	// dryRunNames are the findings that are named of a resource, dryRunResources the resources.
	dryRunNames     = 5
	dryRunResources = 8
	// dryRunText bounds a message, in bytes.
	dryRunText = 160
)

// PolicyDryRun stands before the storage of policies or bindings: a dry run of a write tells in warnings what
// would become of the objects that are stored.
type PolicyDryRun struct {
	*Barrier
	// tell is called with what would be stored.
	tell func(ctx context.Context, obj *document.Document)
}

var _ Storage = (*PolicyDryRun)(nil)

// NewPolicyDryRun returns a PolicyDryRun before a Barrier.
func NewPolicyDryRun(barrier *Barrier, tell func(ctx context.Context, obj *document.Document)) *PolicyDryRun {
	return &PolicyDryRun{Barrier: barrier, tell: tell}
}

// Create implements rest.Creater.
func (d *PolicyDryRun) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	created, err := d.Barrier.Create(ctx, obj, validate, opts)
	if err == nil && opts != nil && isDryRun(opts.DryRun) {
		d.tell(ctx, created)
	}
	return created, err
}

// Update implements rest.Updater.
func (d *PolicyDryRun) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, opts *metav1.UpdateOptions) (*document.Document, bool, error) {
	obj, created, err := d.Barrier.Update(ctx, name, info, validateCreate, validateUpdate, forceAllowCreate, opts)
	if err == nil && opts != nil && isDryRun(opts.DryRun) {
		d.tell(ctx, obj)
	}
	return obj, created, err
}

// Tell warns of what a policy or binding would do to the objects that are stored.
func (x *Impact) Tell(ctx context.Context, obj *document.Document) {
	var found []*v1alpha1.PolicyImpactFinding
	named := map[string]int{}
	status, err := x.answer(ctx, &v1alpha1.PolicyImpactSpec{
		Objects: []runtime.RawExtension{{Raw: obj.Bytes()}}, TimeoutSeconds: int32(dryRunTime / time.Second),
	}, asking{wait: dryRunWait, written: true}, func(f *v1alpha1.PolicyImpactFinding) error {
		if named[f.Resource] < dryRunNames {
			named[f.Resource]++
			found = append(found, f)
		}
		return nil
	})
	if err != nil {
		warning.AddWarning(ctx, "", "impact not counted: "+oneLine(err.Error()))
		return
	}
	for _, text := range impactWarnings(status, found) {
		warning.AddWarning(ctx, "", text)
	}
}

// impactWarnings spells an answer for people.
func impactWarnings(status *v1alpha1.PolicyImpactStatus, found []*v1alpha1.PolicyImpactFinding) []string {
	var out []string
	for i, r := range byEffect(status.Resources) {
		if i == dryRunResources {
			out = append(out, fmt.Sprintf("impact: and %d more resources", len(status.Resources)-i))
			break
		}
		if r.NotCounted != "" {
			out = append(out, "impact: not counted: "+r.NotCounted)
			continue
		}
		text := fmt.Sprintf("impact: would %s of %s %s", deeds(r), thousands(r.Objects), r.Resource)
		if !status.Complete && r == &status.Resources[len(status.Resources)-1] {
			text += " that were looked at, not all: " + status.Reason
		}
		names := 0
		for _, f := range found {
			if f.Resource != r.Resource {
				continue
			}
			separator := "; "
			if names == 0 {
				separator = ": "
			}
			names++
			name := f.Name
			if f.Namespace != "" {
				name = f.Namespace + "/" + f.Name
			}
			text += separator + name + ": " + cut(oneLine(f.Message), dryRunText)
		}
		if more := r.Denied + r.Changed + r.Failed + r.Warned + r.Shadowed - int64(names); names > 0 && more > 0 {
			text += "; …"
		}
		out = append(out, text)
	}
	for _, note := range status.Notes {
		out = append(out, "impact: "+note)
	}
	if slices.ContainsFunc(status.Notes, func(note string) bool { return strings.HasSuffix(note, nothingCounted) }) {
		out = append(out, "impact: a dry run of a file asks of each object by itself: apply what the others need first, or count all of the file by `weir policy impact -f FILE`")
	}
	return out
}

// byEffect has the resources first of which the most would be refused, then those that anything would become of, then
// those that were not counted.
func byEffect(resources []v1alpha1.PolicyImpactResource) []*v1alpha1.PolicyImpactResource {
	out := make([]*v1alpha1.PolicyImpactResource, len(resources))
	for i := range resources {
		out[i] = &resources[i]
	}
	slices.SortStableFunc(out, func(a, b *v1alpha1.PolicyImpactResource) int {
		rank := func(r *v1alpha1.PolicyImpactResource) int64 {
			if r.NotCounted != "" {
				return 1
			}
			return 2 * (r.Changed + r.Warned + r.Shadowed)
		}
		return cmp.Or(cmp.Compare(b.Denied+b.Failed, a.Denied+a.Failed), cmp.Compare(rank(b), rank(a)))
	})
	return out
}

// deeds says what would become of the objects of a resource.
func deeds(r *v1alpha1.PolicyImpactResource) string {
	var parts []string
	for _, d := range []struct {
		what string
		n    int64
	}{{"deny", r.Denied}, {"change", r.Changed}, {"fail to judge", r.Failed}, {"warn of", r.Warned}, {"count in shadow", r.Shadowed}} {
		if d.n > 0 {
			parts = append(parts, d.what+" "+thousands(d.n))
		}
	}
	if len(parts) == 0 {
		return "deny none"
	}
	return strings.Join(parts, ", ")
}

// thousands spells a number as 1,234,567.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// oneLine makes a text fit into a header.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
