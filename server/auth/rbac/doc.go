// Package rbac decides by roles and bindings (rbac.authorization.k8s.io/v1), with the rules of
// Kubernetes.
//
//   - Index holds the roles and bindings by subject. It follows the four resources in process and
//     publishes an immutable state after each change; a decision looks only at what
//     concerns its user. ClusterRoles with an aggregationRule are computed here.
//   - Authorizer decides, and says which rules a user has.
//   - Guard is the layer of the four kinds: validation, defaults, and that nobody grants what he has not
//     (verbs escalate and bind excepted).
package rbac
