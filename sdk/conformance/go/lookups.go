package main

import (
	"errors"
	"strconv"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
)

// limits is what most clauses look up of a ConfigMap.
type limits struct {
	Metadata weir.ObjectMeta `json:"metadata"`
	Data     struct {
		Most string `json:"most,omitempty"`
	} `json:"data"`
}

// labelled is a ConfigMap of which only the labels matter.
type labelled struct {
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
}

// whole is an object as it is.
type whole = map[string]any

func configMap(namespace, name string) weir.Ref {
	return weir.Ref{Resource: "configmaps", Namespace: namespace, Name: name}
}

// errnoOf is an errno in decimal, 0 if there is none.
func errnoOf(err error) string {
	var e abi.Errno
	_ = errors.As(err, &e)
	return strconv.Itoa(int(e))
}

// lookUp does what the clauses of look-ups say. Other errors than those that are
// asked for make the hook fail.
func lookUp(ctx *weir.Context, name string) []string {
	yes := strconv.FormatBool
	switch name {
	case "lookup one":
		obj := must(weir.Get[limits](ctx, configMap("shop", "limits")))
		// What the type has no field for is not asked for, and cannot be had.
		return []string{obj.Data.Most, obj.Metadata.ResourceVersion, yes(false)}
	case "lookup absent":
		_, err := weir.Get[limits](ctx, configMap("shop", "nothing"))
		return []string{yes(!errors.Is(err, weir.ErrNotFound))}
	case "lookup list":
		list := must(weir.List[limits](ctx, weir.Query{Resource: "configmaps", Namespace: "shop", Labels: "tier=gold"}))
		var warnings []string
		for _, obj := range list.Items {
			warnings = append(warnings, obj.Metadata.Name+"="+obj.Data.Most)
		}
		return append(warnings, yes(list.More))
	case "lookup limit":
		list := must(weir.List[limits](ctx, weir.Query{Resource: "configmaps", Namespace: "shop", Limit: 2}))
		var warnings []string
		for _, obj := range list.Items {
			warnings = append(warnings, obj.Metadata.Name)
		}
		return append(warnings, yes(list.More))
	case "lookup everywhere":
		var warnings []string
		for _, obj := range must(weir.List[labelled](ctx, weir.Query{Resource: "configmaps"})).Items {
			warnings = append(warnings, obj.Metadata.Namespace+"/"+obj.Metadata.Name)
		}
		return warnings
	case "lookup field selector":
		var warnings []string
		for _, obj := range must(weir.List[whole](ctx, weir.Query{Resource: "configmaps", Fields: "metadata.name=quota"})).Items {
			warnings = append(warnings, obj["data"].(whole)["most"].(string))
		}
		return warnings
	case "lookup large":
		obj := *must(weir.Get[whole](ctx, configMap("store", "large")))
		return []string{strconv.Itoa(len(obj["data"].(whole)["filler"].(string)))}
	case "lookup many":
		for i := 0; ; i++ {
			if _, err := weir.Get[limits](ctx, configMap("shop", "c"+strconv.Itoa(i))); !errors.Is(err, weir.ErrNotFound) {
				return []string{strconv.Itoa(i), errnoOf(err)}
			}
		}
	case "lookup ungranted":
		_, err := weir.Get[limits](ctx, weir.Ref{Resource: "secrets", Namespace: "shop", Name: "key"})
		return []string{errnoOf(err)}
	case "lookup bad selector":
		_, err := weir.List[limits](ctx, weir.Query{Resource: "configmaps", Namespace: "shop", Labels: "tier in ("})
		return []string{errnoOf(err)}
	case "lookup away":
		must(weir.Get[limits](ctx, configMap("away", "limits")))
	}
	return nil
}

// authorize does what the clauses of authorize say.
func authorize(ctx *weir.Context, name string) []string {
	get := weir.Access{Verb: "get", Resource: "configmaps", Namespace: "shop", Name: "limits"}
	allowed := func(a weir.Access) string { return strconv.FormatBool(must(weir.Authorize(ctx, a))) }
	switch name {
	case "authorize":
		remove := get
		remove.Verb = "delete"
		return []string{allowed(get), allowed(remove)}
	case "authorize account":
		scale := weir.Access{Verb: "delete", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "shop"}
		robot := scale
		robot.ServiceAccount = &weir.ServiceAccount{Namespace: "shop", Name: "robot"}
		return []string{allowed(robot), allowed(scale)}
	case "authorize path":
		return []string{allowed(weir.Access{Verb: "get", Path: "/healthz"}), allowed(weir.Access{Verb: "get", Path: "/metrics"})}
	case "authorize nothing":
		_, err := weir.Authorize(ctx, weir.Access{Verb: "get"})
		return []string{errnoOf(err)}
	case "authorize many":
		for i := 0; ; i++ {
			if _, err := weir.Authorize(ctx, get); err != nil {
				return []string{strconv.Itoa(i), errnoOf(err)}
			}
		}
	}
	return nil
}

// must is a value without an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
