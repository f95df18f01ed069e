package admission

// goldenWrite is a policy or binding that is written as it is; what it leaves out is filled in, but what is nil, which is
// left out.
type goldenWrite struct {
	name, path string
	spec       object
}

var (
	goodValidating = merged(object{"failurePolicy": "Fail"}, merged(checks("true"), rule(nil)))
	goodMutating   = merged(object{"failurePolicy": "Fail", "reinvocationPolicy": "Never"}, merged(apply("Object{}"), rule(nil)))
	goodBinding    = object{"policyName": "p", "validationActions": list{"Deny"}}
)

// but returns a spec with other fields; nil drops one.
func but(spec, more object) object {
	out := merged(spec, more)
	for k, v := range out {
		if v == nil {
			delete(out, k)
		}
	}
	return out
}

func goldenWrites() []goldenWrite {
	vap := func(name string, more object) goldenWrite {
		return goldenWrite{"policy: " + name, validatingPolicies, but(goodValidating, more)}
	}
	vapb := func(name string, more object) goldenWrite {
		return goldenWrite{"binding: " + name, validatingBindings, but(goodBinding, more)}
	}
	mutation := func(name string, more object) goldenWrite {
		return goldenWrite{"mutation: " + name, mutatingPolicies, but(goodMutating, more)}
	}
	mapb := func(name string, more object) goldenWrite {
		return goldenWrite{"mutation binding: " + name, mutatingBindings, but(object{"policyName": "p"}, more)}
	}
	variable := func(name, text string) object { return object{"name": name, "expression": text} }
	return []goldenWrite{
		vap("good", nil),
		vap("no validations", object{"validations": nil}),
		vap("empty expression", checks("")),
		vap("blank expression", checks("  ")),
		vap("syntax error", checks("object.")),
		vap("unknown variable", checks("nobody == 1")),
		vap("params without a kind", checks("params.data.v == 'x'")),
		vap("request has no uid", checks("request.uid == ''")),
		vap("not a bool", checks("1")),
		vap("dyn for a bool", checks("object.data")),
		vap("reason unknown", says("true", object{"reason": "Because"})),
		vap("reason Unauthorized", says("true", object{"reason": "Unauthorized"})),
		vap("message in two lines", says("true", object{"message": "a\nb"})),
		vap("blank message", says("true", object{"message": "  "})),
		vap("message expression is no text", says("true", object{"messageExpression": "1"})),
		vap("message expression is dyn", says("true", object{"messageExpression": "object.data.v"})),
		vap("blank message expression", says("true", object{"messageExpression": "  "})),
		vap("long expression of two lines without a message", checks("true\n|| false")),
		vap("failure policy unknown", object{"failurePolicy": "Maybe"}),
		vap("no constraints", object{"matchConstraints": nil}),
		vap("no rules", object{"matchConstraints": object{}}),
		vap("empty rules", object{"matchConstraints": object{"resourceRules": list{}}}),
		vap("no operations", rule(object{"operations": list{}})),
		vap("operation unknown", rule(object{"operations": list{"READ"}})),
		vap("operation CONNECT", rule(object{"operations": list{"CONNECT"}})),
		vap("wildcard and another operation", rule(object{"operations": list{"*", "CREATE"}})),
		vap("no groups", rule(object{"apiGroups": list{}})),
		vap("wildcard and another group", rule(object{"apiGroups": list{"*", "apps"}})),
		vap("no versions", rule(object{"apiVersions": list{}})),
		vap("no resources", rule(object{"resources": list{}})),
		vap("wildcard and another resource", rule(object{"resources": list{"*", "pods"}})),
		vap("overlapping subresources", rule(object{"resources": list{"*/*", "pods/status"}})),
		vap("scope unknown", rule(object{"scope": "Here"})),
		vap("resource names twice", rule(object{"resourceNames": list{"a", "a"}})),
		vap("resource name is no name", rule(object{"resourceNames": list{"a/b"}})),
		vap("selector is wrong", object{"matchConstraints": object{"resourceRules": list{object{"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"*"}, "resources": list{"pods"}}},
			"objectSelector": object{"matchExpressions": list{object{"key": "a", "operator": "Is", "values": list{"b"}}}}}}),
		vap("match policy unknown", object{"matchConstraints": object{"matchPolicy": "Roughly", "resourceRules": list{object{"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"*"}, "resources": list{"pods"}}}}}),
		vap("param kind without a kind", object{"paramKind": object{"apiVersion": "v1"}}),
		vap("param kind without a version", object{"paramKind": object{"kind": "ConfigMap"}}),
		vap("param kind is no kind", object{"paramKind": object{"apiVersion": "a/b/c", "kind": "no kind"}}),
		vap("variable without a name", object{"variables": list{variable("", "1")}}),
		vap("variable is no identifier", object{"variables": list{variable("a-b", "1")}}),
		vap("variable twice", object{"variables": list{variable("a", "1"), variable("a", "2")}}),
		vap("variable without an expression", object{"variables": list{variable("a", "")}}),
		vap("variable does not compile", object{"variables": list{variable("a", "object.")}}),
		vap("variable before its definition", object{"variables": list{variable("a", "variables.b"), variable("b", "1")}}),
		vap("condition without a name", object{"matchConditions": list{variable("", "true")}}),
		vap("condition has no good name", object{"matchConditions": list{variable("a b", "true")}}),
		vap("condition twice", object{"matchConditions": list{variable("a", "true"), variable("a", "true")}}),
		vap("condition without an expression", object{"matchConditions": list{variable("a", "")}}),
		vap("condition is no bool", object{"matchConditions": list{variable("a", "1")}}),
		vap("condition uses a variable", merged(object{"matchConditions": list{variable("a", "variables.v")}}, object{"variables": list{variable("v", "true")}})),
		vap("annotation key is wrong", object{"auditAnnotations": list{object{"key": "a b", "valueExpression": "'v'"}}}),
		vap("annotation key twice", object{"auditAnnotations": list{object{"key": "a", "valueExpression": "'v'"}, object{"key": "a", "valueExpression": "'v'"}}}),
		vap("annotation without an expression", object{"auditAnnotations": list{object{"key": "a", "valueExpression": ""}}}),
		vap("annotation is a number", object{"auditAnnotations": list{object{"key": "a", "valueExpression": "1"}}}),
		vap("a field of request that there is not", checks("request.operaton == 'CREATE'")),
		vap("param kind of itself", object{"paramKind": object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}}),

		vapb("good", nil),
		vapb("no policy", object{"policyName": nil}),
		vapb("policy has no good name", object{"policyName": "A B"}),
		vapb("no actions", object{"validationActions": nil}),
		vapb("empty actions", object{"validationActions": list{}}),
		vapb("action unknown", object{"validationActions": list{"Frown"}}),
		vapb("action twice", object{"validationActions": list{"Deny", "Deny"}}),
		vapb("Deny and Warn", object{"validationActions": list{"Deny", "Warn"}}),
		vapb("param by name and label", object{"paramRef": object{"name": "p", "selector": object{}, "parameterNotFoundAction": "Deny"}}),
		vapb("param by neither", object{"paramRef": object{"parameterNotFoundAction": "Deny"}}),
		vapb("no action for missing params", object{"paramRef": object{"name": "p"}}),
		vapb("action for missing params unknown", object{"paramRef": object{"name": "p", "parameterNotFoundAction": "Shrug"}}),
		vapb("param has no good name", object{"paramRef": object{"name": "a/b", "parameterNotFoundAction": "Deny"}}),
		vapb("no rules", object{"matchResources": object{}}),
		vapb("operation unknown", object{"matchResources": object{"resourceRules": list{object{"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"READ"}, "resources": list{"pods"}}}}}),

		mutation("good", nil),
		mutation("no mutations", object{"mutations": nil}),
		mutation("both sorts", object{"mutations": list{object{"patchType": "JSONPatch", "jsonPatch": object{"expression": "[JSONPatch{op: 'remove', path: '/data'}]"}, "applyConfiguration": object{"expression": "Object{}"}}}}),
		mutation("neither sort", object{"mutations": list{object{"patchType": "JSONPatch"}}}),
		mutation("the other sort", object{"mutations": list{object{"patchType": "JSONPatch", "applyConfiguration": object{"expression": "Object{}"}}}}),
		mutation("no patch type", object{"mutations": list{object{"jsonPatch": object{"expression": "[JSONPatch{op: 'remove', path: '/data'}]"}}}}),
		mutation("patch type unknown", object{"mutations": list{object{"patchType": "Bend", "jsonPatch": object{"expression": "[JSONPatch{op: 'remove', path: '/data'}]"}}}}),
		mutation("no reinvocation policy", object{"reinvocationPolicy": nil}),
		mutation("reinvocation policy unknown", object{"reinvocationPolicy": "Often"}),
		mutation("configuration is no object", apply("1")),
		mutation("configuration does not compile", apply("Object{")),
		mutation("configuration is empty", apply("")),
		mutation("patch is no list", jsonPatches("1")),
		mutation("patch is an empty list", jsonPatches("[]")),
		mutation("patch is a list of texts", jsonPatches("['a']")),
		mutation("patch has an unknown field", jsonPatches("[JSONPatch{op: 'add', way: '/a'}]")),
		mutation("operation DELETE", rule(object{"operations": list{"DELETE"}})),
		mutation("no rules", object{"matchConstraints": object{}}),
		mutation("failure policy unknown", object{"failurePolicy": "Maybe"}),
		mutation("variable twice", object{"variables": list{variable("a", "1"), variable("a", "2")}}),
		mutation("condition is no bool", object{"matchConditions": list{variable("a", "1")}}),

		mapb("good", nil),
		mapb("no policy", object{"policyName": nil}),
		mapb("param by neither", object{"paramRef": object{"parameterNotFoundAction": "Deny"}}),
		mapb("no action for missing params", object{"paramRef": object{"name": "p"}}),
		mapb("operation unknown", object{"matchResources": object{"resourceRules": list{object{"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"READ"}, "resources": list{"pods"}}}}}),
	}
}
