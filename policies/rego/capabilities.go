package rego

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Why a built-in function does not exist here.
const (
	reachesOut  = "a policy reaches nothing but its input"
	notSame     = "a policy must say the same each time"
	noTime      = "it reads the machine's clock; time.now_ns() is the time of the request"
	unbounded   = "what it takes cannot be bounded"
	notAPolicy  = "it is of no use to a policy"
	signsOrKeys = "a policy signs nothing"
)

// refusals by the name of a function; one that ends in a point is a prefix.
var refusals = map[string]string{ // never written to
	"http.send":              reachesOut,
	"net.lookup_ip_addr":     reachesOut,
	"json.match_schema":      reachesOut,
	"json.verify_schema":     reachesOut,
	"opa.runtime":            reachesOut,
	"providers.":             signsOrKeys,
	"io.jwt.encode_sign":     signsOrKeys,
	"io.jwt.encode_sign_raw": signsOrKeys,
	"rand.intn":              notSame,
	"uuid.rfc4122":           notSame,
	"crypto.x509.parse_and_verify_certificates":              noTime,
	"crypto.x509.parse_and_verify_certificates_with_options": noTime,
	"crypto.parse_private_keys":                              unbounded,
	"crypto.x509.parse_keypair":                              unbounded,
	"crypto.x509.parse_rsa_private_key":                      unbounded,
	"graph.reachable_paths":                                  unbounded,
	"regex.globs_match":                                      unbounded,
	"strings.render_template":                                unbounded,
	"graphql.":                                               unbounded,
	"rego.parse_module":                                      notAPolicy,
	"internal.test_case":                                     notAPolicy,
}

// capabilities returns what policies may use, and why not the rest.
func capabilities() (*ast.Capabilities, map[string]string) {
	c, refused := ast.CapabilitiesForThisVersion(), map[string]string{}
	kept := make([]*ast.Builtin, 0, len(c.Builtins))
	for _, b := range c.Builtins {
		why := refusals[b.Name]
		if prefix, _, ok := strings.Cut(b.Name, "."); ok && why == "" {
			why = refusals[prefix+"."]
		}
		if why != "" {
			refused[b.Name] = why
			continue
		}
		kept = append(kept, b)
	}
	c.Builtins = kept
	c.AllowNet = []string{} // none, for what schemas refer to
	return c, refused
}
