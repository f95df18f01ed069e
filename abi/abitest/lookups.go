package abitest

import (
	"fmt"
	"strings"

	"weir.dev/weir/abi"
)

// Capabilities are what a conformance guest asks for that looks things up, and
// what the [Host] grants: it answers from [Objects], and authorizes what is in
// [Allowed]. Guests that do not ask are spared these clauses.
func Capabilities() []string {
	return []string{abi.LookupCapability("", "configmaps"), abi.CapabilityAuthorize}
}

// AwayNamespace is a namespace of which the host cannot look anything up now.
const AwayNamespace = "away"

// Objects are all there are, in JSON.
func Objects() []string {
	configMap := func(namespace, name, tier, most string, rv int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","data":{"filler":"x","most":%q},"kind":"ConfigMap","metadata":{"labels":{"tier":%q},"name":%q,"namespace":%q,"resourceVersion":"%d","uid":"uid-%d"}}`,
			most, tier, name, namespace, rv, rv)
	}
	return []string{
		configMap("shop", "limits", "gold", "7", 12),
		configMap("shop", "other", "silver", "1", 13),
		configMap("shop", "quota", "gold", "9", 14),
		strings.Replace(configMap("store", "large", "gold", "5", 15), `"filler":"x"`, `"filler":"`+strings.Repeat("x", fillerBytes)+`"`, 1),
	}
}

// Allowed is what the user of each [Call], jane, and the service account robot
// of the namespace shop may do.
func Allowed() []abi.AuthorizeRequest {
	return []abi.AuthorizeRequest{
		{Verb: "get", Resource: "configmaps", Namespace: "shop", Name: "limits"},
		{Verb: "get", Path: "/healthz"},
		{Verb: "delete", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "shop", ServiceAccount: &abi.ServiceAccount{Namespace: "shop", Name: "robot"}},
	}
}

// lookups are the clauses of what a guest can look up, in the hook
// warningsOnCreate.
func lookups() []Clause {
	lookup, authorize := abi.LookupCapability("", "configmaps"), abi.CapabilityAuthorize
	clauses := []Clause{
		{
			Name: "lookup one", needs: lookup,
			Does:  "looks up the field data.most of the configmap limits in the namespace shop: warnings with the string at data.most, with metadata.resourceVersion, and with whether there is a value at data.filler: true or false",
			check: warns("7", "12", "false"),
		},
		{
			Name: "lookup absent", needs: lookup,
			Does:  "looks up the configmap nothing in the namespace shop: a warning with whether there is one: true or false",
			check: warns("false"),
		},
		{
			Name: "lookup list", needs: lookup,
			Does:  "lists the field data.most of the configmaps in the namespace shop whose label tier is gold: a warning name=most for each, in order, and one with whether there are more: true or false",
			check: warns("limits=7", "quota=9", "false"),
		},
		{
			Name: "lookup limit", needs: lookup,
			Does:  "lists at most 2 of the configmaps in the namespace shop: a warning with the name of each, and one with whether there are more: true or false",
			check: warns("limits", "other", "true"),
		},
		{
			Name: "lookup everywhere", needs: lookup,
			Does:  "lists the field metadata.labels of all configmaps in all namespaces: a warning namespace/name for each",
			check: warns("shop/limits", "shop/other", "shop/quota", "store/large"),
		},
		{
			Name: "lookup field selector", needs: lookup,
			Does:  "lists whole configmaps in all namespaces by the field selector metadata.name=quota: a warning with data.most of each",
			check: warns("9"),
		},
		{
			Name: "lookup large", needs: lookup,
			Does:  "looks up the whole configmap large in the namespace store: a warning with the length of the string data.filler in bytes, decimal",
			check: warns(fmt.Sprint(fillerBytes)),
		},
		{
			Name: "lookup many", needs: lookup,
			Does:  "looks up the configmaps c0, c1 and so on in the namespace shop until one is refused: warnings with the number of those that were not, and with the errno of the refusal, both decimal",
			check: warns(fmt.Sprint(abi.MaxLookups), fmt.Sprint(int(abi.E2BIG))),
		},
		{
			Name: "lookup ungranted", needs: lookup,
			Does:  "looks up the secret key in the namespace shop: a warning with the errno, decimal",
			check: warns(fmt.Sprint(int(abi.EPERM))),
		},
		{
			Name: "lookup bad selector", needs: lookup,
			Does:  `lists the configmaps in the namespace shop by the label selector "tier in (": a warning with the errno, decimal`,
			check: warns(fmt.Sprint(int(abi.EINVAL))),
		},
		{
			Name: "lookup away", needs: lookup, fails: "not_ready",
			Does: "looks up the configmap limits in the namespace away",
		},
		{
			Name: "authorize", needs: authorize,
			Does:  "warnings with whether the user may get, and may delete, the configmap limits in the namespace shop: true or false",
			check: warns("true", "false"),
		},
		{
			Name: "authorize account", needs: authorize,
			Does:  "a warning with whether the service account robot in the namespace shop may delete the subresource scale of the deployments of the group apps in the namespace shop, and one with whether the user may: true or false",
			check: warns("true", "false"),
		},
		{
			Name: "authorize path", needs: authorize,
			Does:  "warnings with whether the user may get the paths /healthz and /metrics: true or false",
			check: warns("true", "false"),
		},
		{
			Name: "authorize nothing", needs: authorize,
			Does:  "asks whether the user may get, with neither resource nor path: a warning with the errno, decimal",
			check: warns(fmt.Sprint(int(abi.EINVAL))),
		},
		{
			Name: "authorize many", needs: authorize,
			Does:  "asks whether the user may get the configmap limits in the namespace shop until that is refused: warnings with the number of answers, and with the errno of the refusal, both decimal",
			check: warns(fmt.Sprint(abi.MaxAuthorize), fmt.Sprint(int(abi.E2BIG))),
		},
	}
	for i := range clauses {
		clauses[i].Op, clauses[i].object = abi.OpWarningsOnCreate, rich(clauses[i].Name)
	}
	return clauses
}
