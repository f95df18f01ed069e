package filters

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/request"
)

// withImpersonation lets a user who may impersonate act as another (Impersonate-User, -Group, -Uid,
// -Extra-…). Each name is authorized by itself, verb impersonate.
func withImpersonation(handler http.Handler, authz authorizer.Authorizer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, wanted, err := impersonated(r.Header)
		if err != nil {
			reject(w, r, err)
			return
		}
		if asked == nil {
			handler.ServeHTTP(w, r)
			return
		}
		who, _ := request.UserFrom(r.Context())
		for _, attributes := range wanted {
			attributes.User, attributes.Verb, attributes.ResourceRequest = who, "impersonate", true
			if attributes.APIVersion == "" {
				attributes.APIVersion = "v1"
			}
			decision, reason, err := authz.Authorize(r.Context(), attributes)
			if decision != authorizer.DecisionAllow {
				if err != nil && reason == "" {
					reason = err.Error()
				}
				reject(w, r, request.NewForbidden(attributes, reason))
				return
			}
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "Impersonate-") {
				r.Header.Del(name)
			}
		}
		audit.LogImpersonatedUser(r.Context(), asked, "")
		handler.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), asked)))
	})
}

// impersonated reads the headers: who is asked for, and what must be authorized. Nil without a header.
func impersonated(header http.Header) (*user.DefaultInfo, []authorizer.AttributesRecord, error) {
	name := header.Get(authenticationv1.ImpersonateUserHeader)
	groups := header.Values(authenticationv1.ImpersonateGroupHeader)
	uid := header.Get(authenticationv1.ImpersonateUIDHeader)
	extra := map[string][]string{}
	for key, values := range header {
		if rest, ok := strings.CutPrefix(key, authenticationv1.ImpersonateUserExtraHeaderPrefix); ok {
			unescaped, err := url.PathUnescape(strings.ToLower(rest))
			if err != nil {
				unescaped = strings.ToLower(rest)
			}
			extra[unescaped] = append(extra[unescaped], values...)
		}
	}
	if name == "" {
		if len(groups) > 0 || uid != "" || len(extra) > 0 {
			return nil, nil, apierrors.NewBadRequest("requested to impersonate a group, uid or extra without a user: add the header Impersonate-User")
		}
		return nil, nil, nil
	}
	var wanted []authorizer.AttributesRecord
	asked := &user.DefaultInfo{Name: name, UID: uid, Groups: groups, Extra: extra}
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		wanted = append(wanted, authorizer.AttributesRecord{Resource: "serviceaccounts", Namespace: namespace, Name: account})
		if len(groups) == 0 {
			asked.Groups = serviceaccount.MakeGroupNames(namespace)
		}
	} else {
		wanted = append(wanted, authorizer.AttributesRecord{Resource: "users", Name: name})
	}
	for _, group := range groups {
		wanted = append(wanted, authorizer.AttributesRecord{Resource: "groups", Name: group})
	}
	if uid != "" {
		wanted = append(wanted, authorizer.AttributesRecord{APIGroup: authenticationv1.SchemeGroupVersion.Group, Resource: "uids", Name: uid})
	}
	for key, values := range extra {
		for _, value := range values {
			wanted = append(wanted, authorizer.AttributesRecord{
				APIGroup: authenticationv1.SchemeGroupVersion.Group, Resource: "userextras", Subresource: key, Name: value})
		}
	}
	asked.Groups = withImplied(name, asked.Groups)
	return asked, wanted, nil
}

// withImplied adds the group of all who are authenticated, or for system:anonymous that of all who are not. Whoever
// is asked to be unauthenticated does not become authenticated.
func withImplied(name string, groups []string) []string {
	implied := user.AllAuthenticated
	if name == user.Anonymous {
		implied = user.AllUnauthenticated
	}
	if slices.Contains(groups, implied) || slices.Contains(groups, user.AllUnauthenticated) {
		return groups
	}
	return append(slices.Clone(groups), implied)
}
