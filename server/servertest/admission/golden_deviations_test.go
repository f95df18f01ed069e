package admission

// deviation is an answer that differs from kube-apiserver's, and why it is meant to.
type deviation struct{ ours, reason string }

const (
	ownWords = "the words of an error are this server's; who reads them learns the same"
	identity = "a policy that changes what an object is called is told so, where kube-apiserver drops the change"
)

// deviations by the name of the case.
var deviations = map[string]deviation{
	"two validations fail": {`422 Invalid: configmaps "x" is forbidden: ValidatingAdmissionPolicy 'NAMESPACE' with binding 'NAMESPACE' denied request: first | causes ValidatingAdmissionPolicy 'NAMESPACE' with binding 'NAMESPACE' denied request: first; ValidatingAdmissionPolicy 'NAMESPACE' with binding 'NAMESPACE' denied request: second`,
		"all validations that failed are causes, not the first alone"},
	"cost of an expression": {`422 Invalid: configmaps "x" is forbidden: ValidatingAdmissionPolicy 'NAMESPACE' with binding 'NAMESPACE' denied request: expression 'lists.range(1000).all(i, lists.range(1000).all(j, i >= 0 && j >= 0))' resulted in error: cost limit exceeded: expression used 1000001 of 1000000 | causes ValidatingAdmissionPolicy 'NAMESPACE' with binding 'NAMESPACE' denied request: expression 'lists.range(1000).all(i, lists.range(1000).all(j, i >= 0 && j >= 0))' resulted in error: cost limit exceeded: expression used 1000001 of 1000000`,
		"the error says what was used and what the limit is"},
	"apply configuration of an unknown field": {"403 Invalid: policy 'NAMESPACE' with binding 'NAMESPACE' denied request: error applying patch: configuration does not fit the kind: .spec: field not declared in schema | causes policy 'NAMESPACE' with binding 'NAMESPACE' denied request: error applying patch: configuration does not fit the kind: .spec: field not declared in schema",
		ownWords},
	"apply configuration of a wrong type": {"403 Invalid: policy 'NAMESPACE' with binding 'NAMESPACE' denied request: error applying patch: configuration does not fit the kind: .data.w: expected string, got &value.valueUnstructured{Value:1} | causes policy 'NAMESPACE' with binding 'NAMESPACE' denied request: error applying patch: configuration does not fit the kind: .data.w: expected string, got &value.valueUnstructured{Value:1}",
		ownWords},
	"apply configuration of the name": {"403 Invalid: policy 'NAMESPACE' with binding 'NAMESPACE' denied request: metadata.name may not be changed | causes policy 'NAMESPACE' with binding 'NAMESPACE' denied request: metadata.name may not be changed",
		identity},
	"JSON patch of the name": {"403 Invalid: policy 'NAMESPACE' with binding 'NAMESPACE' denied request: metadata.name may not be changed | causes policy 'NAMESPACE' with binding 'NAMESPACE' denied request: metadata.name may not be changed",
		identity},
	"JSON patch without its path": {"403 Invalid: policy 'NAMESPACE' with binding 'NAMESPACE' denied request: JSON Patch: operation 0: /data/none does not exist | causes policy 'NAMESPACE' with binding 'NAMESPACE' denied request: JSON Patch: operation 0: /data/none does not exist",
		ownWords},
	"JSON patch op is unknown": {`403 Invalid: policy 'NAMESPACE' with binding 'NAMESPACE' denied request: JSON Patch: operation 0: op "bend" does not exist | causes policy 'NAMESPACE' with binding 'NAMESPACE' denied request: JSON Patch: operation 0: op "bend" does not exist`,
		ownWords},
	"JSON patch of a number": {`422 Invalid: ConfigMap "x" is invalid: data.w: Invalid value: "integer": data.w in body must be of type string: "integer" | causes FieldValueTypeInvalid data.w Invalid value: "integer": data.w in body must be of type string: "integer"`,
		"what a policy makes of an object is validated as what a client sends, and is no error of the server"},
	"not reinvoked": {`201 | data {"first":"x","v":"x","w":"w"}`,
		"policies run in the order of their names; that of kube-apiserver is not said anywhere"},
	"policy: params without a kind": {"422 Invalid | causes FieldValueRequired spec.paramKind",
		"what is missing is the kind; upstream says of each expression that params is not declared"},
	"policy: variable twice": {"422 Invalid | causes FieldValueInvalid spec.variables[1].name",
		"which of the two an expression would get is not said anywhere, and an apply refuses the list"},
	"mutation: variable twice": {"422 Invalid | causes FieldValueInvalid spec.variables[1].name",
		"as of a validating policy"},
	"mutation: operation DELETE": {"422 Invalid | causes FieldValueNotSupported spec.matchConstraints.resourceRules[0].operations[0]",
		"the path is that of the operation"},
	"mutation binding: operation unknown": {"422 Invalid | causes FieldValueNotSupported spec.matchResources.resourceRules[0].operations[0]",
		"one mistake is one cause"},
}
