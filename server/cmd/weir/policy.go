package main

import "github.com/spf13/cobra"

// newPolicyCommand is `weir policy`: what its author and operator do with a policy before it is in force. Each
// subcommand is a file policy_<name>.go, and a line here.
func newPolicyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "policy",
		Short: "Test, lint, measure and replay admission policies before they are in force",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(policyImpactCommand())
	return command
}
