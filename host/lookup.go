package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/lookup"
)

// Lookuper finds the objects that guests look up.
type Lookuper = lookup.Lookuper

// Authorizer tells guests what users may do.
type Authorizer = lookup.Authorizer

// Fuel of what an import does beside copying, at some 500 units a microsecond.
const (
	lookupFuel    = 2_500 // reading a request and finding what it wants
	lookupItems   = 50    // each object
	lookupScan    = 50    // each object that was looked at and not selected
	bytesPerMask  = 2     // of objects whose fields are picked
	authorizeFuel = 2_500
)

// Lookup is the record of one look-up.
type Lookup struct {
	// Group and Resource, Namespace, Name and the selectors of the request.
	Group, Resource, Namespace, Name, LabelSelector, FieldSelector string
	// ResourceVersion that was seen: of the list, or of the one object; empty
	// if that is absent.
	ResourceVersion string
	// Items is how many objects there were.
	Items int
	// More were left out because of the limit.
	More bool
}

// String spells a record in one line: lookup:configmaps shop/limits: 1 item at
// resourceVersion 12.
func (l *Lookup) String() string {
	text := abi.LookupCapability(l.Group, l.Resource)
	switch {
	case l.Name != "" && l.Namespace != "":
		text += " " + l.Namespace + "/" + l.Name
	case l.Name != "":
		text += " " + l.Name
	case l.Namespace != "":
		text += " " + l.Namespace + "/*"
	default:
		text += " *"
	}
	for _, s := range []string{l.LabelSelector, l.FieldSelector} {
		if s != "" {
			text += " where " + s
		}
	}
	switch {
	case l.Items == 0 && l.Name != "":
		return text + ": absent"
	case l.Items == 1:
		text += ": 1 item"
	default:
		text += fmt.Sprintf(": %d items", l.Items)
	}
	if l.More {
		text += " and more"
	}
	if l.ResourceVersion == "" {
		return text
	}
	return text + " at resourceVersion " + l.ResourceVersion
}

// looker is what an invocation remembers of look-ups.
type looker struct {
	// loading: the guest is described, configured or warmed up.
	loading      bool
	capabilities []string // asked for and granted
	objects      Lookuper
	authorizer   Authorizer

	counted     int
	scanned     int // objects
	authorized  int
	found       []Lookup
	lastRequest []byte // nil: there is none
	lastAnswer  []byte
}

// notReady stops the guest: without an answer it must not come to a verdict.
func (c *invocation) notReady(what string, err error) {
	s := &stop{class: ClassNotReady, msg: what, err: err}
	if err != nil {
		s.msg += ": " + err.Error()
	}
	if c.Context.Err() != nil {
		s.class = ClassDeadline
	}
	panic(s)
}

// untilDeadline bounds a wait by the time that the call has left.
func (c *invocation) untilDeadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Context, c.deadline.Sub(c.now()))
}

// importLookup is abi.ImportLookup(req, req_len, buf, cap).
func importLookup(c *invocation, args []uint64) int32 {
	n := uint32(args[1])
	if n > abi.MaxLookupRequestBytes {
		return fail(abi.E2BIG)
	}
	c.charge(int(n))
	raw, ok := c.guest.memory.Read(uint32(args[0]), n)
	if !ok {
		return fail(abi.EFAULT)
	}
	if c.look.lastRequest == nil || !bytes.Equal(raw, c.look.lastRequest) {
		answer, err := c.lookup(raw)
		if err != nil {
			var e abi.Errno
			if !errors.As(err, &e) {
				e = abi.EINVAL
			}
			return fail(e)
		}
		c.look.lastRequest, c.look.lastAnswer = bytes.Clone(raw), answer
	}
	return c.give(c.look.lastAnswer, args[2], args[3])
}

