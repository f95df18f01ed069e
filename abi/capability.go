package abi

import "strings"

// Capabilities are what a guest may be granted beside the documents of its
// calls. A manifest asks for them by these names, and the object that names
// the module (spec.capabilities of a Module) grants them by the same.
const (
	// CapabilityAuthorize is that of the authorize import.
	CapabilityAuthorize = "authorize"
	// CapabilityLookupPrefix begins those of the lookup import:
	// lookup:<resource> of the core group, lookup:<resource>.<group> of
	// another. A grant may be wider: lookup:* is every resource but secrets,
	// lookup:*.<group> all of a group. Secrets are granted by name only.
	CapabilityLookupPrefix = "lookup:"
)

// secrets can only be granted by name.
const secrets = "secrets"

// LookupCapability is the capability to look up a resource:
// "lookup:configmaps", "lookup:deployments.apps".
func LookupCapability(group, resource string) string {
	if group == "" {
		return CapabilityLookupPrefix + resource
	}
	return CapabilityLookupPrefix + resource + "." + group
}

// ParseLookup is the inverse of [LookupCapability]. It is false for other
// capabilities and for text that is none. The resource is * in a wide grant;
// the group of lookup:* is then * as well.
func ParseLookup(capability string) (group, resource string, ok bool) {
	rest, ok := strings.CutPrefix(capability, CapabilityLookupPrefix)
	if !ok {
		return "", "", false
	}
	if rest == "*" {
		return "*", "*", true
	}
	resource, group, dotted := strings.Cut(rest, ".")
	if resource != "*" && !isLabel(resource) {
		return "", "", false
	}
	if !dotted {
		return "", resource, true
	}
	for label := range strings.SplitSeq(group, ".") {
		if !isLabel(label) {
			return "", "", false
		}
	}
	return group, resource, true
}

// isLabel tells whether s is a DNS label (RFC 1123).
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// ValidCapability tells whether a manifest may ask for a capability: it is
// known, and without wildcards.
func ValidCapability(capability string) bool {
	_, resource, ok := ParseLookup(capability)
	return capability == CapabilityAuthorize || ok && resource != "*"
}

// ValidGrant tells whether a capability may be granted: like
// [ValidCapability], or a lookup with a wildcard.
func ValidGrant(capability string) bool {
	_, _, ok := ParseLookup(capability)
	return capability == CapabilityAuthorize || ok
}

// Granted tells whether grants include a capability that is asked for.
func Granted(grants []string, capability string) bool {
	group, resource, lookup := ParseLookup(capability)
	if resource == "*" {
		return false
	}
	for _, g := range grants {
		if g == capability {
			return true
		}
		if !lookup || group == "" && resource == secrets {
			continue
		}
		if in, of, ok := ParseLookup(g); ok && of == "*" && (in == "*" || in == group) {
			return true
		}
	}
	return false
}

// Missing are the capabilities that are asked for and not granted, in order.
func Missing(grants, asked []string) []string {
	var missing []string
	for _, c := range asked {
		if !Granted(grants, c) {
			missing = append(missing, c)
		}
	}
	return missing
}
