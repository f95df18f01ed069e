package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
)

// impactFlags are those of `weir policy impact`.
type impactFlags struct {
	files      []string
	kubeconfig string
	context    string
	spec       v1alpha1.PolicyImpactSpec
	limit      int32
	all        bool
	format     outputFormat
}

func policyImpactCommand() *cobra.Command {
	f := impactFlags{format: outputText}
	command := &cobra.Command{
		Use:   "impact -f FILE",
		Short: "Count the stored objects that a policy would deny or change",
		Long: `Ask a running server what policies and bindings would do to the objects that it
stores, were these written again: how many would be denied or changed, and the
first of them with their messages. Nothing is written.

A file has policies and bindings of admissionregistration.k8s.io and weir.dev,
and params, in YAML or JSON. They stand before those of the same name that the
server has. A policy is judged by the bindings that name it, in the files or on
the server; one that none names, as if it were bound to all that it concerns.

Each object is judged as an update that changes nothing, or, where the policy
does not concern updates, as a creation or deletion; in the name of whoever
asks, who must be able to list the objects. Any number of objects is counted:
where the time of a request ends, the next one goes on.

The exit code is 1 when the write of an object that is stored would be refused.`,
		Example: `  weir policy impact -f policy.yaml -f binding.yaml
  kubectl kustomize rules | weir policy impact -f - --limit 100 -o json`,
		Args: exactArgs(0),
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command) },
	}
	flags := command.Flags()
	flags.StringSliceVarP(&f.files, "filename", "f", nil, "file of policies, bindings and params; -: standard input")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the server (default: as kubectl, $KUBECONFIG)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig")
	flags.Int32Var(&f.limit, "limit", 10, "findings to show")
	flags.BoolVar(&f.all, "all", false, "show all findings, as they come")
	flags.StringVarP(&f.spec.Namespace, "namespace", "n", "", "count the objects of one namespace")
	flags.StringVar(&f.spec.Operation, "operation", "", "judge each object as CREATE, UPDATE or DELETE")
	flags.Int64Var(&f.spec.MaxObjects, "max-objects", 0, "stop after so many objects; 0: count all")
	flags.VarP(&f.format, "output", "o", "text or json; json with --all is a line for each finding, and one for the counts")
	return command
}

func (f *impactFlags) run(command *cobra.Command) error {
	if len(f.files) == 0 {
		return errors.New("-f is required: a file of policies and bindings")
	}
	for _, name := range f.files {
		objects, err := readObjects(command.InOrStdin(), name)
		if err != nil {
			return err
		}
		f.spec.Objects = append(f.spec.Objects, objects...)
	}
	config, err := clientConfig(f.kubeconfig, f.context)
	if err != nil {
		return err
	}
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		return err
	}
	asked := impactCount{flags: f, out: command.OutOrStdout()}
	address, _, err := restclient.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	failed := asked.all(command.Context(), client, address.String())
	if failed != nil && asked.answers == 0 {
		return failed
	}
	if err := asked.print(); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if asked.refused > 0 {
		return exitCode(1)
	}
	return nil
}

// all asks until all objects are counted, or as many as were asked for.
func (c *impactCount) all(ctx context.Context, client *http.Client, address string) error {
	f := c.flags
	for {
		if err := c.ask(ctx, client, address); err != nil {
			if c.answers > 0 {
				c.status.Reason = err.Error()
			}
			return err
		}
		if c.status.Complete || f.reached(c) {
			return nil
		}
		if c.status.Continue == f.spec.Continue {
			return fmt.Errorf("the server does not get on with the count: %s", c.status.Reason)
		}
		f.spec.Continue = c.status.Continue
	}
}

// reached reports whether so many objects were counted as were asked for. What is left is asked of the next request.
func (f *impactFlags) reached(c *impactCount) bool {
	if f.spec.MaxObjects == 0 {
		return false
	}
	f.spec.MaxObjects -= c.last
	return f.spec.MaxObjects <= 0
}

// impactCount adds up the answers to one question.
type impactCount struct {
	flags    *impactFlags
	out      io.Writer
	status   v1alpha1.PolicyImpactStatus
	findings int64
	refused  int64
	// last is how many objects the last of the answers was of.
	last    int64
	answers int
}

func (c *impactCount) ask(ctx context.Context, client *http.Client, address string) error {
	question := v1alpha1.PolicyImpact{TypeMeta: metav1.TypeMeta{APIVersion: "weir.dev/v1alpha1", Kind: "PolicyImpact"}, Spec: c.flags.spec}
	body, err := json.Marshal(&question)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+"/apis/weir.dev/v1alpha1/policyimpacts", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/x-ndjson, application/json")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		var status metav1.Status
		raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil || json.Unmarshal(raw, &status) != nil || status.Message == "" {
			return fmt.Errorf("the server answered %s", response.Status)
		}
		return errors.New(status.Message)
	}
	lines := json.NewDecoder(bufio.NewReaderSize(response.Body, 64<<10))
	for {
		var line v1alpha1.PolicyImpactLine
		if err := lines.Decode(&line); err != nil {
			return fmt.Errorf("the answer ended early: %w", err)
		}
		switch {
		case line.Error != nil:
			return errors.New(line.Error.Message)
		case line.Status != nil:
			c.add(line.Status)
			return nil
		case line.Finding != nil:
			if err := c.found(line.Finding); err != nil {
				return err
			}
		}
	}
}

