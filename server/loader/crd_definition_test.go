package loader

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestDefinitionOf(t *testing.T) {
	selector, warning := ".status.selector", "gone soon"
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Generation = 2
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1alpha1", Served: true, Deprecated: true},
			{Name: "v1beta1", Served: true, Deprecated: true, DeprecationWarning: &warning},
			{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.n", StatusReplicasPath: ".status.n", LabelSelectorPath: &selector}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Color", Type: "string", JSONPath: ".spec.color", Priority: 1}},
				SelectableFields:         []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}}},
			{Name: "v2", Served: false},
		},
	}
	d, err := definitionOf(crd, apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList", ShortNames: []string{"th"}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Resource != "things" || !d.Namespaced || d.StorageVersion != "v1" || !d.Revised || d.StoragePrefix != "example.com/things" {
		t.Errorf("definition %+v", d)
	}
	order := ""
	for _, v := range d.Versions {
		order += v.Name + " "
	}
	if order != "v2 v1 v1beta1 v1alpha1 " {
		t.Errorf("versions %s", order)
	}
	v1 := d.Versions[1]
	if !v1.Status || v1.Scale == nil || v1.Scale.SpecReplicasPath != ".spec.n" || v1.Scale.LabelSelectorPath != selector || v1.Inline == nil || v1.Deprecated != "" {
		t.Errorf("v1 %+v", v1)
	}
	if len(v1.PrinterColumns) != 1 || v1.PrinterColumns[0].Priority != 1 || len(v1.SelectableFields) != 1 || v1.SelectableFields[0].Name != "spec.color" {
		t.Errorf("v1 %+v", v1)
	}
	if got := d.Versions[2].Deprecated; got != warning {
		t.Errorf("warning %q", got)
	}
	if got := d.Versions[3].Deprecated; got != "example.com/v1alpha1 Thing is deprecated; use example.com/v1 Thing" {
		t.Errorf("warning %q", got)
	}
	if columns := d.Versions[0].PrinterColumns; len(columns) != 1 || columns[0].Name != "Age" {
		t.Errorf("default columns %+v", columns)
	}
	crd.Generation = 1
	crd.Spec.Versions[2].AdditionalPrinterColumns[0].JSONPath = "{"
	if _, err := definitionOf(crd, apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"}); err == nil {
		t.Error("a column that does not compile is accepted")
	}
}
