package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// timeWasOver is the reason of a survey that its context ended.
const timeWasOver = "the time was over"

// surveyPage is how many objects are read at a time: what a Survey holds in memory.
const surveyPage = 200

// SurveyConfig says what a Survey asks, and of what.
type SurveyConfig struct {
	// Catalog has the resources whose objects are looked at.
	Catalog rest.Catalog
	// Policies with the bindings that would be in force. Their bindings have no Tally.
	Policies []*Policy
	// Params stand before those that are stored.
	Params []*document.Document
	// Namespaces reads namespaces.
	Namespaces rest.Getter
	// Authorizer is that of Config.
	Authorizer func(a *admission.Attributes) any
	// User is in whose name the objects would be written.
	User user.Info
	// Readable reports whether the objects of a resource may be looked at, those of one namespace or, with "", of all.
	Readable func(ctx context.Context, resource schema.GroupVersionResource, namespace string) bool
	// NamespaceReadable reports whether a namespace may be read, or, with "", all of them; nil: they may. Without it, what
	// is judged by a policy that reads them is not counted.
	NamespaceReadable func(ctx context.Context, name string) bool
	// Namespace narrows the survey to the objects of one; "": all objects.
	Namespace string
	// Operation that each object is judged as. "": what each policy concerns: an UPDATE that changes nothing, else a CREATE,
	// else a DELETE.
	Operation admission.Operation
	// MaxObjects ends the survey after so many; 0: it ends with ctx alone.
	MaxObjects int64
	// After is where an earlier survey stopped.
	After Cursor
}

// Validate reports what is missing.
func (c *SurveyConfig) Validate() error {
	if c.Catalog == nil || c.Namespaces == nil || c.Readable == nil {
		return errors.New("policy survey: SurveyConfig needs Catalog, Namespaces and Readable")
	}
	switch c.Operation {
	case "", admission.Create, admission.Update, admission.Delete:
		return nil
	default:
		return fmt.Errorf("policy survey: operation %q is not CREATE, UPDATE or DELETE", c.Operation)
	}
}

