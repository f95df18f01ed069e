package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/server"
	"weir.dev/weir/server/offline"
	"weir.dev/weir/server/recording"
)

// replayFlags are the flags of weir policy replay.
type replayFlags struct {
	offlineFlags
	policy, against []string
	format          outputFormat
	most            int
}

func policyReplayCommand() *cobra.Command {
	f := replayFlags{format: outputText}
	command := &cobra.Command{
		Use:   "replay FILE... --policy DIR|FILE",
		Short: "Judge recorded requests by another version of a policy, and print what differs",
		Long: `Judge recorded requests by another version of a policy, and print every verdict that
differs: of the version in --policy from what was recorded, or, with --against, from
another version. Requests are read one at a time; - is standard input.

FILE is what ` + "`weir serve --record`" + ` wrote (give FILE.2 FILE.1 FILE in this order for
all of it), AdmissionReviews one a line, or an audit log of a Kubernetes API server with
the objects of requests or responses in it. An audit log does not say what was stored
before an update, nor what each policy said: only what became of the request is compared.

--policy is a directory or file of policies, bindings and params in YAML, without the
directories below it. Policies that are not in it are not compared. A policy without a
binding judges all requests that its matchConstraints name, by the params that are there,
or else by those that were recorded. A verdict is what the policy says: whether a binding
enforces it, warns or watches is not compared.

The content of a Secret is not recorded, nor of what --record-redact of weir serve named:
requests about such objects, or judged by one as a param, are not judged again, and the
summary says how many there were. So it is with lines that do not parse.

Exit code: 0 nothing differs, 1 something does, 2 nothing could be judged.`,
		Example: `  weir serve --record requests.log
  weir policy replay requests.log --policy policies/
  weir policy replay requests.log.1 requests.log --policy new/ --against old/ -o json`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("a recording is missing: %s", command.UseLine())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return replayPolicies(command, args, &f) },
	}
	f.add(command)
	flags := command.Flags()
	flags.StringArrayVar(&f.policy, "policy", nil, "directory or file of the version to try")
	flags.StringArrayVar(&f.against, "against", nil, "directory or file of the version to compare it with (default: what was recorded)")
	flags.IntVar(&f.most, "limit", 0, "print so many differences only; all are counted. 0: all")
	flags.VarP(&f.format, "format", "o", "what is printed: text, or json with one difference a line and the summary in the last")
	return command
}

// compileFiles makes a set of the objects in directories and files.
func compileFiles(ctx context.Context, w *server.Offline, paths []string) (*offline.Set, error) {
	objects, err := readPolicyObjects(paths, false)
	if err != nil {
		return nil, err
	}
	set, err := w.Compile(ctx, objects)
	if err != nil {
		return nil, err
	}
	if len(set.Policies()) == 0 {
		set.Close()
		return nil, fmt.Errorf("no policy in %s", strings.Join(paths, ", "))
	}
	return set, nil
}

// readPolicyObjects reads what is in directories and files.
func readPolicyObjects(paths []string, deep bool) ([]offline.Object, error) {
	var all []offline.Object
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		var objects []offline.Object
		at := p
		if info.IsDir() {
			objects, err = offline.ReadDir(os.DirFS(p), ".", deep)
		} else {
			at = filepath.Dir(p)
			objects, err = offline.Read(os.DirFS(at), filepath.Base(p))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if len(objects) == 0 {
			return nil, fmt.Errorf("%s: no objects in YAML or JSON", p)
		}
		for i := range objects {
			objects[i].Root = at
		}
		all = append(all, objects...)
	}
	return all, nil
}

// replayPolicies judges what was recorded.
func replayPolicies(command *cobra.Command, files []string, f *replayFlags) error {
	ctx, out := command.Context(), command.OutOrStdout()
	if len(f.policy) == 0 {
		return errors.New("--policy is missing: the directory or file of the version to try")
	}
	w, err := f.open(command, false)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // the process ends
	printed := 0
	r := &offline.Replay{Differs: func(d *offline.Difference) error {
		if printed++; f.most > 0 && printed > f.most {
			return nil
		}
		if f.format == outputJSON {
			return json.NewEncoder(out).Encode(d)
		}
		return printDifference(out, d)
	}}
	if r.New, err = compileFiles(ctx, w, f.policy); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	defer r.New.Close()
	if len(f.against) > 0 {
		if r.Against, err = compileFiles(ctx, w, f.against); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		defer r.Against.Close()
	}
	r.Begin()
	for _, name := range files {
		if err := replayFile(ctx, command.InOrStdin(), name, r); err != nil {
			return err
		}
	}
	if f.format == outputJSON {
		if err := json.NewEncoder(out).Encode(map[string]any{"summary": r.Summary}); err != nil {
			return err
		}
	} else {
		printSummary(out, &r.Summary)
	}
	switch {
	case r.Summary.Judged == 0:
		return fmt.Errorf("%s: no request could be judged", strings.Join(files, ", "))
	case r.Summary.Differ > 0:
		return exitCode(1)
	}
	return nil
}

// replayFile judges the records of one file.
func replayFile(ctx context.Context, stdin io.Reader, name string, r *offline.Replay) error {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	reader := recording.NewReader(in)
	defer func() {
		r.Summary.Others += reader.Skipped
		r.Summary.Broken += reader.Broken
	}()
	for {
		record, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := r.Judge(ctx, record, reader.Line()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// printDifference prints what two versions say of one request.
func printDifference(out io.Writer, d *offline.Difference) error {
	at := d.Name
	if d.Namespace != "" {
		at = d.Namespace + "/" + d.Name
	}
	by := d.Policy
	if by == "" {
		by = "the request"
	}
	_, err := fmt.Fprintf(out, "%s %s %s by %s (uid %s, line %d)\n  %s: %s\n", d.Operation, d.Resource, at, d.User, d.UID, d.Line, by, d.Change())
	for _, m := range d.Old.Messages {
		if !slices.Contains(d.New.Messages, m) {
			fmt.Fprintf(out, "    - %s\n", m)
		}
	}
	for _, m := range d.New.Messages {
		if !slices.Contains(d.Old.Messages, m) {
			fmt.Fprintf(out, "    + %s\n", m)
		}
	}
	if d.Object != "" {
		fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(d.Object, "\n", "\n    "))
	}
	return err
}

// printSummary prints what came of all requests.
func printSummary(out io.Writer, s *offline.Summary) {
	fmt.Fprintf(out, "%s requests judged: %s differ\n", grouped(s.Judged), grouped(s.Differ))
	for _, change := range sortedKeys(s.Changes) {
		fmt.Fprintf(out, "  %s: %s\n", change, grouped(s.Changes[change]))
	}
	if s.Redacted > 0 {
		fmt.Fprintf(out, "not judged: %s about secrets or what --record-redact named, whose content is not recorded\n", grouped(s.Redacted))
	}
	for _, reason := range sortedKeys(s.Unknown) {
		fmt.Fprintf(out, "not judged: %s: %s\n", grouped(s.Unknown[reason]), reason)
	}
	if s.WithoutOldObject > 0 {
		fmt.Fprintf(out, "judged without the old object, which an audit log does not have: %s\n", grouped(s.WithoutOldObject))
	}
	if s.Others > 0 {
		fmt.Fprintf(out, "left out: %s lines that are no write with an object\n", grouped(s.Others))
	}
	if s.Broken > 0 {
		fmt.Fprintf(out, "left out: %s lines that do not parse, as one that is cut off where a server ended\n", grouped(s.Broken))
	}
}

func sortedKeys(m map[string]int) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
