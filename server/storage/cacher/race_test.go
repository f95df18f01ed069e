//go:build race

package cacher

const raceEnabled = true
