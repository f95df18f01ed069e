package server_test

import (
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"weir.dev/weir/server/servertest"
)

// things are objects of a definition that changes.
type things struct {
	*testing.T
	definitions apiextensionsclient.CustomResourceDefinitionInterface
	objects     dynamic.Interface
}

// thingVersion is a version whose spec has fields of type string.
func thingVersion(name string, storage bool, fields ...string) apiextensionsv1.CustomResourceDefinitionVersion {
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, f := range fields {
		spec.Properties[f] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}}}
}

func newThings(t *testing.T, versions ...apiextensionsv1.CustomResourceDefinitionVersion) things {
	env := servertest.Start(t, servertest.Options{})
	config := rest.CopyConfig(env.RESTConfig())
	config.ContentType = "application/json"
	s := things{t, apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions(), dynamic.NewForConfigOrDie(env.RESTConfig())}
	_, err := s.definitions.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Versions: versions,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// change gives the definition other versions.
func (s things) change(versions ...apiextensionsv1.CustomResourceDefinitionVersion) {
	s.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		definition, err := s.definitions.Get(s.Context(), "things.example.com", metav1.GetOptions{})
		if err == nil {
			definition.Spec.Versions = versions
			_, err = s.definitions.Update(s.Context(), definition, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

func (s things) of(version string) dynamic.ResourceInterface {
	return s.objects.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "things"}).Namespace("default")
}

// create makes an object whose spec has the value x in some fields.
func (s things) create(version, name string, fields ...string) {
	s.Helper()
	spec := map[string]any{}
	for _, f := range fields {
		spec[f] = "x"
	}
	_, err := s.of(version).Create(s.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s things) watch(version, fieldSelector string) watch.Interface {
	s.Helper()
	w, err := s.of(version).Watch(s.Context(), metav1.ListOptions{FieldSelector: fieldSelector})
	if err != nil {
		s.Fatalf("watch of %s: %v", version, err)
	}
	s.Cleanup(w.Stop)
	return w
}

// next returns the object of the next event, nil where the watch has ended.
func (s things) next(w watch.Interface) *unstructured.Unstructured {
	s.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			return nil
		}
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			s.Fatalf("event %v", event)
		}
		return obj
	case <-time.After(awaitTimeout):
		s.Fatal("no event")
	}
	return nil
}

// TestWatchOutlivesDefinition: a watch that is open while the definition changes shows what is written then with all its fields, and
// in its own version. Who updates an object by what an informer has seen would remove the others.
func TestWatchOutlivesDefinition(t *testing.T) {
	s := newThings(t, thingVersion("v1", true, "a"), thingVersion("v2", false, "a"))
	watches := map[watch.Interface]string{s.watch("v1", ""): "v1", s.watch("v2", ""): "v2"}
	check := func(name string, fields ...string) {
		t.Helper()
		s.create("v2", name, fields...)
		for w, version := range watches {
			obj := s.next(w)
			if obj == nil {
				delete(watches, w) // its client begins another
				continue
			}
			spec, _, err := unstructured.NestedStringMap(obj.Object, "spec")
			if obj.GetName() != name || obj.GetAPIVersion() != "example.com/"+version || err != nil || slices.ContainsFunc(fields, func(f string) bool { return spec[f] != "x" }) {
				t.Errorf("a watch of %s shows %v, want %q with the fields %q", version, obj, name, fields)
			}
		}
	}
	check("first", "a")
	s.change(thingVersion("v1", true, "a", "b"), thingVersion("v2", false, "a", "b"))
	check("second", "a", "b")
	watches[s.watch("v1", "metadata.name!=first,metadata.name!=second")] = "v1"
	watches[s.watch("v2", "metadata.name!=first,metadata.name!=second")] = "v2"
	s.change(thingVersion("v1", true, "a", "b", "c"), thingVersion("v2", false, "a", "b", "c"))
	check("third", "a", "b", "c")
	s.change(thingVersion("v1", false, "a", "b", "c", "d"), thingVersion("v2", true, "a", "b", "c", "d"))
	check("fourth", "a", "b", "c", "d")
}

