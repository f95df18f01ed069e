package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/sdk/cases"
)

// lookups sets what a call can look up, and what the user may do.
func (f *runFlags) lookups(call *host.Call) error {
	var all []*document.Document
	for _, name := range f.objects {
		file, err := filepath.Abs(name)
		if err != nil {
			return fmt.Errorf("--objects: %w", err)
		}
		docs, err := cases.LoadObjects(os.DirFS(filepath.Dir(file)), filepath.Base(file))
		if err != nil {
			return fmt.Errorf("--objects: %w", err)
		}
		all = append(all, docs...)
	}
	objects, err := lookup.NewObjects(all...)
	if err != nil {
		return fmt.Errorf("--objects: %w", err)
	}
	var allowed lookup.Allowed
	for _, text := range f.allow {
		a, err := parseAllow(text)
		if err != nil {
			return fmt.Errorf("--allow: %w", err)
		}
		allowed = append(allowed, a)
	}
	call.Lookuper, call.Authorizer = objects, allowed
	return nil
}

// parseAllow reads VERB:RESOURCE[.GROUP], or VERB:/PATH.
func parseAllow(text string) (abi.AuthorizeRequest, error) {
	verb, what, ok := strings.Cut(text, ":")
	if !ok || verb == "" || what == "" {
		return abi.AuthorizeRequest{}, fmt.Errorf("%q is not VERB:RESOURCE[.GROUP], as in use:quotas.example.com", text)
	}
	if what[0] == '/' {
		return abi.AuthorizeRequest{Verb: verb, Path: what}, nil
	}
	resource, group, _ := strings.Cut(what, ".")
	return abi.AuthorizeRequest{Verb: verb, Resource: resource, Group: group}, nil
}
