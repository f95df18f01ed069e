package loader

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

const (
	// policyFilesPause is the time between two looks at the directory of policies.
	policyFilesPause = time.Second
	// maxPolicyFileBytes bounds one file, maxPolicyFiles the directory.
	maxPolicyFileBytes = 4 << 20
	maxPolicyFiles     = 1000
)

// policyFiles are the policies of a directory: those of whoever runs the server, which no client can change or remove. The
// directory is looked at again and again; what is wrong with it leaves in force what was good.
type policyFiles struct {
	dir  string
	seen [sha256.Size]byte
	set  *policySet
}

// policyResourceOf are the resources of the kinds that a file may have.
func policyResourceOf(kind string) (schema.GroupResource, bool) {
	switch kind {
	case "ValidatingAdmissionPolicy":
		return validatingPolicies, true
	case "ValidatingAdmissionPolicyBinding":
		return validatingBindings, true
	case "MutatingAdmissionPolicy":
		return mutatingPolicies, true
	case "MutatingAdmissionPolicyBinding":
		return mutatingBindings, true
	}
	return schema.GroupResource{}, false
}

// read reads the directory. changed is false when it has what it had; the error names the file.
func (f *policyFiles) read(ctx context.Context, l *Loader) (set *policySet, changed bool, err error) {
	names, err := filepath.Glob(filepath.Join(f.dir, "*"))
	if err != nil {
		return nil, false, err
	}
	if len(names) > maxPolicyFiles {
		return nil, false, fmt.Errorf("policy directory %s: %d files are more than %d", f.dir, len(names), maxPolicyFiles)
	}
	type file struct {
		name string
		text []byte
	}
	var files []file
	sum := sha256.New()
	for _, name := range names {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			continue
		}
		text, err := readPolicyFile(name)
		if err != nil {
			return nil, false, err
		}
		files = append(files, file{name, text})
		_, _ = fmt.Fprintf(sum, "%s %d\n", name, len(text))
		_, _ = sum.Write(text)
	}
	now := [sha256.Size]byte(sum.Sum(nil))
	if f.set != nil && now == f.seen {
		return f.set, false, nil
	}
	f.seen = now // also of what is wrong: it is told once
	set = newPolicySet(l.policies.engines)
	for _, file := range files {
		before := maps.Clone(set.policies)
		if err := l.addPolicies(ctx, set, file.text); err != nil {
			return nil, true, fmt.Errorf("%s: %w", file.name, err)
		}
		for key, state := range set.policies {
			if before[key] == nil && state.inForce != nil {
				state.inForce.Origin = fmt.Sprintf("the file %s in the server's --policy-dir", filepath.Base(file.name))
			}
		}
	}
	return set, true, nil
}

func readPolicyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxPolicyFileBytes+1))
	if err == nil && len(text) > maxPolicyFileBytes {
		err = fmt.Errorf("%s: larger than %d bytes", name, maxPolicyFileBytes)
	}
	return text, err
}

// addPolicies adds the objects of a file to a set, defaulted and validated as a write of them would be.
func (l *Loader) addPolicies(ctx context.Context, set *policySet, text []byte) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(part)) == 0 {
			continue
		}
		if part, err = yaml.YAMLToJSONStrict(part); err != nil {
			return err
		}
		if string(part) == "null" { // comments alone
			continue
		}
		obj, err := document.Parse(part)
		if err != nil {
			return err
		}
		if err := l.addPolicy(ctx, set, obj); err != nil {
			return fmt.Errorf("%s %q: %w", obj.Get("kind").String(), rest.MetaOf(obj).Name(), err)
		}
	}
}

func (l *Loader) addPolicy(ctx context.Context, set *policySet, obj *document.Document) error {
	gr, ok := policyResourceOf(obj.Get("kind").String())
	if version := obj.Get("apiVersion").String(); !ok || version != admissionGroup+"/v1" && version != admissionGroup+"/v1beta1" {
		return fmt.Errorf("not a policy or binding of %s/v1", admissionGroup)
	}
	name := rest.MetaOf(obj).Name()
	if name == "" {
		return errors.New("metadata.name is required")
	}
	if slices.Contains(set.names(gr), name) {
		return errors.New("is there twice")
	}
	stored, ok := l.builtin(gr).(interface {
		Default(ctx context.Context, obj *document.Document) (*document.Document, error)
	})
	if !ok {
		return fmt.Errorf("%s is not served", gr)
	}
	obj, err := stored.Default(ctx, obj)
	if err != nil {
		return err
	}
	errs, err := PolicyGuard(set.engines, l.cfg.Rego, gr).Validate(ctx, obj)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return errs.ToAggregate()
	}
	_, err = set.apply(gr, obj)
	return err
}

// openPolicyFiles reads the directory for the first time: a server does not start without policies that it was told to have.
func (l *Loader) openPolicyFiles() error {
	if l.cfg.PolicyDir == "" {
		return nil
	}
	if info, err := os.Stat(l.cfg.PolicyDir); err != nil || !info.IsDir() {
		return fmt.Errorf("policy directory %s is not a directory: %w", l.cfg.PolicyDir, err)
	}
	l.files = &policyFiles{dir: l.cfg.PolicyDir}
	set, _, err := l.files.read(context.Background(), l)
	if err != nil {
		return fmt.Errorf("policy directory: %w", err)
	}
	l.files.set = set
	return nil
}

// followPolicyFiles looks at the directory again and again.
func (l *Loader) followPolicyFiles(ctx context.Context) {
	if l.files == nil {
		return
	}
	ticker := l.cfg.Clock.NewTicker(policyFilesPause)
	defer ticker.Stop()
	told := ""
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		set, changed, err := l.files.read(ctx, l)
		if !changed && (err == nil || err.Error() == told) {
			continue
		}
		l.cfg.Metrics.outcome("PolicyDirectory", err)
		if err != nil {
			told = err.Error()
			l.cfg.Logger.Warn("policy directory is refused; the last known good stays in force", "error", err)
			continue
		}
		l.mu.Lock()
		l.files.set = set
		l.publishLocked()
		l.mu.Unlock()
		l.cfg.Logger.Info("policy directory is in force", "dir", l.files.dir)
	}
}

// indexLocked is the index of all policies in force.
func (l *Loader) indexLocked() *policy.Index {
	if l.cfg.SuspendPolicies {
		return nil
	}
	list := l.policies.inForce()
	if l.files != nil {
		list = append(list, l.files.set.inForce()...)
	}
	if len(list) == 0 {
		return nil
	}
	return policy.NewIndex(list)
}