// lookup answers a request. The error is an abi.Errno.
func (c *invocation) lookup(raw []byte) ([]byte, error) {
	c.charge(lookupFuel) // what is refused has been read too
	q, err := lookup.ParseQuery(raw)
	if err != nil {
		return nil, err
	}
	if c.look.loading || !slices.Contains(c.look.capabilities, q.Capability()) {
		return nil, abi.EPERM
	}
	if c.look.counted == abi.MaxLookups || c.look.scanned >= abi.MaxLookupRows {
		return nil, abi.E2BIG
	}
	c.look.counted++
	if c.look.objects == nil {
		c.notReady(q.Capability()+": there is nothing to look it up in here", nil)
	}
	ctx, cancel := c.untilDeadline()
	defer cancel()
	q.MaxScan = abi.MaxLookupRows - c.look.scanned
	found, err := c.look.objects.Lookup(ctx, q)
	var refused abi.Errno
	switch {
	case errors.As(err, &refused):
		if refused == abi.E2BIG { // it went through all that it may
			c.look.scanned += q.MaxScan
			c.charge(q.MaxScan * lookupScan)
			c.test()
		}
		return nil, refused
	case err != nil:
		c.notReady(q.Capability()+" cannot be looked up now", err)
	}
	record := Lookup{
		Group: q.Group, Resource: q.Resource, Namespace: q.Namespace, Name: q.Name, LabelSelector: q.LabelSelector, FieldSelector: q.FieldSelector,
		ResourceVersion: found.ResourceVersion, Items: len(found.Items), More: found.More,
	}
	c.look.found = append(c.look.found, record)
	c.look.scanned += found.Scanned
	c.charge(max(found.Scanned-len(found.Items), 0) * lookupScan)
	per := bytesPerFuel
	if len(q.Fields) > 0 {
		per = bytesPerMask
	}
	c.charge(len(found.Items)*lookupItems + found.Read()/per)
	c.test() // before the work that is paid with it
	return q.Answer(found)
}

// importAuthorize is abi.ImportAuthorize(req, req_len).
func importAuthorize(c *invocation, args []uint64) int32 {
	n := uint32(args[1])
	if n > abi.MaxAuthorizeRequestBytes {
		return fail(abi.E2BIG)
	}
	c.charge(int(n))
	raw, ok := c.guest.memory.Read(uint32(args[0]), n)
	if !ok {
		return fail(abi.EFAULT)
	}
	c.charge(authorizeFuel) // what is refused has been read too
	a, err := lookup.ParseAuthorize(raw)
	if err != nil {
		return fail(abi.EINVAL)
	}
	if c.look.loading || !slices.Contains(c.look.capabilities, abi.CapabilityAuthorize) {
		return fail(abi.EPERM)
	}
	if c.look.authorized == abi.MaxAuthorize {
		return fail(abi.E2BIG)
	}
	c.look.authorized++
	if c.look.authorizer == nil {
		c.notReady("authorize: there is nobody to ask here", nil)
	}
	ctx, cancel := c.untilDeadline()
	defer cancel()
	allowed, err := c.look.authorizer.Authorize(ctx, a)
	var refused abi.Errno
	switch {
	case errors.As(err, &refused):
		return fail(refused)
	case err != nil:
		c.notReady("authorize: there is no answer now", err)
	}
	if allowed {
		return 1
	}
	return 0
}

// checkCapabilities compares what a module imports, what its manifest asks for,
// and what was granted.
func (m *Module) checkCapabilities() error {
	asked := m.manifest.Capabilities
	for _, c := range asked {
		if !abi.ValidCapability(c) {
			return &Error{Class: ClassABIMismatch, Message: fmt.Sprintf("manifest: capability %q does not exist; there are %q and %q", c, abi.CapabilityLookupPrefix+"<resource>[.<group>]", abi.CapabilityAuthorize)}
		}
	}
	looks := func(c string) bool { return c != abi.CapabilityAuthorize }
	if m.artefact.importsABI(abi.ImportLookup) && !slices.ContainsFunc(asked, looks) {
		return &Error{Class: ClassCapability, Message: `imports "weir.v1"."lookup", and its manifest does not say for what: name each resource among its capabilities, as in "lookup:configmaps"`}
	}
	if m.artefact.importsABI(abi.ImportAuthorize) && !slices.Contains(asked, abi.CapabilityAuthorize) {
		return &Error{Class: ClassCapability, Message: `imports "weir.v1"."authorize", and its manifest does not ask for it: name "authorize" among its capabilities`}
	}
	return nil
}

// checkGrants tells which capability was not granted.
func (m *Module) checkGrants() error {
	missing := abi.Missing(m.config.Capabilities, m.manifest.Capabilities)
	if len(missing) == 0 || m.config.GrantAll {
		return nil
	}
	return &Error{Class: ClassCapability, Missing: missing, Message: missingMessage(m.config.Capabilities, missing)}
}

// missingMessage names what is missing, and the line that grants it.
func missingMessage(granted, missing []string) string {
	verb := "is"
	if len(missing) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("asks for %s, which %s not granted; to grant it: %s", quoted(missing), verb, GrantLine(append(slices.Clone(granted), missing...)))
}

// GrantLine is how a Module grants capabilities, in YAML.
func GrantLine(capabilities []string) string {
	return "spec.capabilities: [" + quoted(capabilities) + "]"
}

func quoted(texts []string) string {
	var b []byte
	for i, text := range texts {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q", text)
	}
	return string(b)
}
