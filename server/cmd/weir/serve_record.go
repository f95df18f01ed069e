package main

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"

	"weir.dev/weir/server/recording"
)

// addRecordFlags adds the flags that say which admission requests are recorded.
func addRecordFlags(flags *pflag.FlagSet, config *recording.Config) {
	flags.StringVar(&config.File, "record", "", "file to record admission requests in, with what the policies said, for weir policy replay. Of a Secret only the name is written, and no message about a request that is about one or judged by one as a param; all else is as clients sent it, and a message of a module that looked up a Secret may quote it. The file becomes its owner's alone to read")
	config.MaxBytes = recording.DefaultMaxBytes
	flags.Var((*mebibytes)(&config.MaxBytes), "record-max-size", "size in MiB at which a recording becomes FILE.1 and another one is begun")
	flags.IntVar(&config.Backups, "record-max-backups", recording.DefaultBackups, "how many of FILE.1, FILE.2, ... are kept; negative: none")
	flags.StringSliceVar(&config.Redact, "record-redact", nil, "resources, as deployments.apps, that are treated as secrets are: requests about them, params, and the namespaces that policies read")
	flags.StringSliceVar(&config.Exclude, "record-exclude", recording.DefaultExclude(), "resources whose requests are not recorded")
}

// mebibytes is a flag with a number of bytes, which is given in MiB.
type mebibytes int64

// String implements pflag.Value.
func (m *mebibytes) String() string { return strconv.FormatInt(int64(*m)>>20, 10) }

// Type implements pflag.Value.
func (m *mebibytes) Type() string { return "MiB" }

// Set implements pflag.Value.
func (m *mebibytes) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 {
		return errors.New("give a number of MiB, from 1")
	}
	*m = mebibytes(n << 20)
	return nil
}
