package loader

import (
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAcceptNames(t *testing.T) {
	asked := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList", ShortNames: []string{"th", "tg"}, Categories: []string{"all"}}
	set := func(names ...string) map[string]bool {
		out := map[string]bool{}
		for _, n := range names {
			out[n] = true
		}
		return out
	}
	tests := []struct {
		name     string
		accepted apiextensionsv1.CustomResourceDefinitionNames
		taken    takenNames
		want     apiextensionsv1.CustomResourceDefinitionNames
		status   apiextensionsv1.ConditionStatus
		reason   string
		message  string
	}{
		{name: "free", want: asked, status: "True", reason: "NoConflicts", message: "no conflicts found"},
		{name: "kind is taken", taken: takenNames{kinds: set("Thing")}, status: "False", reason: "KindConflict", message: `"Thing" is already in use`,
			want: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", ListKind: "ThingList", ShortNames: asked.ShortNames, Categories: asked.Categories}},
		{name: "a short name is taken", taken: takenNames{resources: set("tg")}, status: "False", reason: "ShortNamesConflict", message: `"tg" is already in use`,
			want: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList", Categories: asked.Categories}},
		{name: "what it has it keeps", accepted: asked, taken: takenNames{kinds: set("Thing", "ThingList"), resources: set("things", "thing", "th", "tg")},
			want: asked, status: "True", reason: "NoConflicts", message: "no conflicts found"},
		{name: "the plural of another", taken: takenNames{resources: set("things")}, status: "False", reason: "PluralConflict", message: `"things" is already in use`,
			want: apiextensionsv1.CustomResourceDefinitionNames{Singular: "thing", Kind: "Thing", ListKind: "ThingList", ShortNames: asked.ShortNames, Categories: asked.Categories}},
		{name: "the list kind of another", taken: takenNames{kinds: set("ThingList")}, status: "False", reason: "ListKindConflict", message: `"ThingList" is already in use`,
			want: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ShortNames: asked.ShortNames, Categories: asked.Categories}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			crd.Spec.Names, crd.Status.AcceptedNames = asked, tc.accepted
			got, condition := acceptNames(crd, tc.taken)
			if got.Plural != tc.want.Plural || got.Singular != tc.want.Singular || got.Kind != tc.want.Kind || got.ListKind != tc.want.ListKind ||
				!slices.Equal(got.ShortNames, tc.want.ShortNames) || !slices.Equal(got.Categories, tc.want.Categories) {
				t.Errorf("accepted %+v, want %+v", got, tc.want)
			}
			if condition.Type != apiextensionsv1.NamesAccepted || condition.Status != tc.status || condition.Reason != tc.reason || condition.Message != tc.message {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}

func TestSetCRDCondition(t *testing.T) {
	first, later := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	var conditions []apiextensionsv1.CustomResourceDefinitionCondition
	c := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "A"}
	if !setCRDCondition(&conditions, c, first) || conditions[0].LastTransitionTime != first {
		t.Errorf("new: %+v", conditions)
	}
	if setCRDCondition(&conditions, c, later) {
		t.Error("the same again is a change")
	}
	c.Reason = "B"
	if !setCRDCondition(&conditions, c, later) || conditions[0].LastTransitionTime != first || conditions[0].Reason != "B" {
		t.Errorf("another reason: %+v", conditions)
	}
	c.Status = apiextensionsv1.ConditionTrue
	if !setCRDCondition(&conditions, c, later) || conditions[0].LastTransitionTime != later || len(conditions) != 1 {
		t.Errorf("another status: %+v", conditions)
	}
}
