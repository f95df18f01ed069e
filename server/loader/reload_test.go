package loader_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// demands is a layer that only lets objects pass whose data.v has a value.
func demands(v string) map[string]any {
	return map[string]any{"cel": map[string]any{"validations": []any{map[string]any{
		"expression": fmt.Sprintf("object.data.v == %q", v), "message": "v must be " + v, "fieldPath": "data.v"}}}}
}

// Contract 4: policies, bindings, CRDs and strategies are read-your-writes.
func TestStrategyIsInForceWhenItIsWritten(t *testing.T) {
	f := start(t)
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	for i := range rounds {
		now, before := fmt.Sprint("v", i), fmt.Sprint("v", i-1)
		f.put(t, strategies, onConfigMaps(demands(now)))
		if _, err := f.write(t, now); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if _, err := f.write(t, before); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "v must be "+now) {
			t.Fatalf("round %d: the rule before it is still in force: %v", i, err)
		}
	}
	for i := range 20 {
		f.put(t, strategies, onConfigMaps(demands("x")))
		if _, err := f.write(t, ""); !apierrors.IsInvalid(err) {
			t.Fatalf("round %d: created and not in force: %v", i, err)
		}
		remove := func() error {
			return f.client.Resource(strategies).Delete(t.Context(), "configmaps", metav1.DeleteOptions{})
		}
		if i%2 == 1 {
			remove = func() error {
				return f.client.Resource(strategies).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=configmaps"})
			}
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.write(t, ""); err != nil {
			t.Fatalf("round %d: deleted and still in force: %v", i, err)
		}
	}
}

func TestDefinitionIsServedWhenItIsWritten(t *testing.T) {
	f := start(t)
	for i := range 20 {
		plural := fmt.Sprintf("things%d", i)
		f.put(t, crds, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural+".example.com", map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "kind": fmt.Sprintf("Thing%d", i)},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		}))
		things := crds
		things.Group, things.Resource = "example.com", plural
		if _, err := f.client.Resource(things).Namespace("default").Create(t.Context(),
			object("example.com/v1", fmt.Sprintf("Thing%d", i), "one", nil), metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", plural, err)
		}
		if err := f.client.Resource(crds).Delete(t.Context(), plural+".example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.Resource(things).Namespace("default").Create(t.Context(),
			object("example.com/v1", fmt.Sprintf("Thing%d", i), "two", nil), metav1.CreateOptions{}); err == nil {
			t.Fatalf("%s: created while its definition is being deleted", plural)
		}
	}
}

func TestModuleGoesIntoForce(t *testing.T) {
	f := start(t)
	got := f.ready(t, modules, module("stamp", inline(stamp("v001"))))
	for _, kind := range []string{"Fetched", "Verified", "Compiled", "Ready"} {
		if c := condition(got, kind); c.Status != metav1.ConditionTrue || c.LastTransitionTime.IsZero() {
			t.Errorf("condition %s is %+v", kind, c)
		}
	}
	hooks, _, _ := unstructured.NestedStringSlice(got.Object, "status", "hooks")
	if strings.Join(hooks, " ") != "prepareForCreate prepareForUpdate validateCreate validateUpdate" {
		t.Errorf("status.hooks is %q", hooks)
	}
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	f.ready(t, modules, module("stamp", inline(stamp("v002"))))
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves when the module is ready, want v002", v)
	}
}

// A strategy may come before its module; it is in force when the module is.
func TestStrategyBeforeItsModule(t *testing.T) {
	f := start(t)
	f.put(t, strategies, onConfigMaps(calls("stamp")))
	got := f.settled(t, strategies, "configmaps")
	if c := condition(got, "Ready"); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, `no Module "stamp" exists`) {
		t.Errorf("Ready is %+v", c)
	}
	if v := f.serves(t); v != "" {
		t.Errorf("%q serves", v)
	}
	f.ready(t, modules, module("stamp", inline(stamp("v001"))))
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	f.until(t, f.client.Resource(strategies), "configmaps", func(obj *unstructured.Unstructured) bool {
		return condition(obj, "Ready").Status == metav1.ConditionTrue
	})
}

func TestLayersAndSettings(t *testing.T) {
	f := start(t)
	f.ready(t, modules, module("sayer", inline(sayer())))
	f.ready(t, modules, module("stamp", inline(stamp("v001"))))
	f.ready(t, strategies, onConfigMaps(
		callsWith("sayer", map[string]any{"say": "one"}), calls("stamp"), callsWith("sayer", map[string]any{"say": "two"}),
		callsWith("sayer", map[string]any{"say": "one"})))
	if got := f.warnings(t); got != "one, two" { // the same one twice is sent once
		t.Errorf("warnings are %q", got)
	}
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	// Each module without settings, and the sayer with two.
	f.loaded(t, 4)
	f.ready(t, strategies, onConfigMaps(callsWith("sayer", map[string]any{"say": "three"})))
	if got := f.warnings(t); got != "three" {
		t.Errorf("warnings are %q", got)
	}
	f.loaded(t, 3)
	// Settings that the module refuses change nothing.
	f.put(t, strategies, onConfigMaps(callsWith("sayer", map[string]any{"bad": true})))
	got := f.settled(t, strategies, "configmaps")
	if c := condition(got, "Ready"); c.Reason != "LastKnownGood" || !strings.Contains(c.Message, "these settings are bad") {
		t.Errorf("Ready is %+v", c)
	}
	if n, _, _ := unstructured.NestedInt64(got.Object, "status", "inForce"); n != 2 {
		t.Errorf("status.inForce is %d, want 2", n)
	}
	if got := f.warnings(t); got != "three" {
		t.Errorf("warnings are %q", got)
	}
}

func TestModuleDeletedWhileUsed(t *testing.T) {
	f := start(t)
	f.ready(t, modules, module("stamp", inline(stamp("v001"))))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	if err := f.client.Resource(modules).Delete(t.Context(), "stamp", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := f.until(t, f.client.Resource(strategies), "configmaps", func(obj *unstructured.Unstructured) bool {
		return condition(obj, "Ready").Status == metav1.ConditionFalse
	})
	if c := condition(got, "Ready"); c.Reason != "LastKnownGood" || !strings.Contains(c.Message, `no Module "stamp" exists`) {
		t.Errorf("Ready is %+v", c)
	}
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves after the module was deleted, want v001", v)
	}
	// Nothing is left of it after a restart: writes cannot be checked.
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.refuses(t, `no Module "stamp" exists`)
	f.ready(t, modules, module("stamp", inline(stamp("v002"))))
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves when the module is back, want v002", v)
	}
}
