package abitest

import "weir.dev/weir/abi"

// admissions are the clauses of the hooks of admission.
func admissions() []Clause {
	deletion := func(c *Call) {
		c.Meta.Operation = abi.OperationDelete
		c.Object, c.OldObject = "", c.Object
	}
	return []Clause{
		{
			Name: "params", Op: abi.OpAdmitMutate, Does: "sets spec.n to the integer at spec.most of the parameters",
			call: func(c *Call) {
				c.Params = `{"apiVersion":"example.com/v1","kind":"Limits","metadata":{"name":"limits"},"spec":{"most":7}}`
			},
			check: becomes(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"thing"},"spec":{"case":"params","filler":"","n":7}}`),
		},
		{
			Name: "no params", Op: abi.OpAdmitMutate, Does: "a warning with whether there are parameters, and one with whether there is an old object: true or false",
			check: warns("false", "false"),
		},
		{
			Name: "deletion", Op: abi.OpAdmitMutate, Does: "a warning with whether there is an object: true or false",
			call: deletion, check: warns("false"),
		},
		{
			Name: "namespace", Op: abi.OpAdmitValidate, Does: "a denial with the message metadata.name of the namespace, and neither code nor reason",
			call: func(c *Call) {
				c.Namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`
			},
			check: func(o Outcome) error {
				return want(o.Denied != nil && (o.Denied.Code == 0 || o.Denied.Code == 403) && o.Denied.Reason == "" && o.Denied.Message == "shop", o)
			},
		},
		{
			Name: "options", Op: abi.OpAdmitValidate, Does: "a warning with the string at fieldManager of the options",
			call:  func(c *Call) { c.Options = `{"fieldManager":"kubectl"}` },
			check: warns("kubectl"),
		},
		{
			Name: "deletion", Op: abi.OpAdmitValidate, Does: `an error of type Invalid, field "spec.case", with the JSON of that of the old object as value, and no detail`,
			call: deletion,
			check: func(o Outcome) error {
				return want(len(o.Errors) == 1 && o.Errors[0].Type == abi.ErrorTypeInvalid && o.Errors[0].Field == "spec.case" &&
					string(o.Errors[0].Value) == `"deletion"` && o.Errors[0].Detail == "", o)
			},
		},
	}
}

// sins are what a host has to stop, in the hook statusValidate.
func sins() []Clause {
	clauses := []Clause{
		{Name: "loop", Does: "never returns", fails: "fuel"},
		{Name: "recurse", Does: "calls itself without end", fails: "depth"},
		{Name: "grow", Does: "wants more memory without end, and traps when there is none", fails: "memory"},
		{Name: "flood", Does: "warnings of more than 262144 bytes together", fails: "bad_output"},
		{Name: "no path", Does: "asks for a path that does not parse, spec[, and fails", fails: "trap"},
		{
			Name: "log", Does: "logs 10,000 lines of 20 bytes, and is none the worse",
			check: func(o Outcome) error { return want(len(o.Errors) == 0 && o.Denied == nil, o) },
		},
		{
			Name: "remember", Does: "a warning with the number of earlier calls with this case that a variable, an object of the heap and grown memory know of, decimal",
			check: warns("0", "0", "0"),
		},
	}
	for i := range clauses {
		clauses[i].Op = abi.OpStatusValidate
	}
	return clauses
}