// Cursor is where a survey stopped. The zero value is the beginning.
type Cursor struct {
	// Resource that is being looked at, as resource.group.
	Resource string `json:"resource"`
	// Continue is the token of its page; for the first page "", and then ResourceVersion is what it was of.
	Continue        string `json:"continue,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Skip are the objects of the page that were looked at.
	Skip int `json:"skip,omitempty"`
}

// SurveyReport is what a survey came to.
type SurveyReport struct {
	// Resources that a policy concerns, by group and name.
	Resources []*SurveyedResource
	// Idle are the policies that concern nothing that is stored, by name.
	Idle []string
	// Complete is set when all objects were looked at. Otherwise Next is where to go on, and Reason says why it stopped.
	Complete bool
	Next     Cursor
	Reason   string
	// Renewed is set when the state that was looked at had been compacted away, so that the rest is of a newer one.
	Renewed bool
}

// Survey judges what is stored as if it were written again. It reads page by page from a snapshot, holds one page, and lets
// all else that the process has to do come first, after each object. It writes nothing and counts in no Tally.
//
// tell is called for each Finding, in the order of the objects; its error ends the survey and is returned. ctx that is done
// ends the survey early, without an error.
func Survey(ctx context.Context, cfg SurveyConfig, tell func(*Finding) error) (*SurveyReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &survey{SurveyConfig: cfg, tell: tell, index: NewIndex(cfg.Policies), report: &SurveyReport{}, namespaces: &lastNamespace{from: cfg.Namespaces}}
	if received, ok := apirequest.ReceivedTimestampFrom(ctx); ok {
		s.time = received
	}
	return s.report, s.run(withoutWarnings(ctx))
}

// survey is a Survey that is under way.
type survey struct {
	SurveyConfig
	tell       func(*Finding) error
	index      *Index
	report     *SurveyReport
	namespaces *lastNamespace
	seen       int64
	// time is what each object is judged at: that of the request.
	time time.Time

	// last is the evaluation of the object before: one of the same namespace takes its params.
	last *evaluation
}

func (s *survey) run(ctx context.Context) error {
	busy := map[*Policy]bool{}
	resume := s.After.Resource
	for _, r := range s.Catalog.Resources() {
		plans := s.plans(r, busy)
		if len(plans) == 0 {
			continue
		}
		if resume != "" && resume != r.GroupResource().String() {
			continue // an earlier survey has looked at it
		}
		after := Cursor{Resource: r.GroupResource().String()}
		if resume != "" {
			after, resume = s.After, ""
		}
		stopped, err := s.resource(ctx, r, plans, after)
		if err != nil || stopped {
			return err
		}
	}
	if resume != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the survey cannot go on: no policy concerns %s any more", resume))
	}
	s.report.Idle = s.idle(busy)
	s.report.Complete = true
	return nil
}

// idle are the names of the policies no part of which is busy: a module may both validate and mutate.
func (s *survey) idle(busy map[*Policy]bool) []string {
	var names []string
	every := append(slices.Clone(s.index.validating), s.index.mutating...)
	for _, p := range every {
		if !slices.Contains(names, p.Name) && !slices.ContainsFunc(every, func(other *Policy) bool {
			return busy[other] && other.Name == p.Name && other.Kind == p.Kind
		}) {
			names = append(names, p.Name)
		}
	}
	return names
}

// resource looks at the objects of one resource. stopped is set when the survey ended before they did.
func (s *survey) resource(ctx context.Context, r *rest.Resource, plans []*plan, at Cursor) (stopped bool, err error) {
	out := &SurveyedResource{Resource: schema.GroupVersionResource{Group: r.Group, Version: plans[0].version, Resource: r.Name}}
	s.report.Resources = append(s.report.Resources, out)
	for _, p := range plans {
		if !slices.Contains(out.Operations, p.operation) {
			out.Operations = append(out.Operations, p.operation)
		}
	}
	if !s.Readable(ctx, out.Resource, s.Namespace) {
		out.NotCounted = "no permission to list " + r.GroupResource().String()
		if s.Namespace != "" {
			out.NotCounted += " in namespace " + s.Namespace
		}
		return false, nil
	}
	if by := readsNamespaces(r, plans); by != "" && s.NamespaceReadable != nil && !s.NamespaceReadable(ctx, s.Namespace) {
		out.NotCounted = fmt.Sprintf("no permission to get namespaces, which policy %q reads", by)
		return false, nil
	}
	lister, ok := r.Versions[0].Storage.(rest.Lister)
	if !ok {
		return false, nil
	}
	ctx = request.WithNamespace(ctx, s.Namespace)
	renewed := false
	for {
		opts := &internalversion.ListOptions{Limit: surveyPage, Continue: at.Continue}
		if at.Continue == "" && at.ResourceVersion != "" {
			opts.ResourceVersion, opts.ResourceVersionMatch = at.ResourceVersion, metav1.ResourceVersionMatchExact
		}
		page, err := lister.List(ctx, opts)
		if err != nil {
			if ctx.Err() != nil {
				s.stop(at, timeWasOver)
				return true, nil
			}
			if apierrors.IsResourceExpired(err) && !renewed {
				at, renewed, s.report.Renewed = renew(at, err), true, true
				continue
			}
			return false, err
		}
		renewed = false
		at.ResourceVersion = page.ResourceVersion
		for i, obj := range page.Items {
			if i < at.Skip {
				continue
			}
			at.Skip = i
			switch {
			case ctx.Err() != nil:
				s.stop(at, timeWasOver)
				return true, nil
			case s.MaxObjects > 0 && s.seen == s.MaxObjects:
				s.stop(at, fmt.Sprintf("%d objects were looked at", s.seen))
				return true, nil
			}
			s.seen++
			done, err := s.object(ctx, r, plans, obj, out)
			if err != nil {
				return false, err
			}
			if !done { // the time was over while it was judged
				s.seen--
				s.stop(at, timeWasOver)
				return true, nil
			}
			runtime.Gosched() // behind all that is waiting to run
		}
		if page.Continue == "" {
			return false, nil
		}
		at = Cursor{Resource: at.Resource, Continue: page.Continue}
	}
}

// renew is where a survey goes on in the newest state when that of its cursor is gone, by the error that says so.
func renew(at Cursor, err error) Cursor {
	at.Continue, at.ResourceVersion = "", ""
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		at.Continue = status.Status().Continue
	}
	return at
}

func (s *survey) stop(at Cursor, reason string) { s.report.Next, s.report.Reason = at, reason }

// object judges one object. done is false when the time was over before it was judged.
func (s *survey) object(ctx context.Context, r *rest.Resource, plans []*plan, obj *document.Document, out *SurveyedResource) (done bool, err error) {
	watch := &findings{resource: out, object: obj}
	for _, p := range plans {
		if err := s.judge(ctx, r, p, obj, watch); err != nil {
			if ctx.Err() != nil {
				return false, nil
			}
			watch.fail(err)
		}
	}
	if ctx.Err() != nil {
		return false, nil
	}
	watch.count()
	for i := range watch.list {
		if err := s.tell(&watch.list[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *survey) judge(ctx context.Context, r *rest.Resource, p *plan, obj *document.Document, watch *findings) error {
	seen := obj
	if p.version != r.StorageVersion {
		var err error
		if seen, err = convertBy(ctx, r, p.version, obj, p.version); err != nil {
			return err
		}
	}
	meta := rest.MetaOf(obj)
	a := &admission.Attributes{Operation: p.operation, Kind: p.kind, Namespace: meta.Namespace(), Name: meta.Name(), DryRun: true, User: s.User, Options: p.options,
		Resource: schema.GroupVersionResource{Group: r.Group, Version: p.version, Resource: r.Name}, Default: defaulterOf(r, p.version)}
	if isNamespaces(a) {
		a.Namespace = a.Name
	}
	if p.operation != admission.Delete {
		a.Object = seen
	}
	if p.operation != admission.Create {
		a.OldObject = seen
	}
	e := &evaluation{attributes: a, ctx: rest.Each(ctx), namespaces: s.namespaces, catalog: s.Catalog, index: s.index, watch: watch, given: s.Params, resource: r, time: s.time}
	if s.last != nil && s.last.attributes.Namespace == a.Namespace {
		e.params = s.last.params
	}
	s.last = e
	if s.Authorizer != nil && s.User != nil {
		e.authorizer = s.Authorizer(a)
	}
	if len(p.mutating) > 0 {
		m := mutation{evaluation: e}
		if err := m.all(p.mutating); err != nil {
			return err
		}
	}
	v := validation{evaluation: e}
	for _, policy := range p.validating {
		if err := v.policy(policy); err != nil {
			return err
		}
	}
	return nil
}
