//go:build race

package hosttest_test

const raceEnabled = true
