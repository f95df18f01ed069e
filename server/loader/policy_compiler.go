package loader

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// PolicyCompilerConfig says what a PolicyCompiler compiles with.
type PolicyCompilerConfig struct {
	Engines policies.Engines
	// Rego compiles policies in Rego; nil: there are none.
	Rego RegoCompiler
	// Guest returns the module of a name, configured with settings, and its digest. The PolicyCompiler does not acquire
	// it. Nil: there are no modules.
	Guest func(name string, settings json.RawMessage) (module *extension.SharedModule, digest string, err error)
}

// PolicyCompiler makes of policies and bindings what a Loader makes of them, without a server. One goroutine uses it.
type PolicyCompiler struct {
	cfg PolicyCompilerConfig
	set *policySet
}

// NewPolicyCompiler returns one that knows no policies.
func NewPolicyCompiler(cfg PolicyCompilerConfig) *PolicyCompiler {
	if cfg.Guest == nil {
		cfg.Guest = func(name string, _ json.RawMessage) (*extension.SharedModule, string, error) {
			return nil, "", fmt.Errorf("no Module %q exists", name)
		}
	}
	return &PolicyCompiler{cfg: cfg, set: newPolicySet(cfg.Engines)}
}

// PolicyResourceOf returns the resource that holds the policies or bindings of a kind. ok is false for other kinds.
func PolicyResourceOf(apiVersion, kind string) (gr schema.GroupResource, ok bool) {
	group := schema.FromAPIVersionAndKind(apiVersion, kind).Group
	switch {
	case group == weirPolicies.Group && kind == "Policy":
		return weirPolicies, true
	case group == weirBindings.Group && kind == "PolicyBinding":
		return weirBindings, true
	case group == admissionGroup:
		return policyResourceOf(kind)
	}
	return gr, false
}

// CheckPolicyKind refuses what can only be a policy or binding whose kind or group is misspelt. The other kinds of these
// groups pass.
func CheckPolicyKind(apiVersion, kind string) error {
	group := schema.FromAPIVersionAndKind(apiVersion, kind).Group
	if _, ok := PolicyResourceOf(apiVersion, kind); ok {
		return nil
	}
	switch group {
	case admissionGroup:
		switch kind {
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			return nil
		}
		return fmt.Errorf("there is no kind %q in %s: the policies there are ValidatingAdmissionPolicy and MutatingAdmissionPolicy, each with its Binding", kind, apiVersion)
	case weirPolicies.Group:
		switch kind {
		case "Module", "PolicyImpact", "Strategy":
			return nil
		}
		return fmt.Errorf("there is no kind %q in %s: there are Module, Policy, PolicyBinding, PolicyImpact and Strategy", kind, apiVersion)
	}
	if _, ok := policyResourceOf(kind); ok {
		return fmt.Errorf("there is no kind %q in %s: it is of %s/v1", kind, apiVersion, admissionGroup)
	}
	return nil
}

// HoldsPolicies reports whether a resource of PolicyResources holds policies, and not bindings. kind is that of the
// policies, of bindings too.
func HoldsPolicies(gr schema.GroupResource) (kind string, ok bool) {
	return policyKind(gr), holdsPolicies(gr)
}

// Add adds a policy or binding, with its defaults. A policy that does not compile is added all the same: its failure
// policy decides. The error is then why, policies.Issues where its texts are at fault.
func (c *PolicyCompiler) Add(obj *document.Document) error {
	gr, ok := PolicyResourceOf(obj.Get("apiVersion").String(), obj.Get("kind").String())
	if !ok {
		return fmt.Errorf("%s is neither a policy nor a binding", obj.Get("kind").String())
	}
	name := rest.MetaOf(obj).Name()
	switch {
	case name == "":
		return errors.New("metadata.name is required")
	case slices.Contains(c.set.names(gr), name):
		return errors.New("is there twice")
	}
	switch gr {
	case weirPolicies:
		from, err := decodePolicy(obj)
		if err != nil {
			return err
		}
		made, err := makeWeirPolicy(from, policyParts{engines: c.cfg.Engines, rego: c.cfg.Rego, guest: c.cfg.Guest})
		c.set.policies[policyKey{policyKind(gr), name}] = &made
		return err
	case weirBindings:
		from := &v1alpha1.PolicyBinding{}
		if err := json.Unmarshal(obj.Bytes(), from); err != nil {
			return fmt.Errorf("not a PolicyBinding: %w", err)
		}
		c.set.bindings[policyKey{policyKind(gr), name}] = &bindingState{policy: from.Spec.PolicyName, binding: weirBinding(from)}
		return nil
	}
	_, err := c.set.apply(gr, obj)
	return err
}

// InForce returns the policies with their bindings.
func (c *PolicyCompiler) InForce() []*policy.Policy { return c.set.inForce() }

// DefinitionOf returns the definition of the resource of a CustomResourceDefinition under the names that it asks for.
func DefinitionOf(crd *apiextensionsv1.CustomResourceDefinition) (*resources.Definition, error) {
	return definitionOf(crd, crd.Spec.Names)
}
