package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/sdk/cases"
)

// runFlags are the flags of weir module run.
type runFlags struct {
	hook, object, old, options, settings, params, namespace string
	operation, subresource, user, to, cacheDir              string
	groups, objects, allow                                  []string
	limits                                                  limitFlags
	format                                                  outputFormat
	trace                                                   bool
}

func moduleRunCommand() *cobra.Command {
	f := runFlags{format: outputText, user: "kubernetes-admin"}
	command := &cobra.Command{
		Use:   "run DIR|FILE --hook HOOK --object OBJECT",
		Short: "Run a hook of a module on an object from a file, and print the verdict",
		Long: `Run a hook of a module on an object from a file, as a server would, and print the
verdict, what it changed in the object, and how much fuel it used. Documents are
YAML or JSON; - is standard input. The module in DIR is built first. It is granted
whatever capabilities it asks for: what it looks up are the objects of --objects,
and what a user may do is what --allow says.

Exit code: 0 the object passes, 1 it is refused, 2 the hook could not be run or
did not come to a verdict (a trap, its fuel or time used up, bad output).`,
		Example: `  weir module run quotes.wasm --hook validateCreate --object bad.yaml
  weir module run quotes.wasm --hook default --object good.yaml --settings '{"author": "anon"}'
  weir module run quotes.wasm --hook validateUpdate --old old.yaml --object new.yaml -o json
  weir module run quotes.wasm --hook validateCreate --object bad.yaml --objects limits.yaml --trace`,
		Args: exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return runModule(command, args[0], &f)
		},
	}
	flags := command.Flags()
	f.addCall(command)
	flags.Uint64Var(&f.limits.fuel, "fuel", host.DefaultFuel, "most instructions of the call")
	flags.IntVar(&f.limits.memory, "memory", host.DefaultMemoryBytes, "most bytes of memory")
	flags.StringVar(&f.cacheDir, "cache-dir", defaultCacheDir(), "directory of compiled modules; empty: compile each time")
	flags.BoolVar(&f.trace, "trace", false, "show what the module asks of the host, on standard error")
	flags.VarP(&f.format, "format", "o", "what is printed: text or json")
	return command
}

// addCall adds the flags that say what is called.
func (f *runFlags) addCall(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.hook, "hook", "", "hook to run, as weir module inspect lists them")
	flags.StringVar(&f.object, "object", "", "file of the object")
	flags.StringVar(&f.old, "old", "", "file of the object as it is stored, for updates; for validateDelete what is to be deleted")
	flags.StringVar(&f.options, "options", "", "file of the options of the request")
	flags.StringVar(&f.settings, "settings", "", "settings of the module: a file, or JSON that begins with {")
	flags.StringVar(&f.params, "params", "", "file of the parameter object of a policy")
	flags.StringVar(&f.namespace, "namespace-object", "", "file of the Namespace of the object")
	flags.StringVar(&f.operation, "operation", "", "CREATE, UPDATE, DELETE or CONNECT (default: by the hook)")
	flags.StringVar(&f.subresource, "subresource", "", "subresource of the request")
	flags.StringVar(&f.user, "as", f.user, "name of the user")
	flags.StringSliceVar(&f.groups, "as-group", nil, "groups of the user")
	flags.StringVar(&f.to, "to", "", "target version of convert, group/version")
	flags.StringArrayVar(&f.objects, "objects", nil, "file or directory of objects that the module can look up; may be repeated")
	flags.StringArrayVar(&f.allow, "allow", nil, "what the user may do when the module asks, VERB:RESOURCE[.GROUP]; may be repeated")
}

func defaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "weir", "modules")
}

// parseHook is the hook of --hook.
func parseHook(name string) (abi.Op, error) {
	op, ok := abi.ParseOp(name)
	if !ok {
		var all []string
		for _, o := range abi.Ops() {
			all = append(all, o.String())
		}
		return 0, fmt.Errorf("hook %q does not exist; there are %s%s", name, strings.Join(all, ", "), meantWord(name, all))
	}
	return op, nil
}

