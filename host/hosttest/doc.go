// Package hosttest has guests to test a host with: an assembler for small
// ones, and sinners named for their sin.
package hosttest
