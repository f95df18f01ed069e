package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// acceptedFlags are the flags of another program that a command takes and has no use for: a command line of that program
// starts this one.
type acceptedFlags struct {
	flags []*acceptedFlag
}

// acceptedFlag implements pflag.Value. It keeps all values that were given.
type acceptedFlag struct {
	name, kind string
	values     []string
}

// String implements pflag.Value.
func (f *acceptedFlag) String() string { return strings.Join(f.values, ",") }

// Type implements pflag.Value.
func (f *acceptedFlag) Type() string { return f.kind }

// Set implements pflag.Value.
func (f *acceptedFlag) Set(value string) error {
	f.values = append(f.values, value)
	return nil
}

// list returns the values of a flag that takes several, comma separated.
func (f *acceptedFlag) list() []string {
	return strings.FieldsFunc(f.String(), func(r rune) bool { return r == ',' })
}

// disregard is what it means that a flag changes nothing.
type disregard int

const (
	// met: what it asks for is so.
	met disregard = iota
	// missed: what it asks for is not so, and the server is as safe.
	missed
	// unsafe: the server is less safe than the flag asks.
	unsafe
)

// flagRule says what it means that a flag changes nothing, and why it does not. A flag without a rule is missed.
type flagRule func(f *acceptedFlag) (disregard, string)

// addAcceptedFlags adds those flags of a list, a name and a type in each line, that are not there yet. Help does not show them.
func addAcceptedFlags(flags *pflag.FlagSet, list string) *acceptedFlags {
	a := &acceptedFlags{}
	for line := range strings.Lines(list) {
		name, kind, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" || name == "version" || flags.Lookup(name) != nil {
			continue
		}
		f := &acceptedFlag{name: name, kind: kind}
		short := ""
		if len(name) == 1 {
			short = name
		}
		added := flags.VarPF(f, name, short, "accepted, and changes nothing")
		added.Hidden = true
		if kind == "bool" {
			added.NoOptDefVal = "true"
		}
		a.flags = append(a.flags, f)
	}
	return a
}

// complete names in the log the flags that were given and are not met. Strict, it refuses those that are unsafe.
func (a *acceptedFlags) complete(rules map[string]flagRule, logger *slog.Logger, strict bool) error {
	var errs []error
	for _, f := range a.flags {
		if len(f.values) == 0 {
			continue
		}
		means, why := missed, "weir has nothing like it"
		if rule := rules[f.name]; rule != nil {
			means, why = rule(f)
		}
		switch {
		case means == unsafe && strict:
			errs = append(errs, fmt.Errorf("--%s %s: %s; leave it out if you can do without", f.name, f, why))
		case means == unsafe:
			logger.Error("flag is not honoured, and the server is less safe than it asks", "flag", "--"+f.name, "why", why)
		case means == missed:
			logger.Warn("flag is accepted but changes nothing", "flag", "--"+f.name, "why", why)
		}
	}
	return errors.Join(errs...)
}

// always is the rule of a flag of which any value means the same.
func always(means disregard, why string) flagRule {
	return func(*acceptedFlag) (disregard, string) { return means, why }
}

// asIf is the rule of a flag that is met by one value.
func asIf(value string, otherwise disregard, why string) flagRule {
	return func(f *acceptedFlag) (disregard, string) {
		if f.values[len(f.values)-1] == value {
			return met, ""
		}
		return otherwise, why
	}
}

// others returns the words that are not among the known.
func others(words []string, known ...string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(known, w) })
}
