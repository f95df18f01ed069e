// Package reviews answers the kinds of authentication.k8s.io and authorization.k8s.io, which are
// asked by POST and stored nowhere: TokenReview, SelfSubjectReview, SubjectAccessReview,
// LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview.
package reviews
