// Package offline judges requests by policies without a server that is running: what is said is said by the code of
// the server, as the policies, the resources and the kinds are those that it has.
//
// A [Workbench] has what takes time to make: the engines and the built-in resources. [Workbench.Compile] makes a [Set]
// of objects as they are in files: policies, bindings, params, definitions, modules and namespaces. [Set.Judge] judges
// an AdmissionRequest, however it came about.
package offline
