package rego

import (
	"fmt"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// allowed lists the built-in functions that a policy may call: their results depend
// on their operands alone. time.now_ns is among them, since it returns the question's
// time; so are deprecated functions, which OPA itself refuses in v1. A
// test holds that each function of OPA is here or in refused, so that an upgrade asks
// for a decision.
var allowed = wordSet(`
	abs all and any array.concat array.flatten array.reverse array.slice assign
	base64.decode base64.encode base64.is_valid base64url.decode base64url.encode
	base64url.encode_no_pad bits.and bits.lsh bits.negate bits.or bits.rsh
	bits.xor cast_array cast_boolean cast_null cast_object cast_set cast_string
	ceil concat contains count crypto.hmac.equal crypto.hmac.md5 crypto.hmac.sha1
	crypto.hmac.sha256 crypto.hmac.sha512 crypto.md5 crypto.parse_private_keys
	crypto.sha1 crypto.sha256
	crypto.x509.parse_and_verify_certificates_with_options
	crypto.x509.parse_certificate_request crypto.x509.parse_certificates
	crypto.x509.parse_keypair crypto.x509.parse_rsa_private_key div endswith eq
	equal floor format_int glob.match glob.quote_meta graph.reachable
	graph.reachable_paths graphql.is_valid graphql.parse graphql.parse_and_verify
	graphql.parse_query graphql.parse_schema graphql.schema_is_valid gt gte
	hex.decode hex.encode indexof indexof_n internal.member_2 internal.member_3
	internal.print internal.template_string internal.test_case intersection
	io.jwt.decode io.jwt.decode_verify io.jwt.verify_eddsa io.jwt.verify_es256
	io.jwt.verify_es384 io.jwt.verify_es512 io.jwt.verify_hs256
	io.jwt.verify_hs384 io.jwt.verify_hs512 io.jwt.verify_ps256
	io.jwt.verify_ps384 io.jwt.verify_ps512 io.jwt.verify_rs256
	io.jwt.verify_rs384 io.jwt.verify_rs512 is_array is_boolean is_null is_number
	is_object is_set is_string json.filter json.is_valid json.marshal
	json.marshal_with_options json.match_schema json.patch json.remove
	json.unmarshal json.verify_schema lower lt lte max min minus mul neq
	net.cidr_contains net.cidr_contains_matches net.cidr_expand
	net.cidr_intersects net.cidr_is_valid net.cidr_merge net.cidr_overlap
	numbers.range numbers.range_step object.filter object.get object.keys
	object.remove object.subset object.union object.union_n or plus print product
	re_match regex.find_all_string_submatch_n regex.find_n regex.globs_match
	regex.is_valid regex.match regex.replace regex.split regex.template_match
	rego.metadata.chain rego.metadata.rule rego.parse_module rem replace round
	semver.compare semver.is_valid set_diff sort split sprintf startswith
	strings.any_prefix_match strings.any_suffix_match strings.count
	strings.render_template strings.replace_n strings.reverse strings.split_n
	substring sum time.add_date time.clock time.date time.diff time.format
	time.now_ns time.parse_duration_ns time.parse_ns time.parse_rfc3339_ns
	time.weekday to_number trace trim trim_left trim_prefix trim_right trim_space
	trim_suffix type_name union units.parse units.parse_bytes upper uri.is_valid
	uri.parse urlquery.decode urlquery.decode_object urlquery.encode
	urlquery.encode_object uuid.parse walk yaml.is_valid yaml.marshal
	yaml.unmarshal
`)

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// refused lists the functions that no policy may call, with the reason: they read
// something outside, or their results vary between runs.
var refused = map[string]string{
	"http.send":              offline,
	"net.lookup_ip_addr":     offline,
	"providers.aws.sign_req": "it signs requests, and " + offline,
	"opa.runtime":            "policies are evaluated without the environment",
	"rand.intn":              withoutRandomness,
	"uuid.rfc4122":           withoutRandomness,
	"crypto.x509.parse_and_verify_certificates": "it asks the clock, and crypto.x509.parse_and_verify_certificates_with_options takes the time",
	"io.jwt.encode_sign":                        "it signs with randomness, and " + withoutRandomness,
	"io.jwt.encode_sign_raw":                    "it signs with randomness, and " + withoutRandomness,
}

const (
	offline           = "policies are evaluated offline"
	withoutRandomness = "policies are evaluated without randomness"
)

// capabilities returns the allowed functions of a version, without schemas from the
// network.
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
		if allowed[b.Name] {
			kept = append(kept, b)
		}
	}
	c.Builtins = kept
	return c
}

