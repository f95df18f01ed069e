package admission

import "strings"

// goldenCase is one question of the table: policies, what they look at, and a request.
type goldenCase struct {
	name string
	// The specs of a policy and its binding; nil: none. What they leave out is filled in by goldenCase.objects.
	validating, validatingBinding object
	mutating, mutatingBinding     object
	// second is another MutatingAdmissionPolicy, which runs after the first.
	second object
	// params are ConfigMaps in the namespace of the case, by name: their data. Their labels are role=param.
	params map[string]object
	// old is the data that is there already where the request is an update or a deletion.
	old    object
	method string // POST, PUT or DELETE; "": POST
	// data and labels of the object that is written.
	data, labels object
}

func checks(texts ...string) object {
	var validations list
	for _, text := range texts {
		validations = append(validations, object{"expression": text})
	}
	return object{"validations": validations}
}

// merged returns a spec with more fields.
func merged(spec, more object) object {
	out := object{}
	for _, from := range []object{spec, more} {
		for k, v := range from {
			out[k] = v
		}
	}
	return out
}

func condition(texts ...string) object {
	var conditions list
	for i, text := range texts {
		conditions = append(conditions, object{"name": "c" + string(rune('0'+i)), "expression": text})
	}
	return object{"matchConditions": conditions}
}

func named(pairs ...string) object {
	var variables list
	for i := 0; i < len(pairs); i += 2 {
		variables = append(variables, object{"name": pairs[i], "expression": pairs[i+1]})
	}
	return object{"variables": variables}
}

