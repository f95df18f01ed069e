package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"weak"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// herd lists n objects that it makes when they are asked for.
type herd struct {
	t     *testing.T
	n     int
	lists int
	// pages are the first objects of those that were given.
	pages []weak.Pointer[document.Document]
	// before is called before a page is given.
	before func(page int)
	// expire makes a list fail as one of a state that is gone.
	expire func(opts *internalversion.ListOptions) bool
}

// List implements rest.Lister.
func (h *herd) List(_ context.Context, opts *internalversion.ListOptions) (*rest.List, error) {
	if opts.Limit < 1 || opts.Limit > surveyPage {
		h.t.Fatalf("a page of %d objects is asked for", opts.Limit)
	}
	h.lists++
	if h.before != nil {
		h.before(h.lists)
	}
	if h.expire != nil && h.expire(opts) {
		gone := apierrors.NewResourceExpired("gone")
		gone.ErrStatus.Continue = opts.Continue
		return nil, gone
	}
	from := 0
	if opts.Continue != "" {
		from, _ = strconv.Atoi(opts.Continue)
	}
	list := &rest.List{ResourceVersion: "7"}
	for i := from; i < min(h.n, from+int(opts.Limit)); i++ {
		list.Items = append(list.Items, document.FromCanonical(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Sheep","metadata":{"name":"sheep-%d","namespace":"ns-%d"},"spec":{"n":%d}}`, i, i/1000, i)))
	}
	if len(list.Items) > 0 {
		h.pages = append(h.pages, weak.Make(list.Items[0]))
	}
	if next := from + len(list.Items); next < h.n {
		list.Continue = strconv.Itoa(next)
	}
	return list, nil
}

// flock is a catalog of one resource.
type flock struct{ resource *rest.Resource }

func (f flock) Resource(group, name string) *rest.Resource {
	if f.resource.Group == group && f.resource.Name == name {
		return f.resource
	}
	return nil
}
func (f flock) Resources() []*rest.Resource { return []*rest.Resource{f.resource} }
func (flock) Generation() uint64            { return 1 }

// everyTenth denies objects whose number is one of ten.
type everyTenth struct{}

func (everyTenth) Judge(_ context.Context, r *policies.Review) (*policies.Decision, error) {
	n, _ := r.Object.Get("spec", "n").Int()
	switch {
	case n%10 == 0:
		return &policies.Decision{Denials: []policies.Denial{{Message: fmt.Sprint("denies ", n)}}}, nil
	case n%10 == 1:
		return nil, errors.New("cannot judge")
	}
	return &policies.Decision{}, nil
}

// namespacesByName counts what is read.
type namespacesByName struct{ reads int }

func (n *namespacesByName) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	n.reads++
	return document.Parse(fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"odd":"%v"}}}`, name, strings.HasSuffix(name, "1")))
}

func surveyOf(t *testing.T, h *herd) SurveyConfig {
	t.Helper()
	m, err := NewMatch(rules("example.com", "sheep", "UPDATE"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{Kind: "Policy", Name: "tenth", Match: m, Judge: everyTenth{}, Bindings: []*Binding{{Name: "b", Deny: true}}}
	return SurveyConfig{
		Catalog: flock{&rest.Resource{Group: "example.com", Name: "sheep", Kind: "Sheep", Namespaced: true, StorageVersion: "v1",
			Versions: []*rest.Version{{Name: "v1", Storage: h}}}},
		Policies: []*Policy{p}, Namespaces: &namespacesByName{},
		Readable: func(context.Context, schema.GroupVersionResource, string) bool { return true },
	}
}

// However many objects there are, two pages of them are held at most: the one that is judged, and the one before it until
// it is collected.
func TestSurveyHoldsOnePage(t *testing.T) {
	h := &herd{t: t, n: 50_000}
	h.before = func(page int) {
		if page%50 != 0 {
			return
		}
		runtime.GC()
		for i, p := range h.pages[:len(h.pages)-1] {
			if p.Value() != nil {
				t.Fatalf("page %d is still held when page %d is asked for", i+1, page)
			}
		}
	}
	cfg := surveyOf(t, h)
	found := 0
	report, err := Survey(t.Context(), cfg, func(f *Finding) error {
		if f.Verdict == VerdictDenied && (f.Policy != "tenth" || f.Binding != "b" || !f.Refused || f.Message != "denies "+strings.TrimPrefix(f.Name, "sheep-")) {
			t.Errorf("got %+v", f)
		}
		found++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := report.Resources[0]
	if !report.Complete || r.Objects != 50_000 || r.Concerned != 50_000 || r.Denied != 5000 || r.Failed != 5000 || r.Changed != 0 || found != 10_000 {
		t.Errorf("got %+v %+v, %d findings", report, r, found)
	}
	if h.lists != 50_000/surveyPage {
		t.Errorf("%d pages", h.lists)
	}
}

// A survey that is cut into pieces looks at each object once.
func TestSurveyGoesOn(t *testing.T) {
	h := &herd{t: t, n: 1000}
	cfg := surveyOf(t, h)
	cfg.MaxObjects = 130
	total, seen := SurveyedResource{}, map[string]bool{}
	for range 20 {
		report, err := Survey(t.Context(), cfg, func(f *Finding) error {
			if seen[f.Name+f.Verdict] {
				t.Errorf("%s is found twice", f.Name)
			}
			seen[f.Name+f.Verdict] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		total.Objects += report.Resources[0].Objects
		total.Denied += report.Resources[0].Denied
		if report.Complete {
			break
		}
		if report.Reason == "" {
			t.Error("no reason is given")
		}
		cfg.After = report.Next
	}
	if total.Objects != 1000 || total.Denied != 100 || len(seen) != 200 {
		t.Errorf("got %+v, %d findings", total, len(seen))
	}
}

func TestSurveyEndsWithItsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := surveyOf(t, &herd{t: t, n: 1000})
	found := 0
	report, err := Survey(ctx, cfg, func(*Finding) error {
		if found++; found == 31 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Resources[0]; report.Complete || report.Next.Skip != int(r.Objects) || report.Next.ResourceVersion != "7" || r.Objects < 150 || r.Objects > 160 {
		t.Errorf("got %+v %+v", report, report.Resources[0])
	}
}

func TestSurveyNarrows(t *testing.T) {
	odd, err := NewMatch(&admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"odd": "true"}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*SurveyConfig)
		want   SurveyedResource
		idle   int
	}{
		{"by the namespace selector of a binding", func(c *SurveyConfig) { c.Policies[0].Bindings[0].Match = odd }, SurveyedResource{Objects: 3000, Concerned: 1000, Denied: 100, Failed: 100}, 0},
		{"what only warns", func(c *SurveyConfig) { c.Policies[0].Bindings[0].Deny = false }, SurveyedResource{Objects: 3000, Concerned: 3000, Warned: 300, Failed: 300}, 0},
		{"what is in shadow", func(c *SurveyConfig) { c.Policies[0].Bindings[0].Shadow = true }, SurveyedResource{Objects: 3000, Concerned: 3000, Shadowed: 600}, 0},
		{"without permission", func(c *SurveyConfig) {
			c.Readable = func(context.Context, schema.GroupVersionResource, string) bool { return false }
		}, SurveyedResource{NotCounted: "no permission to list sheep.example.com"}, 0},
		{"as a creation", func(c *SurveyConfig) { c.Operation = admission.Create }, SurveyedResource{}, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := surveyOf(t, &herd{t: t, n: 3000})
			tc.change(&cfg)
			report, err := Survey(t.Context(), cfg, func(*Finding) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Idle) != tc.idle || !report.Complete {
				t.Errorf("got %+v", report)
			}
			if tc.idle > 0 {
				return
			}
			got := *report.Resources[0]
			got.Resource, got.Operations = schema.GroupVersionResource{}, nil
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if reads := cfg.Namespaces.(*namespacesByName).reads; reads > 3 {
				t.Errorf("%d reads of 3 namespaces", reads)
			}
		})
	}
}

func TestSurveyTellsOfAClientThatIsGone(t *testing.T) {
	gone := errors.New("gone")
	if _, err := Survey(t.Context(), surveyOf(t, &herd{t: t, n: 10}), func(*Finding) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