// A mention is a place where a module names a refused function, in a call or in a
// "with" that replaces another one.
type mention struct {
	file      string
	row, col  int
	namespace string // the first word, which OPA's error names if it is no call
}

// mentions returns the refused functions that modules name, by place.
func mentions(modules map[string]*ast.Module) map[mention]string {
	out := map[mention]string{}
	for _, m := range modules {
		ast.WalkRefs(m, func(r ast.Ref) bool {
			name := r.String()
			if refused[name] == "" || r[0].Location == nil {
				return false
			}
			at := r[0].Location
			out[mention{at.File, at.Row, at.Col, name[:strings.IndexByte(name, '.')]}] = name
			return false
		})
	}
	return out
}

// refuse replaces OPA's message about an undefined function by the reason why it is
// refused.
func refuse(errs ast.Errors, named map[mention]string) {
	for _, e := range errs {
		name, ok := strings.CutPrefix(e.Message, "undefined function ")
		if !ok && e.Location != nil {
			var namespace string
			_, _ = fmt.Sscanf(e.Message, "var %s is unsafe", &namespace)
			name = named[mention{e.Location.File, e.Location.Row, e.Location.Col, namespace}]
		}
		if why := refused[name]; why != "" {
			e.Message = name + " is not available: " + why
		}
	}
}

// externalData is Gatekeeper's function that queries a provider in the cluster.
var externalData = &ast.Builtin{
	Name: "external_data",
	Decl: types.NewFunction(types.Args(types.A), types.A),
}

// ownBuiltins are functions that OPA does not have.
var ownBuiltins = map[string]*topdown.Builtin{
	externalData.Name: {Decl: externalData, Func: askProvider},
}

// askProvider is undefined, and records the provider that the policy needs.
func askProvider(c topdown.BuiltinContext, operands []*ast.Term, _ func(*ast.Term) error) error {
	b, ok := c.Cancel.(*bound)
	if !ok {
		return nil
	}
	what := "external data"
	if o, ok := operands[0].Value.(ast.Object); ok {
		if t := o.Get(ast.InternedTerm("provider")); t != nil && textOf(t) != "" {
			what = "external data of provider " + textOf(t)
		}
	}
	b.ask(what)
	return nil
}

// needsTime is the entry of Answer.Unknown if a policy asks for the time and the
// question gives none.
const needsTime = "to know the time"

// timed lists the built-in functions that may read the time, each with a test of
// whether a call does. They get the question's time, never the clock's.
var timed = map[string]func(operands []*ast.Term) bool{
	"time.now_ns":          func([]*ast.Term) bool { return true },
	"io.jwt.decode_verify": func(operands []*ast.Term) bool { return !hasKey(operands[1], "time") },
	verifyCertificates:     func(operands []*ast.Term) bool { return !hasKey(operands[1], currentTime) },
}

const (
	verifyCertificates = "crypto.x509.parse_and_verify_certificates_with_options"
	currentTime        = "CurrentTime"
)

func hasKey(t *ast.Term, key string) bool {
	o, ok := t.Value.(ast.Object)
	return ok && o.Get(ast.StringTerm(key)) != nil
}

// byQuestion gives a function the time of the question. If that is unknown, the
// function is undefined and the need is recorded.
func byQuestion(asks func([]*ast.Term) bool, f topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(c topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if b, ok := c.Cancel.(*bound); ok && b.timeless && asks(operands) {
			b.ask(needsTime)
			return nil
		}
		return f(c, operands, iter)
	}
}

// withTime adds the question's time to the options of a function that would read the
// clock.
func withTime(f topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(c topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if o, ok := operands[1].Value.(ast.Object); ok && !hasKey(operands[1], currentTime) {
			o = o.Copy()
			o.Insert(ast.StringTerm(currentTime), c.Time)
			operands = []*ast.Term{operands[0], ast.NewTerm(o)}
		}
		return f(c, operands, iter)
	}
}
