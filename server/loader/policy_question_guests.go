package loader

import (
	"context"
	"encoding/json"
	"fmt"

	"weir.dev/weir/server/extension"
)

// maxImpactSettings bounds the modules that a question has loaded with settings that nothing in force has.
const maxImpactSettings = 8

// ownGuest names a module with settings that was loaded for a question.
type ownGuest struct{ digest, settings string }

// questionGuests returns the modules of a question, which holds a reference to each: those in force where they have the
// settings, else its own. One goroutine uses it.
type questionGuests struct {
	loader   *Loader
	question *question
	own      map[ownGuest]configured
}

// guest returns a module, configured with settings, and its digest.
func (g *questionGuests) guest(ctx context.Context, name string, settings json.RawMessage) (*extension.SharedModule, string, error) {
	key, err := settingsKey(settings)
	if err != nil {
		return nil, "", fmt.Errorf("settings of module[%s]: %w", name, err)
	}
	m, found, err := g.inForce(name, key)
	switch {
	case err != nil:
		return nil, "", err
	case found.module != nil || found.err != nil:
		return found.module, m.digest, found.err
	}
	as := ownGuest{m.digest, key}
	if c, ok := g.own[as]; ok {
		return c.module, m.digest, c.err
	}
	if len(g.own) == maxImpactSettings {
		return nil, "", fmt.Errorf("a question may have %d settings of modules that are not in force, and has more", maxImpactSettings)
	}
	data, err := g.loader.artefacts.get(m.digest)
	if err != nil {
		return nil, "", fmt.Errorf("module[%s]: %w", name, err)
	}
	c := g.loader.configure(ctx, m, key, data)
	g.own[as] = c
	if c.module != nil {
		g.question.uses = append(g.question.uses, c.module) // the reference that it was loaded with
	}
	return c.module, m.digest, c.err
}

// inForce returns what is in force of a module, which the question then uses, and how that was configured with settings:
// nothing where it was not.
func (g *questionGuests) inForce(name, key string) (*loadedModule, configured, error) {
	l := g.loader
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := l.inForceLocked(name)
	if err != nil {
		return nil, configured{}, err
	}
	g.hold(m.base) // its code stays compiled
	if key == "" {
		return m, configured{module: m.base}, nil
	}
	c := m.bySettings[key]
	if c.module != nil {
		g.hold(c.module)
	}
	return m, c, nil
}

// hold acquires a module that is in force, so that this cannot fail.
func (g *questionGuests) hold(m *extension.SharedModule) {
	m.Acquire()
	g.question.uses = append(g.question.uses, m)
}
