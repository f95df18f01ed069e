// Package server puts the parts of Weir together: Config says what is wanted, New opens
// storage and makes everything ready, Run serves until its context ends and then
// drains. It is the only package that knows all others.
package server
