// Package request holds what the filters learn of a request and put in its
// context: its RequestInfo and user (those of k8s.io/apiserver, so that bought
// authenticators and authorizers work), and what Weir adds.
package request

import (
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Info is what the path and the query say: verb, group, version, resource, name.
type Info = apirequest.RequestInfo

// The accessors of k8s.io/apiserver/pkg/endpoints/request, under the name of this package.
var (
	WithInfo      = apirequest.WithRequestInfo
	InfoFrom      = apirequest.RequestInfoFrom
	WithUser      = apirequest.WithUser
	UserFrom      = apirequest.UserFrom
	WithNamespace = apirequest.WithNamespace
	NamespaceFrom = apirequest.NamespaceFrom
)
