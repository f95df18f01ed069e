package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir.dev/weir/server"
	"weir.dev/weir/server/offline"
)

// onlySubcommands are the arguments of a command that has nothing but subcommands: none, or one that is misspelt.
func onlySubcommands(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], command.CommandPath(), meant(command, args[0], ""))
}

// strictDefaults has the commands that cobra adds, help and completion, refuse what is no command: they tell of it, and
// end well.
func strictDefaults(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() {
		case "help":
			command.Args = func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return onlySubcommands(of, rest)
			}
		case "completion":
			command.Args = onlySubcommands
			command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
		}
	}
}

// flagError says more of a flag that there is not.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return fmt.Errorf("%w; see `%s --help`", err, command.CommandPath())
	}
	known := &cobra.Command{}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}}) // one without Run is not suggested
		}
	})
	if hint := meant(known, unknown.GetSpecifiedName(), "--"); hint != "" {
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w; see `%s --help`", err, command.CommandPath())
}

// meant names the subcommands of a command that a word is close to.
func meant(command *cobra.Command, word, prefix string) string {
	command.SuggestionsMinimumDistance = 2
	near := command.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(near, " or "+prefix) + "?"
}

// meantWord names the words that a word is close to.
func meantWord(word string, words []string) string {
	known := &cobra.Command{}
	for _, w := range words {
		known.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}}) // one without Run is not suggested
	}
	return meant(known, word, "")
}

// completeFlags has a shell complete the flags of a command, and those of its subcommands, that have one of some values.
func completeFlags(command *cobra.Command) {
	values := map[string][]string{
		"engine": {offline.EngineCEL, offline.EngineRego, offline.EngineWasm}, "lang": {"go", "assemblyscript", "c", "rust"},
		"http2-server": {server.HTTP2Weir, server.HTTP2Standard}, "log-level": {"debug", "info", "warn", "error"},
	}
	command.Flags().VisitAll(func(f *pflag.Flag) {
		known := values[f.Name]
		if f.Value.Type() == new(outputFormat).Type() {
			known = []string{string(outputText), string(outputJSON)}
		}
		if known != nil {
			_ = command.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp)) // the flag is there, and has none
		}
	})
	for _, sub := range command.Commands() {
		completeFlags(sub)
	}
}

// versionCommand tells what the program is.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell the version of this program and of the Kubernetes API that it serves",
		Args:  exactArgs(0),
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(command.OutOrStdout(), versionText())
			return err
		},
	}
}

// versionText is what `weir version` prints. The version is that of the module, or of the commit where it is built from a
// checkout.
func versionText() string {
	version, platform := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version, platform = info.Main.Version, info.GoVersion
	}
	return fmt.Sprintf("weir %s\nKubernetes API %s\n%s\n", version, server.KubernetesVersion, platform)
}
