// Package audit writes the audit log: who asked for what, when, and what came of it, as the policy of an operator says
// (audit.k8s.io/v1). Policy, events and backends are kube-apiserver's own, of k8s.io/apiserver, so that a policy and the
// tools that read a log are good for both.
//
// [Open] reads the policy and opens what events are written to. A filter calls [Audit.Begin] for each request and tells
// the [Request] it gets of the stages; endpoints tell it of objects, by [From]. Annotations come from anywhere, by
// k8s.io/apiserver/pkg/audit.AddAuditAnnotation.
//
// Without a policy there is no Audit, and a request has no Request: nothing is allocated for it.
package audit
