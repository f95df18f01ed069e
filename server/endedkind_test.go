package server_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/servertest"
)

// What the objects of a definition owned goes with them, also what is looked at only when the definition is gone too.
func TestGarbageOfRemovedDefinition(t *testing.T) {
	all := newTester(t, servertest.Options{})
	defined := all.define("widget")
	owner := all.create(widgets, "default", "Widget", "owner")
	var owned []object
	for i := range 150 { // the definition goes at once
		owned = append(owned, all.configMap("default", fmt.Sprint("owned", i), ownedBy(owner, true)))
	}
	all.delete(defined, metav1.DeletePropagationBackground)
	all.awaitGone(defined)
	all.awaitGone(owned...)
}
