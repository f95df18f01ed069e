package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server"
	"weir.dev/weir/server/offline"
)

// lintFlags are the flags of weir policy lint.
type lintFlags struct {
	offlineFlags
	crds                []string
	moduleDir           string
	kubeconfig, context string
	server, strict      bool
	format              outputFormat
}

func policyLintCommand() *cobra.Command {
	f := lintFlags{format: outputText}
	command := &cobra.Command{
		Use:   "lint FILE|DIR...",
		Short: "Look for what is wrong with policies and bindings",
		Long: `Look for what is wrong with policies and bindings, without applying them: what a server
would refuse, with the place in the file and a caret below it, and what it would accept
but hardly can be meant. Directories are read with all below them, but for those named
cases; policy.rego is looked at too.

Errors: fields and values that are not valid, expressions and rules that do not compile,
fields that the kinds which are matched do not have, kinds that the groups of policies
do not have, a module that does not load.
Warnings, by their rule:

  no-binding        nothing among the files puts the policy in force
  no-policy         a binding of a policy that is not among the files
  matches-nothing   a rule that selects no resource that is known
  unknown-kind      a paramKind that is not known
  no-params         a binding without paramRef of a policy with a paramKind
  failure-policy    Ignore: a policy that breaks is off without a sign
  unused-variable   a variable that no expression names
  unused-params     a paramKind, and no expression that reads params
  constant          a validation that looks at neither the object, the request nor params
  cost              an expression that may come near the limit of its cost
  type              a field that some of the kinds which are matched do not have
  rego              a member of input that there never is; a deny that is a boolean
  module            a module that is not there, so that it was not looked at

Known are the built-in kinds, the CustomResourceDefinitions among the files and in --crds,
and with --server those of the server of the kubeconfig.

Exit code: 0 no errors, 1 errors (with --strict also warnings), 2 nothing could be looked
at.`,
		Example: `  weir policy lint policy.yaml binding.yaml
  weir policy lint policies/ --crds crds/ --strict
  weir policy lint policies/ --kubeconfig ~/.kube/config -o json`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("a file or directory is missing: %s", command.UseLine())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return lintPolicies(command, args, &f) },
	}
	f.add(command)
	flags := command.Flags()
	flags.StringArrayVar(&f.crds, "crds", nil, "file or directory of CustomResourceDefinitions of kinds that policies name")
	flags.StringVar(&f.moduleDir, "module-dir", "", "directory below which spec.source.file of a Module is, beside that of the Module")
	flags.BoolVar(&f.server, "server", false, "read CustomResourceDefinitions from the server of the kubeconfig")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the same, with this kubeconfig (--server: as kubectl, $KUBECONFIG)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig")
	flags.BoolVar(&f.strict, "strict", false, "warnings are errors")
	flags.VarP(&f.format, "format", "o", "what is printed: text or json")
	return command
}

// lintPolicies prints what is wrong with policies.
func lintPolicies(command *cobra.Command, paths []string, f *lintFlags) error {
	ctx := command.Context()
	objects, err := readPolicyObjects(paths, true)
	if err != nil {
		return err
	}
	var known []offline.Object
	if len(f.crds) > 0 {
		if known, err = readPolicyObjects(f.crds, true); err != nil {
			return fmt.Errorf("--crds: %w", err)
		}
	}
	if f.server || f.kubeconfig != "" {
		definitions, err := f.definitions(ctx)
		if err != nil {
			return fmt.Errorf("CustomResourceDefinitions of the server: %w", err)
		}
		known = append(known, definitions...)
	}
	w, err := f.open(command, false)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // the process ends
	var modules fs.FS
	if f.moduleDir != "" {
		modules = os.DirFS(f.moduleDir)
	}
	findings, err := w.Lint(ctx, objects, known, modules)
	if err != nil {
		return err
	}
	inRego, err := lintRego(w, paths)
	if err != nil {
		return err
	}
	findings = append(findings, inRego...)
	if f.strict {
		for i := range findings {
			findings[i].Severity = offline.Error
		}
	}
	errorCount := 0
	for i := range findings {
		if findings[i].Severity == offline.Error {
			errorCount++
		}
	}
	if err := printFindings(command.OutOrStdout(), findings, errorCount, f.format); err != nil {
		return err
	}
	if errorCount > 0 {
		return exitCode(1)
	}
	return nil
}

// lintRego looks at the files policy.rego in directories.
func lintRego(w *server.Offline, paths []string) ([]offline.Finding, error) {
	var findings []offline.Finding
	for _, root := range paths {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			continue
		}
		fsys := os.DirFS(root)
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Base(name) != "policy.rego" {
				return err
			}
			found, err := w.LintRego(fsys, root, name)
			findings = append(findings, found...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
	}
	return findings, nil
}

func printFindings(out io.Writer, findings []offline.Finding, errorCount int, format outputFormat) error {
	if format == outputJSON {
		if findings == nil {
			findings = []offline.Finding{}
		}
		return writeJSON(out, map[string]any{"findings": findings, "errors": errorCount, "warnings": len(findings) - errorCount})
	}
	for i := range findings {
		fmt.Fprintln(out, findings[i].String())
	}
	if len(findings) > 0 {
		fmt.Fprintf(out, "%d errors, %d warnings\n", errorCount, len(findings)-errorCount)
	}
	return nil
}

// definitions reads the CustomResourceDefinitions of a server.
func (f *lintFlags) definitions(ctx context.Context) ([]offline.Object, error) {
	config, err := clientConfig(f.kubeconfig, f.context)
	if err != nil {
		return nil, err
	}
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	address, _, err := restclient.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	text, err := fetch(ctx, client, address.JoinPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").String())
	if err != nil {
		return nil, err
	}
	list, err := document.Parse(text)
	if err != nil {
		return nil, err
	}
	var objects []offline.Object
	for _, item := range list.Get("items").Elements() {
		// What the server has added to a definition is not a part of what may be created.
		doc, err := item.Document().Edit().Set("apiextensions.k8s.io/v1", "apiVersion").Set("CustomResourceDefinition", "kind").
			Delete("status").Document()
		if err != nil {
			return nil, err
		}
		objects = append(objects, offline.Object{File: config.Host, Document: doc})
	}
	return objects, nil
}

// fetch reads an address of a server.
func fetch(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it has been read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, nil
}
