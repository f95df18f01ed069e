// Package rego is the engine for Rego, on the evaluator of the Open Policy Agent.
//
// # What a policy says
//
// A policy is a set of modules and an entrypoint, the package or rule that is evaluated.
// The value of a package has these members, all optional; that of a rule is one of them.
//
//   - deny or violation: a set, array or object of strings, or of objects with msg (or
//     message) and any of field, reason, code and details. Each denies.
//   - warn: the same, for warnings.
//   - allow: a boolean. false denies; undefined denies too, where the policy has such a rule.
//     The message is that of the rule message, if it is a string.
//
// # What it reads
//
// input has the members object, oldObject, request, params, namespaceObject and settings.
// An Absent document is null. Only the members that the policy refers to are made, out of
// the tape of a document; Program.Reads tells which. Numbers keep their spelling.
//
// # What it may do
//
// Built-in functions that reach out (http.send, net.lookup_ip_addr), that are not
// deterministic (rand.intn, uuid.rfc4122, opa.runtime) or that cannot be bounded
// (graph.reachable_paths, regex.globs_match) do not exist. time.now_ns is the time of the
// request.
//
// # As a module
//
// CompileWasm makes a guest of package abi of a policy, which the host runs, bounds and
// reloads as any other. It is the faster way for one policy on an object that no other
// looks at; the evaluator is, where many share what was built of it, and has all functions.
//
// # Costs
//
// An evaluation is stopped after a number of steps, a deadline, or when what its functions
// make takes too much memory. A step is one expression that is evaluated, or a part of a
// function's work that grows with its arguments; the number is the same for the same
// documents. An evaluation that was stopped has no verdict but an error.
package rego