// TestSelectableFieldsOfVersions: versions may have other selectable fields than each other, and are listed and watched alike.
func TestSelectableFieldsOfVersions(t *testing.T) {
	one, two := thingVersion("v1", true, "a", "b"), thingVersion("v2", false, "a", "b", "c")
	one.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}}
	two.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.b"}}
	s := newThings(t, one, two)
	s.create("v1", "other")
	s.create("v1", "selected", "a", "b")
	for version, selector := range map[string]string{"v1": "spec.a=x", "v2": "spec.b=x"} {
		list, err := s.of(version).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("list of %s: %v, %v", version, list, err)
		}
		if obj := s.next(s.watch(version, selector)); obj == nil || obj.GetName() != "selected" {
			t.Errorf("watch of %s: %v", version, obj)
		}
		for _, other := range []string{"spec.a=x", "spec.b=x"} {
			if _, err := s.of(version).List(t.Context(), metav1.ListOptions{FieldSelector: other}); (err == nil) != (other == selector) {
				t.Errorf("list of %s by %s: %v", version, other, err)
			}
		}
	}
}

// TestSelectedByDefault: an object that was stored before a field had a default is shown with it, and selected by it.
func TestSelectedByDefault(t *testing.T) {
	version := func(value string) apiextensionsv1.CustomResourceDefinitionVersion {
		v := thingVersion("v1", true, "a")
		v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}}
		if value != "" {
			v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"] = apiextensionsv1.JSONSchemaProps{
				Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"` + value + `"`)}}
		}
		return v
	}
	s := newThings(t, version(""))
	s.create("v1", "old")
	for _, value := range []string{"red", "blue"} {
		s.change(version(value))
		for selector, want := range map[string]int{"spec.a=" + value: 1, "spec.a=": 0} {
			list, err := s.of("v1").List(t.Context(), metav1.ListOptions{FieldSelector: selector})
			if err != nil || len(list.Items) != want {
				t.Errorf("default %s: list by %s: %v, %v, want %d", value, selector, list, err, want)
			}
		}
		if obj := s.next(s.watch("v1", "spec.a="+value)); obj == nil || obj.GetName() != "old" {
			t.Errorf("default %s: watch: %v", value, obj)
		}
	}
}

// TestSelectedAsShown: an object is selected by a field that its version shows, also where the version that is stored now lacks the
// field.
func TestSelectedAsShown(t *testing.T) {
	one, two := thingVersion("v1", false, "a"), thingVersion("v2", true, "a", "b")
	one.Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"] = apiextensionsv1.JSONSchemaProps{
		Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}}
	two.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.b"}}
	s := newThings(t, one, two)
	s.create("v2", "old", "b")
	one.Storage, two.Storage = true, false
	s.change(one, two)
	list, err := s.of("v2").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.b=x"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	if obj := s.next(s.watch("v2", "spec.b=x")); obj == nil || obj.GetName() != "old" {
		t.Errorf("watch: %v", obj)
	}
}

// TestDefaultOfStorageVersion: what is created in one version has the defaults of the version that is stored, in each version, and
// is selected by them, as upstream.
func TestDefaultOfStorageVersion(t *testing.T) {
	one, two := thingVersion("v1", true, "a"), thingVersion("v2", false, "a", "b")
	one.Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"] = apiextensionsv1.JSONSchemaProps{
		Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}}
	one.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}}
	two.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}, {JSONPath: ".spec.b"}}
	s := newThings(t, one, two)
	s.create("v2", "new")
	for _, version := range []string{"v1", "v2"} {
		obj, err := s.of(version).Get(t.Context(), "new", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if value, _, _ := unstructured.NestedString(obj.Object, "spec", "a"); value != "red" {
			t.Errorf("%s shows %q", version, value)
		}
		for selector, want := range map[string]int{"spec.a=red": 1, "spec.a=": 0} {
			list, err := s.of(version).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
			if err != nil || len(list.Items) != want {
				t.Errorf("list of %s by %s: %v, %v, want %d", version, selector, list, err, want)
			}
		}
	}
}
