package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/weir/host"
)

// A module whose bytes cannot be kept, as on a full disk, is in force when they can be, without a change of the object.
func TestModuleThatCannotBeKept(t *testing.T) {
	f := start(t)
	wasm := stamp("v001")
	inTheWay := filepath.Join(f.DataDir(), "artefacts", strings.TrimPrefix(host.Digest(wasm), "sha256:")+".wasm.part")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	f.put(t, modules, module("stamp", inline(wasm)))
	is := func(status metav1.ConditionStatus) {
		t.Helper()
		f.until(t, f.client.Resource(modules), "stamp", func(obj *unstructured.Unstructured) bool { return condition(obj, "Ready").Status == status })
	}
	is(metav1.ConditionFalse)
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	is(metav1.ConditionTrue)
}