func (c *impactCount) found(f *v1alpha1.PolicyImpactFinding) error {
	c.findings++
	if f.Refused {
		c.refused++
	}
	switch {
	case c.flags.all && c.flags.format == outputJSON:
		return json.NewEncoder(c.out).Encode(&v1alpha1.PolicyImpactLine{Finding: f})
	case c.flags.all:
		return printFinding(c.out, f)
	case len(c.status.Findings) < int(c.flags.limit):
		c.status.Findings = append(c.status.Findings, *f)
	}
	return nil
}

// add takes the counts of an answer. A resource that it began with may be the one that the last answer ended with.
func (c *impactCount) add(s *v1alpha1.PolicyImpactStatus) {
	c.answers++
	c.status.Complete, c.status.Reason, c.status.Continue, c.last = s.Complete, s.Reason, s.Continue, 0
	for _, r := range s.Resources {
		c.last += r.Objects
		i := slices.IndexFunc(c.status.Resources, func(have v1alpha1.PolicyImpactResource) bool { return have.Resource == r.Resource })
		if i < 0 {
			c.status.Resources = append(c.status.Resources, r)
			continue
		}
		to := &c.status.Resources[i]
		to.Objects, to.Concerned = to.Objects+r.Objects, to.Concerned+r.Concerned
		to.Denied, to.Changed, to.Failed = to.Denied+r.Denied, to.Changed+r.Changed, to.Failed+r.Failed
		to.Warned, to.Shadowed = to.Warned+r.Warned, to.Shadowed+r.Shadowed
	}
	for _, note := range s.Notes {
		if !slices.Contains(c.status.Notes, note) {
			c.status.Notes = append(c.status.Notes, note)
		}
	}
}

func (c *impactCount) print() error {
	if c.flags.format == outputJSON {
		if c.flags.all {
			return json.NewEncoder(c.out).Encode(&v1alpha1.PolicyImpactLine{Status: &c.status})
		}
		return writeJSON(c.out, &v1alpha1.PolicyImpact{TypeMeta: metav1.TypeMeta{APIVersion: "weir.dev/v1alpha1", Kind: "PolicyImpact"}, Spec: c.flags.spec, Status: c.status})
	}
	for i := range c.status.Findings {
		if err := printFinding(c.out, &c.status.Findings[i]); err != nil {
			return err
		}
	}
	if more := c.findings - int64(len(c.status.Findings)); more > 0 && !c.flags.all {
		if _, err := fmt.Fprintf(c.out, "… and %d more\n", more); err != nil {
			return err
		}
	}
	for i := range c.status.Resources {
		r := &c.status.Resources[i]
		if r.NotCounted != "" {
			if _, err := fmt.Fprintf(c.out, "%s: not counted: %s\n", r.Resource, r.NotCounted); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(c.out, "%s: %d objects as %s, %d concerned: %d denied, %d changed, %d failed, %d warned of, %d in shadow\n", r.Resource, r.Objects,
			strings.Join(r.Operations, " and "), r.Concerned, r.Denied, r.Changed, r.Failed, r.Warned, r.Shadowed); err != nil {
			return err
		}
	}
	notes := c.status.Notes
	if !c.status.Complete {
		notes = append(notes, "not all objects were looked at: "+c.status.Reason)
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(c.out, "note:", note); err != nil {
			return err
		}
	}
	return nil
}

func printFinding(w io.Writer, f *v1alpha1.PolicyImpactFinding) error {
	name, by := f.Name, f.Policy
	if f.Namespace != "" {
		name = f.Namespace + "/" + f.Name
	}
	if f.Binding != "" && f.Binding != f.Policy {
		by += " by " + f.Binding
	}
	_, err := fmt.Fprintf(w, "%s %s: %s (%s): %s\n", f.Resource, name, f.Verdict, by, f.Message)
	return err
}

// readObjects reads the objects of a file of YAML or JSON, those of a list one by one.
func readObjects(stdin io.Reader, name string) ([]runtime.RawExtension, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	var objects []runtime.RawExtension
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(from)); ; {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		raw, err := yaml.YAMLToJSONStrict(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if string(raw) == "null" { // comments alone
			continue
		}
		var list struct {
			metav1.TypeMeta
			Items []json.RawMessage `json:"items"`
		}
		if json.Unmarshal(raw, &list) == nil && list.Items != nil {
			for _, item := range list.Items {
				if item, err = itemOf(list.TypeMeta, item); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				objects = append(objects, runtime.RawExtension{Raw: item})
			}
			continue
		}
		objects = append(objects, runtime.RawExtension{Raw: raw})
	}
}

// itemOf gives an item of a list its apiVersion and kind. Items of a list of a built-in kind, as a server sends it, have none.
func itemOf(list metav1.TypeMeta, item []byte) ([]byte, error) {
	kind, ok := strings.CutSuffix(list.Kind, "List")
	if !ok || kind == "" {
		return item, nil
	}
	doc, err := document.Parse(item)
	if err != nil {
		return nil, err
	}
	if doc.Get("kind").Exists() {
		return item, nil
	}
	if doc, err = doc.Edit().Set(list.APIVersion, "apiVersion").Set(kind, "kind").Document(); err != nil {
		return nil, err
	}
	return doc.Bytes(), nil
}
