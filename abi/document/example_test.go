package document_test

import (
	"fmt"

	"weir.dev/weir/abi/document"
)

// What a client sent is checked and put in canonical form once.
func ExampleIngest() {
	sent := []byte(`{
		"spec": {"replicas": 1, "replicas": 3, "paused": false},
		"kind": "Deployment"
	}`)
	d, duplicates, err := document.Ingest(sent, document.IngestOptions{MaxBytes: 3 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(d.Bytes()))
	fmt.Println(duplicates[0].Path)

	_, _, err = document.Ingest([]byte(`{"kind": "Deployment",}`), document.IngestOptions{})
	fmt.Println(err)
	// Output:
	// {"kind":"Deployment","spec":{"paused":false,"replicas":3}}
	// spec.replicas
	// invalid character '}' looking for beginning of object key string (offset 23)
}

// Reads need one check, at their end, and do not allocate.
func ExampleDocument_Get() {
	d := document.FromCanonical([]byte(`{"metadata":{"name":"web"},"spec":{"replicas":3}}`))
	fmt.Println(d.Get("metadata", "name").String())
	replicas, ok := d.Get("spec", "replicas").Int()
	fmt.Println(replicas, ok)
	fmt.Println(d.Get("status", "replicas").Exists())
	// Output:
	// web
	// 3 true
	// false
}

func ExampleValue_Query() {
	d := document.FromCanonical([]byte(`{"spec":{"containers":[{"image":"a:1","name":"a"},{"image":"b:2","name":"b"}]}}`))
	images, err := document.ParsePath("spec.containers[*].image")
	if err != nil {
		fmt.Println(err)
		return
	}
	for image := range d.Root().Query(images) {
		fmt.Println(image.String())
	}
	_, err = document.ParsePath("spec.containers[first].image")
	fmt.Println(err)
	// Output:
	// a:1
	// b:2
	// path "spec.containers[first].image": offset 16: want an index, '*' or a quoted name, have 'f'
}

// A change makes a new document; the one that was edited stays as it is.
func ExampleEdit() {
	d := document.FromCanonical([]byte(`{"kind":"Deployment","spec":{"replicas":3},"status":{"replicas":2}}`))
	created, err := d.Edit().
		Set(int64(1), "metadata", "generation").
		Delete("status").
		Document()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(created.Bytes()))
	// Output:
	// {"kind":"Deployment","metadata":{"generation":1},"spec":{"replicas":3}}
}

func ExampleDocument_ApplyMergePatch() {
	d := document.FromCanonical([]byte(`{"spec":{"paused":true,"replicas":3}}`))
	patch, err := document.Parse([]byte(`{"spec": {"replicas": 5, "paused": null}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	patched, err := d.ApplyMergePatch(patch)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(patched.Bytes()))
	// Output:
	// {"spec":{"replicas":5}}
}
