package loader

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// compareVersions orders API versions by their stability and number, as kube-apiserver does.
func compareVersions(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }

// takenNames are the names that the other resources of one group have.
type takenNames struct {
	resources map[string]bool // plural, singular and short names
	kinds     map[string]bool // kinds and list kinds
}

// acceptNames decides which of the names that crd asks for it gets: a name that another resource of the
// group has is refused, one that it has already is kept. The condition says so.
func acceptNames(crd *apiextensionsv1.CustomResourceDefinition, taken takenNames) (apiextensionsv1.CustomResourceDefinitionNames, apiextensionsv1.CustomResourceDefinitionCondition) {
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"}
	conflict := func(reason string, names ...string) {
		condition.Status, condition.Reason = apiextensionsv1.ConditionFalse, reason
		texts := make([]string, len(names))
		for i, name := range names {
			texts[i] = fmt.Sprintf("%q is already in use", name)
		}
		condition.Message = strings.Join(texts, ", ")
	}
	asked, accepted := crd.Spec.Names, crd.Status.AcceptedNames
	free := func(name, current string, in map[string]bool) bool { return name == "" || name == current || !in[name] }

	if free(asked.Plural, accepted.Plural, taken.resources) {
		accepted.Plural = asked.Plural
	} else {
		conflict("PluralConflict", asked.Plural)
	}
	if free(asked.Singular, accepted.Singular, taken.resources) {
		accepted.Singular = asked.Singular
	} else {
		conflict("SingularConflict", asked.Singular)
	}
	var refused []string
	for _, short := range asked.ShortNames {
		if taken.resources[short] && !slices.Contains(accepted.ShortNames, short) {
			refused = append(refused, short)
		}
	}
	if len(refused) == 0 {
		accepted.ShortNames = asked.ShortNames
	} else {
		conflict("ShortNamesConflict", refused...)
	}
	if free(asked.Kind, accepted.Kind, taken.kinds) {
		accepted.Kind = asked.Kind
	} else {
		conflict("KindConflict", asked.Kind)
	}
	if free(asked.ListKind, accepted.ListKind, taken.kinds) {
		accepted.ListKind = asked.ListKind
	} else {
		conflict("ListKindConflict", asked.ListKind)
	}
	accepted.Categories = asked.Categories
	return accepted, condition
}

// setCRDCondition sets a condition and keeps its time when its status has not changed. It reports whether
// anything did.
func setCRDCondition(conditions *[]apiextensionsv1.CustomResourceDefinitionCondition, c apiextensionsv1.CustomResourceDefinitionCondition, now metav1.Time) bool {
	for i := range *conditions {
		old := &(*conditions)[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			return false
		}
		c.LastTransitionTime = old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = now
		}
		*old = c
		return true
	}
	c.LastTransitionTime = now
	*conditions = append(*conditions, c)
	return true
}
