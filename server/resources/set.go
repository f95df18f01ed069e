package resources

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Set is a collection of definitions with their schemas. Its methods may be
// called by several goroutines; what they return is shared and read-only.
type Set struct {
	definitions   []*Definition
	byResource    map[schema.GroupResource]*Definition
	groupVersions []schema.GroupVersion

	schemas    schemas
	validation validationSchemas
}

// Load reads the packs of each file system, in order, and remembers where
// schemas and overlays are. A resource that two packs define is an error. See
// the package comment for the layout.
func Load(sources ...fs.FS) (*Set, error) {
	if len(sources) == 0 {
		return nil, errors.New("resources: nothing to load")
	}
	s := &Set{byResource: map[schema.GroupResource]*Definition{}}
	s.schemas.sources = sources
	s.validation.init(&s.schemas, sources)

	var packs []Pack
	for _, source := range sources {
		read, err := readPacks(source)
		if err != nil {
			return nil, fmt.Errorf("resources: %w", err)
		}
		packs = append(packs, read...)
	}
	sets := map[string][]DefaultRule{}
	for i := range packs {
		for name, rules := range packs[i].RuleSets {
			if _, ok := sets[name]; ok {
				return nil, fmt.Errorf("resources: rule set %q is defined twice", name)
			}
			sets[name] = rules
		}
	}
	for i := range packs {
		defs, err := packs[i].definitions(sets)
		if err != nil {
			return nil, fmt.Errorf("resources: %w", err)
		}
		for _, d := range defs {
			if _, ok := s.byResource[d.GroupResource()]; ok {
				return nil, fmt.Errorf("resources: %s is defined twice", d.GroupResource())
			}
			s.byResource[d.GroupResource()] = d
		}
		s.definitions = append(s.definitions, defs...)
		for _, version := range packs[i].Versions {
			gv := schema.GroupVersion{Group: packs[i].Group, Version: version}
			if !slices.Contains(s.groupVersions, gv) {
				s.groupVersions = append(s.groupVersions, gv)
			}
		}
	}
	return s, nil
}

// Definitions lists all resources, in the order of the packs.
func (s *Set) Definitions() []*Definition { return s.definitions }

// Definition finds a resource.
func (s *Set) Definition(gr schema.GroupResource) (*Definition, bool) {
	d, ok := s.byResource[gr]
	return d, ok
}

// GroupVersions lists the versions of all groups; those of one group are in
// order of preference.
func (s *Set) GroupVersions() []schema.GroupVersion { return s.groupVersions }
