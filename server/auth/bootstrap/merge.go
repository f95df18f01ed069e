package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// errOtherRole says that a binding refers to another role than it should, which cannot be changed.
var errOtherRole = errors.New("binding refers to another role")

// merge returns have with what it lacks of wanted, have itself when it lacks nothing or is protected.
func merge(have, wanted *document.Document) (*document.Document, error) {
	if have == nil {
		return wanted, nil
	}
	if rest.MetaOf(have).Annotation(rbacv1.AutoUpdateAnnotationKey) == "false" {
		return have, nil
	}
	if ref := wanted.Get("roleRef"); ref.Exists() && !ref.Equal(have.Get("roleRef")) {
		return nil, errOtherRole
	}
	e := have.Edit()
	for _, name := range []string{"annotations", "labels"} {
		for key, v := range wanted.Get("metadata", name).Members() {
			if !have.Get("metadata", name, key).Exists() {
				e.Set(v, "metadata", name, key)
			}
		}
	}
	missing, err := missingRules(have, wanted)
	if err != nil {
		return nil, err
	}
	appendTo(e, have, missing, "rules")
	for _, path := range [][]string{{"subjects"}, {"aggregationRule", "clusterRoleSelectors"}} {
		appendTo(e, have, missingElements(have.Get(path...), wanted.Get(path...)), path...)
	}
	if have.Get("aggregationRule").Exists() && !wanted.Get("aggregationRule").Exists() {
		e.Delete("aggregationRule")
	}
	return e.Document()
}

func appendTo(e *document.Edit, have *document.Document, list []any, path ...string) {
	if len(list) == 0 {
		return
	}
	all := []any{}
	for _, v := range have.Get(path...).Elements() {
		all = append(all, v.Interface())
	}
	e.Set(append(all, list...), path...)
}

// missingElements returns the elements of wanted that have is without.
func missingElements(have, wanted document.Value) []any {
	var out []any
	if have.Equal(wanted) {
		return nil
	}
	there := map[string]bool{}
	for _, v := range have.Elements() {
		there[string(v.Raw())] = true
	}
	for _, v := range wanted.Elements() {
		if !there[string(v.Raw())] {
			there[string(v.Raw())] = true
			out = append(out, v.Interface())
		}
	}
	return out
}

// missingRules returns rules for what wanted allows and have does not.
func missingRules(have, wanted *document.Document) ([]any, error) {
	if !wanted.Get("rules").Exists() || wanted.Get("rules").Equal(have.Get("rules")) {
		return nil, nil
	}
	var is, should struct {
		Rules []rbacv1.PolicyRule `json:"rules"`
	}
	if err := json.Unmarshal(have.Bytes(), &is); err != nil {
		return nil, fmt.Errorf("stored object: %w", err)
	}
	if err := json.Unmarshal(wanted.Bytes(), &should); err != nil {
		return nil, err
	}
	_, missing := validation.Covers(is.Rules, should.Rules)
	out := make([]any, 0, len(missing))
	for _, r := range missing {
		out = append(out, r)
	}
	return out, nil
}
