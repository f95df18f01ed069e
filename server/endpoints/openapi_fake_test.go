package endpoints

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

// widgetOpenAPI publishes a small schema.
type widgetOpenAPI struct{}

func (widgetOpenAPI) Definitions() (string, map[string][]byte, error) {
	return "com.example.v1.Widget", map[string][]byte{
		"com.example.v1.Widget":                           []byte(`{"type":"object","description":"A widget.","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],"default":{}},"spec":{"type":"object","nullable":true,"properties":{"color":{"type":"string","oneOf":[{"format":"x"},{"format":"y"}]}}}}}`),
		"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`),
	}, nil
}
