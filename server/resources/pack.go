package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"sigs.k8s.io/yaml"
)

// Pack is one file of definitions: one API group, or a part of one.
type Pack struct {
	// Group is the API group; empty for core.
	Group string `json:"group"`
	// Versions of the group, in order of preference; those of an earlier pack
	// of the same group come first.
	Versions []string `json:"versions"`
	// Models is the prefix of the group's model names before the version, such
	// as io.k8s.api.apps. It gives versions without a schema of their own the
	// schema <models>.<version>.<kind>.
	Models string `json:"models"`
	// RuleSets are named lists of rules for Use. Their paths and bases are
	// relative.
	RuleSets map[string][]DefaultRule `json:"ruleSets,omitempty"`
	// Resources of the group.
	Resources []packResource `json:"resources"`
}

// packResource is a Definition as a pack writes it.
type packResource struct {
	Definition `json:",inline"`
	// Use adds rule sets at a path of the object, before the resource's own
	// rules.
	Use []ruleUse `json:"use,omitempty"`
}

// ruleUse places the rules of a set at a path. Sets are shared by all packs.
type ruleUse struct {
	Set string `json:"set"`
	// At is the path of the object that the set's paths start from; empty: the
	// root.
	At string `json:"at,omitempty"`
}

// readPacks reads packs.json of fsys or, without one, packs/*.yaml in name
// order.
func readPacks(fsys fs.FS) ([]Pack, error) {
	compiled, err := fs.ReadFile(fsys, "packs.json")
	if err == nil {
		var packs []Pack
		decoder := json.NewDecoder(bytes.NewReader(compiled))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&packs); err != nil {
			return nil, fmt.Errorf("packs.json: %w", err)
		}
		return packs, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, err := fs.Glob(fsys, "packs/*.yaml")
	if err != nil {
		return nil, err
	}
	packs := make([]Pack, 0, len(names))
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		pack := Pack{}
		if err := yaml.UnmarshalStrict(data, &pack); err != nil {
			return nil, fmt.Errorf("pack %s: %w", path.Base(name), err)
		}
		packs = append(packs, pack)
	}
	return packs, nil
}

// definitions turns the pack's resources into complete definitions. sets
// holds the rule sets of all packs.
func (p *Pack) definitions(sets map[string][]DefaultRule) ([]*Definition, error) {
	defs := make([]*Definition, 0, len(p.Resources))
	for i := range p.Resources {
		r := &p.Resources[i]
		d := r.Definition
		d.Group = p.Group
		if d.Resource == "" || d.Kind == "" {
			return nil, fmt.Errorf("group %q: resource %d: resource and kind are required", p.Group, i)
		}
		if len(d.Versions) == 0 {
			return nil, fmt.Errorf("group %q: resource %s: no versions", p.Group, d.Resource)
		}
		for j := range d.Versions {
			v := &d.Versions[j]
			if !slices.Contains(p.Versions, v.Name) {
				return nil, fmt.Errorf("group %q: resource %s: version %q is not one of the group", p.Group, d.Resource, v.Name)
			}
			if v.SchemaName == "" {
				v.SchemaName = p.Models + "." + v.Name + "." + d.Kind
			}
			for k := range v.PrinterColumns {
				if err := v.PrinterColumns[k].Compile(); err != nil {
					return nil, fmt.Errorf("group %q: resource %s: %w", p.Group, d.Resource, err)
				}
			}
		}
		d.Complete()
		if _, ok := d.Version(d.StorageVersion); !ok {
			return nil, fmt.Errorf("group %q: resource %s: no storage version %q", p.Group, d.Resource, d.StorageVersion)
		}
		var rules []DefaultRule
		for _, use := range r.Use {
			set, ok := sets[use.Set]
			if !ok {
				return nil, fmt.Errorf("group %q: resource %s: no rule set %q", p.Group, d.Resource, use.Set)
			}
			for _, rule := range set {
				rule.Base = joinPath(use.At, rule.Base)
				rule.Path = joinPath(use.At, rule.Path)
				rules = append(rules, rule)
			}
		}
		d.Rules = append(rules, d.Rules...)
		defs = append(defs, &d)
	}
	return defs, nil
}

func joinPath(base, rest string) string {
	switch {
	case base == "":
		return rest
	case rest == "":
		return base
	}
	return base + "." + rest
}