// runModule runs a hook and prints what came of it.
func runModule(command *cobra.Command, path string, f *runFlags) error {
	ctx := command.Context()
	if f.hook == "" {
		return errors.New("--hook is missing: `weir module inspect` lists the hooks of a module")
	}
	op, err := parseHook(f.hook)
	if err != nil {
		return err
	}
	call, settings, err := f.call(command.InOrStdin(), op)
	if err != nil {
		return err
	}
	wasm, err := readModule(ctx, path, command.ErrOrStderr())
	if err != nil {
		return err
	}
	runtime, err := newRuntime(f.cacheDir)
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Close(context.WithoutCancel(ctx)) }() // the process ends
	config := host.ModuleConfig{
		Name: filepath.Base(path), Settings: settings, Limits: f.limits.limits(), GrantAll: true,
		Logger: slog.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	module, err := runtime.Load(ctx, wasm, config)
	if err != nil {
		return err
	}
	defer func() { _ = module.Close(context.WithoutCancel(ctx)) }() // the process ends
	manifest := module.Manifest()
	if !module.Handles(op) {
		return fmt.Errorf("%s has no hook %s; it has %s", path, op, joined(manifest.Hooks))
	}
	if kind := otherKind(manifest.Kind, call); kind != "" && f.subresource == "" {
		fmt.Fprintf(command.ErrOrStderr(), "warning: --object is of kind %s, and the module is written for %s\n", kind, manifest.Kind)
	}
	v := verdict{
		Module: manifest.Name, Version: manifest.Version, Digest: module.Digest(), Hook: op.String(),
		FuelLimit: f.limits.fuel, input: call.Object,
	}
	call.Budget = host.NewBudget(f.limits.fuel, time.Time{})
	if f.trace {
		call.Trace = (&trace{w: command.ErrOrStderr()}).call
	}
	start := time.Now()
	res, err := module.Call(ctx, call)
	v.Milliseconds = float64(time.Since(start).Microseconds()) / 1000
	v.set(res, err)
	if err := v.write(command.OutOrStdout(), f.format); err != nil {
		return err
	}
	switch v.Verdict {
	case verdictRefused:
		return exitCode(1)
	case verdictFailed:
		return exitCode(2)
	}
	return nil
}

// otherKind is the kind of the object of a call, if it is not that which a module is written for. What admits is for any.
func otherKind(writtenFor string, call *host.Call) string {
	if call.Object == nil || writtenFor == "" || admits(call.Op) {
		return ""
	}
	if kind := call.Object.Get("kind").String(); kind != writtenFor {
		return kind
	}
	return ""
}

// call makes the call of the flags.
func (f *runFlags) call(stdin io.Reader, op abi.Op) (call *host.Call, settings []byte, err error) {
	call = &host.Call{Op: op, TargetVersion: f.to}
	for _, d := range []struct {
		flag, file string
		to         **document.Document
	}{
		{"object", f.object, &call.Object}, {"old", f.old, &call.OldObject}, {"options", f.options, &call.Options},
		{"params", f.params, &call.Params}, {"namespace-object", f.namespace, &call.Namespace},
	} {
		if d.file == "" {
			continue
		}
		if *d.to, err = readDocument(stdin, d.file); err != nil {
			return nil, nil, fmt.Errorf("--%s: %w", d.flag, err)
		}
	}
	if op == abi.OpValidateDelete && call.OldObject == nil {
		call.Object, call.OldObject = nil, call.Object
	}
	if err := f.check(op, call); err != nil {
		return nil, nil, err
	}
	if f.settings != "" {
		var d *document.Document
		if f.settings[0] == '{' {
			d, err = document.Parse([]byte(f.settings))
		} else {
			d, err = readDocument(stdin, f.settings)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("--settings: %w", err)
		}
		settings = d.Bytes()
	}
	if err := f.lookups(call); err != nil {
		return nil, nil, err
	}
	call.Meta, err = f.meta(call)
	return call, settings, err
}

// check tells what a hook cannot do without.
func (f *runFlags) check(op abi.Op, call *host.Call) error {
	switch op {
	case abi.OpPrepareForUpdate, abi.OpValidateUpdate, abi.OpStatusPrepare, abi.OpStatusValidate, abi.OpWarningsOnUpdate:
		if call.OldObject == nil {
			return fmt.Errorf("hook %s needs --old, the object as it is stored", op)
		}
	case abi.OpConvert:
		if f.to == "" {
			return fmt.Errorf("hook %s needs --to, the target version", op)
		}
	case abi.OpConfigure:
		return fmt.Errorf("hook %s runs by itself when a module is loaded", op)
	}
	if call.Object == nil && (op != abi.OpValidateDelete || call.OldObject == nil) && !(call.OldObject != nil && admits(op)) {
		return fmt.Errorf("hook %s needs --object", op)
	}
	return nil
}

func admits(op abi.Op) bool { return op == abi.OpAdmitMutate || op == abi.OpAdmitValidate }

// meta makes the request that the object would have come by.
func (f *runFlags) meta(call *host.Call) (*document.Document, error) {
	m := cases.Request(call)
	m.Time, m.Subresource, m.DryRun = host.FormatTime(time.Now()), f.subresource, true
	m.User = abi.User{Username: f.user, Groups: f.groups}
	if f.operation != "" {
		m.Operation = abi.Operation(f.operation)
	}
	return host.NewMeta(m)
}

// readDocument reads YAML or JSON from a file, or from standard input.
func readDocument(stdin io.Reader, file string) (*document.Document, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if d.Root().Kind() != document.Object && d.Root().Kind() != document.Array {
		return nil, fmt.Errorf("%s: not an object", file)
	}
	return d, nil
}
