package abi

// LookupRequest asks the lookup import for one object, or for a list of
// objects when Name is empty. As JSON it has at most [MaxLookupRequestBytes].
type LookupRequest struct {
	// Group and Resource name what is looked up, as in "lookup:deployments.apps":
	// group apps, resource deployments. The core group is "".
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// Namespace of the object or the list; empty for resources without
	// namespaces, and for a list in all of them. It need not be that of the
	// request: where a guest may look is the grant's to say.
	Namespace string `json:"namespace,omitempty"`
	// Name of the one object that is wanted.
	Name string `json:"name,omitempty"`
	// LabelSelector and FieldSelector of a list, spelled as in the query of
	// a list request: "app in (web,api),!old". A field selector knows
	// metadata.name, metadata.namespace and what the resource is selectable
	// by. With a name they are EINVAL.
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// Fields are the paths of members that are wanted, "spec.replicas" or
	// "metadata.annotations['example.com/team']", without wildcards and
	// indexes: an array is had whole. The objects of the answer have
	// apiVersion, kind, metadata.name, namespace, uid and resourceVersion,
	// and of the rest these fields only. No fields: whole objects.
	Fields []string `json:"fields,omitempty"`
	// Limit is the most objects of a list, at most and by default
	// [MaxLookupItems].
	Limit int `json:"limit,omitempty"`
}

// LookupResult is the answer of the lookup import, at most [MaxLookupBytes].
type LookupResult struct {
	// ResourceVersion of the state that was read: of the list, or of the one
	// object; empty if that is absent.
	ResourceVersion string `json:"resourceVersion"`
	// Items are the objects in the order of their namespaces and names, with
	// their members sorted. An object that is absent is no item.
	Items []RawJSON `json:"items"`
	// More tells that Limit left objects out.
	More bool `json:"more,omitempty"`
}

// AuthorizeRequest asks the authorize import whether the user of the request,
// or a service account, may do something. As JSON it has at most
// [MaxAuthorizeRequestBytes].
type AuthorizeRequest struct {
	// Verb is what is to be done: get, list, watch, create, update, patch,
	// delete or any other that rules can name. Required.
	Verb string `json:"verb"`
	// Group, Resource, Subresource, Namespace and Name say with what, as the
	// resourceAttributes of a SubjectAccessReview do.
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// Path is asked about in place of a resource: "/healthz". One of Path
	// and Resource is required, not both.
	Path string `json:"path,omitempty"`
	// ServiceAccount is asked about in place of the request's user.
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`
}

// ServiceAccount is the user system:serviceaccount:<namespace>:<name>.
type ServiceAccount struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}
