// Command weir is the server and its tools: see `weir help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := commandNamed(os.Args[0])
	err := command.ExecuteContext(ctx)
	if err == nil {
		return
	}
	stop()
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", command.Name(), err)
	os.Exit(2)
}

// commandNamed returns what the program is by a name: kube-apiserver and etcd, as `weir envtest` links it, or weir.
func commandNamed(path string) *cobra.Command {
	switch strings.TrimSuffix(filepath.Base(path), ".exe") {
	case kubeAPIServer:
		return apiServerCommand()
	case etcdName:
		return etcdCommand()
	}
	return rootCommand()
}

// exitCode is an error that has been told already; the program ends with it.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// exactArgs wants n arguments, and shows the command's usage where there are others.
func exactArgs(n int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != n {
			given := "no argument"
			if len(args) > 0 {
				given = fmt.Sprintf("%q", args)
			}
			return fmt.Errorf("got %s, want %d: %s; see `%s --help`", given, n, command.UseLine(), command.CommandPath())
		}
		return nil
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "A Kubernetes-style API server whose strategies, defaulting and admission are data",
		Long: `A Kubernetes-style API server whose strategies, defaulting and admission are data.

It exits with 0 when all is well, with 1 when what it was to judge or try is refused,
fails or differs, and with 2 when it could not do what it was told.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(serveCommand(), moduleCommand(), newPolicyCommand(), envtestCommand(), versionCommand())
	strictDefaults(root)
	completeFlags(root)
	return root
}