func rule(more object) object {
	return object{"matchConstraints": object{"resourceRules": list{merged(object{"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"*"}, "resources": list{"configmaps"}}, more)}}}
}

func apply(texts ...string) object {
	var mutations list
	for _, text := range texts {
		mutations = append(mutations, object{"patchType": "ApplyConfiguration", "applyConfiguration": object{"expression": text}})
	}
	return object{"mutations": mutations}
}

func jsonPatches(texts ...string) object {
	var mutations list
	for _, text := range texts {
		mutations = append(mutations, object{"patchType": "JSONPatch", "jsonPatch": object{"expression": text}})
	}
	return object{"mutations": mutations}
}

var (
	ignore  = object{"failurePolicy": "Ignore"}
	kind    = object{"paramKind": object{"apiVersion": "v1", "kind": "ConfigMap"}}
	unknown = object{"paramKind": object{"apiVersion": "nothing.example.com/v1", "kind": "Nothing"}}
)

func byName(name, missing string) object {
	return object{"paramRef": object{"name": name, "parameterNotFoundAction": missing}}
}

func byLabel(role, missing string) object {
	return object{"paramRef": object{"selector": object{"matchLabels": object{"role": role}}, "parameterNotFoundAction": missing}}
}

func acts(actions ...any) object { return object{"validationActions": actions} }

func says(expression string, more object) object {
	return object{"validations": list{merged(object{"expression": expression}, more)}}
}

const no = "object.metadata.name == 'other'"

func goldenCases() []goldenCase {
	return []goldenCase{
		// Denials and what they say.
		{name: "allowed", validating: checks("object.data.v == 'x'")},
		{name: "denied without a message", validating: checks(no)},
		{name: "denied without a message in two lines", validating: checks("object.metadata.name\n  == 'other'")},
		{name: "expression of two lines", validating: says("object.metadata.name\n  == 'other'", object{"message": "m"})},
		{name: "denied with a message", validating: says(no, object{"message": "not so"})},
		{name: "reason Forbidden", validating: says(no, object{"reason": "Forbidden"})},
		{name: "reason Invalid", validating: says(no, object{"reason": "Invalid"})},
		{name: "reason RequestEntityTooLarge", validating: says(no, object{"reason": "RequestEntityTooLarge"})},
		{name: "message expression", validating: says(no, object{"messageExpression": "'name is ' + string(object.metadata.name)"})},
		{name: "message expression beats the message", validating: says(no, object{"message": "m", "messageExpression": "'by expression'"})},
		{name: "message expression fails", validating: says(no, object{"message": "m", "messageExpression": "string(object.nothing.at.all)"})},
		{name: "message expression fails without a message", validating: says(no, object{"messageExpression": "string(object.nothing.at.all)"})},
		{name: "message expression is empty", validating: says(no, object{"message": "m", "messageExpression": "''"})},
		{name: "message expression is blank", validating: says(no, object{"message": "m", "messageExpression": "'   '"})},
		{name: "message expression has two lines", validating: says(no, object{"message": "m", "messageExpression": "'a\\nb'"})},
		{name: "message expression is too long", validating: says(no, object{"message": "m", "messageExpression": "'" + strings.Repeat("x", 6<<10) + "'"})},
		{name: "two validations fail", validating: object{"validations": list{object{"expression": no, "message": "first"}, object{"expression": no, "message": "second", "reason": "Forbidden"}}}},
		{name: "the second validation fails", validating: object{"validations": list{object{"expression": "true", "message": "first"}, object{"expression": no, "message": "second"}}}},

		// What cannot be evaluated.
		{name: "no such key", validating: checks("object.data.missing == 'x'")},
		{name: "no such key, ignored", validating: merged(checks("object.data.missing == 'x'"), ignore)},
		{name: "no such key, then denied, ignored", validating: merged(checks("object.data.missing == 'x'", no), ignore)},
		{name: "no such overload", validating: checks("object.data.v > 5")},
		{name: "divided by zero", validating: checks("1 / (size(object.data.v) - 1) == 1")},
		{name: "index out of bounds", validating: checks("[1, 2][size(object.data) + 5] == 1")},
		{name: "conversion of a text", validating: checks("int(object.data.v) == 1")},
		{name: "params are null", validating: merged(checks("params.data.v == 'x'"), kind)},
		{name: "oldObject is null on create", validating: checks("oldObject == null")},
		{name: "field of a null oldObject", validating: checks("oldObject.data.v == 'x'")},
		{name: "cost of an expression", validating: checks("lists.range(1000).all(i, lists.range(1000).all(j, i >= 0 && j >= 0))")},
		{name: "cost of an expression, ignored", validating: merged(checks("lists.range(1000).all(i, lists.range(1000).all(j, i >= 0 && j >= 0))"), ignore)},

		// Match conditions.
		{name: "match condition holds", validating: merged(checks(no), condition("object.data.v == 'x'"))},
		{name: "match condition does not hold", validating: merged(checks(no), condition("object.data.v == 'y'"))},
		{name: "match condition fails", validating: merged(checks("true"), condition("object.data.missing == 'x'"))},
		{name: "match condition fails, ignored", validating: merged(merged(checks(no), condition("object.data.missing == 'x'")), ignore)},
		{name: "match condition fails and another does not hold", validating: merged(checks(no), condition("object.data.missing == 'x'", "false"))},
		{name: "match condition fails and another holds", validating: merged(checks(no), condition("true", "object.data.missing == 'x'"))},
		{name: "match condition sees no namespace", validating: merged(checks(no), condition("namespaceObject == null"))},
		{name: "match condition with params", validating: merged(merged(checks(no), condition("params.data.v == 'p'")), kind), validatingBinding: byName("p", "Deny"), params: map[string]object{"p": {"v": "p"}}},

		// Variables.
		{name: "variable", validating: merged(checks("variables.v == 'y'"), named("v", "object.data.v"))},
		{name: "variable of a variable", validating: merged(checks("variables.w == 'xx!'"), named("v", "object.data.v", "w", "variables.v + variables.v"))},
		{name: "variable fails", validating: merged(checks("variables.v == 'x'"), named("v", "object.data.missing"))},
		{name: "variable fails, ignored", validating: merged(merged(checks("variables.v == 'x'"), named("v", "object.data.missing")), ignore)},
		{name: "variable that fails is not used", validating: merged(checks("true"), named("v", "object.data.missing"))},
		{name: "variable in a message", validating: merged(says(no, object{"messageExpression": "'v is ' + string(variables.v)"}), named("v", "object.data.v"))},
		{name: "variable of a variable that fails", validating: merged(checks("variables.w == 'x'"), named("v", "object.data.missing", "w", "variables.v"))},

		// Params.
		{name: "param by name allows", validating: merged(checks("object.data.v == params.data.v"), kind), validatingBinding: byName("p", "Deny"), params: map[string]object{"p": {"v": "x"}}},
		{name: "param by name denies", validating: merged(checks("object.data.v == params.data.v"), kind), validatingBinding: byName("p", "Deny"), params: map[string]object{"p": {"v": "y"}}},
		{name: "param is missing, Deny", validating: merged(checks("true"), kind), validatingBinding: byName("gone", "Deny")},
		{name: "param is missing, Deny, ignored", validating: merged(merged(checks(no), kind), ignore), validatingBinding: byName("gone", "Deny")},
		{name: "param is missing, Allow", validating: merged(checks(no), kind), validatingBinding: byName("gone", "Allow")},
		{name: "params by label, all allow", validating: merged(checks("object.data.v != params.data.v"), kind), validatingBinding: byLabel("param", "Deny"), params: map[string]object{"p": {"v": "1"}, "q": {"v": "2"}}},
		{name: "params by label, one denies", validating: merged(checks("object.data.v != params.data.v"), kind), validatingBinding: byLabel("param", "Deny"), params: map[string]object{"p": {"v": "1"}, "q": {"v": "x"}}},
		{name: "params by label, none, Deny", validating: merged(checks("true"), kind), validatingBinding: byLabel("nobody", "Deny")},
		{name: "params by label, none, Allow", validating: merged(checks(no), kind), validatingBinding: byLabel("nobody", "Allow")},
		{name: "param kind without a reference", validating: merged(checks("params == null"), kind)},
		{name: "param in another namespace", validating: merged(checks("object.data.v == params.data.v"), kind), validatingBinding: object{"paramRef": object{"name": "elsewhere", "namespace": "default", "parameterNotFoundAction": "Deny"}}},
		{name: "param kind is not served", validating: merged(checks("true"), unknown), validatingBinding: byName("p", "Deny")},
		{name: "param kind is not served, ignored", validating: merged(merged(checks("true"), unknown), ignore), validatingBinding: byName("p", "Deny")},

		// Actions and audit annotations.
		{name: "action Warn", validating: says(no, object{"message": "not so"}), validatingBinding: acts("Warn")},
		{name: "action Audit", validating: says(no, object{"message": "not so"}), validatingBinding: acts("Audit")},
		{name: "actions Deny and Audit", validating: says(no, object{"message": "not so"}), validatingBinding: acts("Deny", "Audit")},
		{name: "actions Warn and Audit of an error", validating: checks("object.data.missing == 'x'"), validatingBinding: acts("Warn", "Audit")},
		{name: "audit annotation", validating: object{"auditAnnotations": list{object{"key": "k", "valueExpression": "'v'"}}}},
		{name: "audit annotation is null", validating: object{"auditAnnotations": list{object{"key": "k", "valueExpression": "null"}}}},
		{name: "audit annotation fails", validating: object{"auditAnnotations": list{object{"key": "k", "valueExpression": "string(object.data.missing)"}}}},
		{name: "audit annotation fails, ignored", validating: merged(object{"auditAnnotations": list{object{"key": "k", "valueExpression": "string(object.data.missing)"}}}, ignore)},

		// Matching.
		{name: "operation does not match", validating: merged(checks(no), rule(object{"operations": list{"UPDATE", "DELETE"}}))},
		{name: "resource name matches", validating: merged(checks(no), rule(object{"resourceNames": list{"x"}}))},
		{name: "resource name does not match", validating: merged(checks(no), rule(object{"resourceNames": list{"y"}}))},
		{name: "scope does not match", validating: merged(checks(no), rule(object{"scope": "Cluster"}))},
		{name: "scope matches", validating: merged(checks(no), rule(object{"scope": "Namespaced"}))},
		{name: "group does not match", validating: merged(checks(no), rule(object{"apiGroups": list{"apps"}}))},
		{name: "excluded", validating: merged(checks(no), object{"matchConstraints": object{
			"resourceRules":        list{object{"apiGroups": list{"*"}, "apiVersions": list{"*"}, "operations": list{"*"}, "resources": list{"*"}}},
			"excludeResourceRules": list{object{"apiGroups": list{""}, "apiVersions": list{"v1"}, "operations": list{"*"}, "resources": list{"configmaps"}}}}})},
		{name: "object selector matches", validating: merged(checks(no), object{"objectSelector": object{"matchLabels": object{"a": "b"}}}), labels: object{"a": "b"}},
		{name: "object selector does not match", validating: merged(checks(no), object{"objectSelector": object{"matchLabels": object{"a": "b"}}}), labels: object{"a": "c"}},
		{name: "binding does not match", validating: checks(no), validatingBinding: object{"matchResources": object{"objectSelector": object{"matchLabels": object{"a": "b"}}}}},
		{name: "binding matches", validating: checks(no), validatingBinding: object{"matchResources": object{"objectSelector": object{"matchLabels": object{"a": "b"}}}}, labels: object{"a": "b"}},
		{name: "update sees both", validating: checks("object.data.v == oldObject.data.v"), method: "PUT", old: object{"v": "y"}},
		{name: "delete sees the old one", validating: checks("object == null && oldObject.data.v == 'y'"), method: "DELETE", old: object{"v": "y"}},
		{name: "delete is denied", validating: checks("oldObject.data.v == 'x'"), method: "DELETE", old: object{"v": "y"}},

		// What expressions see and can do.
		{name: "request", validating: checks("request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps' && request.name == 'x' && request.dryRun && !has(request.subResource)")},
		{name: "request has options", validating: checks("request.options.kind == 'CreateOptions' && request.options.dryRun == ['All']")},
		{name: "namespace", validating: checks("namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == request.namespace")},
		{name: "authorizer allows", validating: checks("authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()")},
		{name: "authorizer of a service account denies", validating: checks("authorizer.serviceAccount('default', 'nobody').group('').resource('secrets').check('get').allowed()")},
		{name: "authorizer of the request", validating: checks("authorizer.requestResource.check('create').allowed()")},
		{name: "authorizer of a path", validating: checks("authorizer.path('/healthz').check('get').allowed()")},
		{name: "libraries", validating: checks("quantity('1Ki').isLessThan(quantity('1Mi'))", "url('https://a.example/b').getHost() == 'a.example'", "ip('10.0.0.1').family() == 4", "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
			"'abc'.find('b.') == 'bc'", "[3, 1, 2].sum() == 6", "semver('1.2.3').isLessThan(semver('1.3.0'))", "!format.dns1123Label().validate('a').hasValue()", "object.?data.?none.orValue('z') == 'z'", "object.data.all(k, v, k == v || v == 'x')",
			"lists.range(3) == [0, 1, 2]", "sets.contains([1, 2], [1])", "[3, 1].sort() == [1, 3]", "isQuantity(object.data.v) == false")},

		// Mutations.
		{name: "apply configuration", mutating: apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}, data: {'w': object.data.v}}")},
		{name: "apply configuration of an object literal", mutating: apply("Object{metadata: Object.metadata{annotations: Object.metadata.annotations{note: 'n'}}}")},
		{name: "two apply configurations", mutating: apply("Object{data: {'w': 'one'}}", "Object{data: {'u': object.data.w + 'two'}}")},
		{name: "apply configuration of nothing", mutating: apply("Object{}")},
		{name: "apply configuration fails", mutating: apply("Object{data: {'w': object.data.missing}}")},
		{name: "apply configuration fails, ignored", mutating: merged(apply("Object{data: {'w': object.data.missing}}"), ignore)},
		{name: "apply configuration of an unknown field", mutating: apply("Object{spec: Object.spec{x: 1}}")},
		{name: "apply configuration of a wrong type", mutating: apply("Object{data: {'w': 1}}")},
		{name: "apply configuration of the name", mutating: apply("Object{metadata: Object.metadata{name: 'other'}}")},
		{name: "JSON patch", mutating: jsonPatches("[JSONPatch{op: 'add', path: '/data/w', value: object.data.v + '!'}, JSONPatch{op: 'remove', path: '/data/v'}]")},
		{name: "JSON patch of nothing", mutating: jsonPatches("object.data.v == 'y' ? [JSONPatch{op: 'remove', path: '/data'}] : []")},
		{name: "JSON patch test holds", mutating: jsonPatches("[JSONPatch{op: 'test', path: '/data/v', value: 'x'}, JSONPatch{op: 'replace', path: '/data/v', value: 'y'}]")},
		{name: "JSON patch test fails", mutating: jsonPatches("[JSONPatch{op: 'test', path: '/data/v', value: 'z'}, JSONPatch{op: 'replace', path: '/data/v', value: 'y'}]", "[JSONPatch{op: 'add', path: '/data/w', value: 'w'}]")},
		{name: "JSON patch without its path", mutating: jsonPatches("[JSONPatch{op: 'remove', path: '/data/none'}]")},
		{name: "JSON patch without its path, ignored", mutating: merged(jsonPatches("[JSONPatch{op: 'remove', path: '/data/none'}]"), ignore)},
		{name: "JSON patch replaces what is not there", mutating: jsonPatches("[JSONPatch{op: 'replace', path: '/data/none', value: 'x'}]")},
		{name: "JSON patch move and copy", mutating: jsonPatches("[JSONPatch{op: 'copy', from: '/data/v', path: '/data/w'}, JSONPatch{op: 'move', from: '/data/v', path: '/data/u'}]")},
		{name: "JSON patch with an escaped key", mutating: jsonPatches("[JSONPatch{op: 'add', path: '/metadata/labels', value: {}}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a~b'.replace('~', '')), value: 'x'}]")},
		{name: "JSON patch op is unknown", mutating: jsonPatches("[JSONPatch{op: 'bend', path: '/data/v', value: 'x'}]")},
		{name: "JSON patch of a number", mutating: jsonPatches("[JSONPatch{op: 'add', path: '/data/w', value: 1}]")},
		{name: "JSON patch of the name", mutating: jsonPatches("[JSONPatch{op: 'replace', path: '/metadata/name', value: 'other'}]")},
		{name: "JSON patch of an object", mutating: jsonPatches("[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.metadata.annotations{a: 'b'}}]")},
		{name: "mutation with a condition", mutating: merged(apply("Object{data: {'w': 'w'}}"), condition("object.data.v == 'y'"))},
		{name: "mutation with a condition that fails", mutating: merged(apply("Object{data: {'w': 'w'}}"), condition("object.data.missing == 'y'"))},
		{name: "mutation with variables", mutating: merged(apply("Object{data: {'w': variables.v}}"), named("v", "object.data.v + '?'"))},
		{name: "mutation with a param", mutating: merged(apply("Object{data: {'w': params.data.v}}"), kind), mutatingBinding: byName("p", "Deny"), params: map[string]object{"p": {"v": "of the param"}}},
		{name: "mutation with a missing param", mutating: merged(apply("Object{data: {'w': 'w'}}"), kind), mutatingBinding: byName("gone", "Deny")},
		{name: "mutation with a missing param, Allow", mutating: merged(apply("Object{data: {'w': 'w'}}"), kind), mutatingBinding: byName("gone", "Allow")},
		{name: "mutation of an update", mutating: apply("Object{data: {'w': oldObject.data.v}}"), method: "PUT", old: object{"v": "y"}},
		{name: "mutation of a deletion", mutating: apply("Object{data: {'w': 'w'}}"), method: "DELETE", old: object{"v": "y"}},
		{name: "mutation is validated", mutating: apply("Object{data: {'w': 'w'}}"), validating: checks("!has(object.data.w)")},
		{name: "mutation makes it valid", mutating: apply("Object{data: {'w': 'w'}}"), validating: checks("has(object.data.w)")},
		{name: "reinvoked", mutating: merged(jsonPatches("has(object.data.w) ? [JSONPatch{op: 'add', path: '/data/again', value: 'x'}] : [JSONPatch{op: 'add', path: '/data/first', value: 'x'}]"), object{"reinvocationPolicy": "IfNeeded"}),
			second: jsonPatches("[JSONPatch{op: 'add', path: '/data/w', value: 'w'}]")},
		{name: "not reinvoked", mutating: jsonPatches("has(object.data.w) ? [JSONPatch{op: 'add', path: '/data/again', value: 'x'}] : [JSONPatch{op: 'add', path: '/data/first', value: 'x'}]"),
			second: jsonPatches("[JSONPatch{op: 'add', path: '/data/w', value: 'w'}]")},
	}
}
