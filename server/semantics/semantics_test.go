// Package semantics_test holds the server to what a client can observe, over real HTTP: every
// scenario in testdata is a few requests and their right answers.
package semantics_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"weir.dev/weir/server/servertest"
)

func TestScenarios(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	files := loadScenarios(t)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		t.Run(file, func(t *testing.T) {
			for i, s := range files[file] {
				t.Run(s.Name, func(t *testing.T) { newRun(env, fmt.Sprintf("%s-%d", file, i+1)).scenario(t, s) })
			}
		})
	}
}
