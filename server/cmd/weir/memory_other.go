//go:build !linux

package main

// releaseProgram does nothing where it is not known how.
func releaseProgram() {}
