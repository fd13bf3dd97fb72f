package rego

import (
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// refused are the built-in functions that no policy may call, and why: they
// look outside, or answer otherwise tomorrow.
var refused = map[string]string{
	"http.send":              offline,
	"net.lookup_ip_addr":     offline,
	"opa.runtime":            "policies are evaluated without the environment",
	"rand.intn":              "policies are evaluated without chance",
	"uuid.rfc4122":           "policies are evaluated without chance",
	"providers.aws.sign_req": "it signs requests, and policies are evaluated offline",
	"io.jwt.encode_sign":     "it signs with chance, and policies are evaluated without",
	"io.jwt.encode_sign_raw": "it signs with chance, and policies are evaluated without",
	"trace":                  "it talks to OPA's tracer; print says something to a person",
}

const offline = "policies are evaluated offline"

// capabilities are what a module of a version may use: everything but what is
// refused, and no schema from the network.
func capabilities(v ast.RegoVersion) *ast.Capabilities {
	if v == ast.RegoV0 || v == ast.RegoV0CompatV1 {
		return capabilitiesV0()
	}
	return capabilitiesV1()
}

var (
	capabilitiesV0 = sync.OnceValue(func() *ast.Capabilities { return newCapabilities(ast.RegoV0) })
	capabilitiesV1 = sync.OnceValue(func() *ast.Capabilities { return newCapabilities(ast.RegoV1) })
)

func newCapabilities(v ast.RegoVersion) *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(v))
	c.AllowNet = []string{}
	var kept []*ast.Builtin
	for _, b := range c.Builtins {
		if refused[b.Name] == "" {
			kept = append(kept, b)
		}
	}
	c.Builtins = kept
	return c
}

// refusal says why a function is undefined where that is our doing.
func refusal(message string) string {
	name, ok := strings.CutPrefix(message, "undefined function ")
	if why := refused[name]; ok && why != "" {
		return name + " is not available: " + why
	}
	return message
}
