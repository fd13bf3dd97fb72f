package rego

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A namespace is a package of rules about objects.
type namespace struct {
	name        string
	rules       []*rule
	exceptions  *opa.Query // nil: it defines none
	exempting   []string   // the places of its exceptions
	assumptions []string
}

// A rule is a rule that conftest evaluates: all definitions of a package with
// one name.
type rule struct {
	doc         policy.Rule
	action      policy.Action
	suffix      string // name of the rule in exceptions
	ref         ast.Ref
	query       *opa.Query
	isSet       bool // the value is a set for every input
	bodies      []body
	assumptions []string
	slow        atomic.Int32 // how often it took too long
}

// A body is one definition of a rule.
type body struct {
	origin   render.Span
	severity policy.Severity
	literals []string // strings that it compares with
}

// entry matches the names of rules that conftest evaluates, and warning those
// whose violations are warnings.
var (
	entry   = regexp.MustCompile(`^(deny|violation|warn)(_[a-zA-Z0-9]+)*$`)
	warning = regexp.MustCompile(`^warn(_|$)`)
)

// matches reports whether a package is one of those in --rego-namespace.
func matches(patterns []string, name string) bool {
	if len(patterns) == 0 {
		return true
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok || err != nil && p == name
	})
}

// checkPatterns adds errors for packages in --rego-namespace that do not exist.
// With such a package conftest passes every object.
func (s *sources) checkPatterns(patterns, names []string) {
	for _, p := range patterns {
		if slices.ContainsFunc(names, func(name string) bool { return matches([]string{p}, name) }) {
			continue
		}
		s.errs = append(s.errs, &render.Error{
			Rule: "namespace", Warning: true, Hint: render.DidYouMean(p, names),
			Err: &policy.NamedError{Policy: p, Err: errNoPackage(p)},
		})
	}
}

type errNoPackage string

func (e errNoPackage) Error() string {
	return "--rego-namespace " + string(e) + " checks nothing: it matches no package"
}

// namespace prepares a package, or records why it can't be evaluated.
func (s *sources) namespace(program *opa.Program, name string) *namespace {
	n := &namespace{name: name, assumptions: s.assumptions(name)}
	names, at := s.entries(name)
	for _, rule := range names {
		if r := s.rule(program, n, rule, at[rule]); r != nil {
			n.rules = append(n.rules, r)
		}
	}
	if len(names) == 0 {
		s.checkUnused(name)
		return nil
	}
	s.checkFunctions(name)
	s.exceptions(program, n)
	return n
}

// exceptions prepares a package's exceptions, or records why they exempt nothing.
func (s *sources) exceptions(program *opa.Program, n *namespace) {
	ref := s.packagePath(n.name).Append(ast.StringTerm("exception"))
	rules := program.Rules(ref)
	if len(rules) == 0 {
		return
	}
	if _, err := program.Prepare(append(ref, ast.VarTerm("list"), ast.VarTerm("name"))); err != nil {
		s.failAt(s.byFile(rules[0].Location.File), rules[0].Location, "entry-rule", "write `exception contains rules if { rules := [\"name\"] }`",
			"%s.exception does not contain lists of names of rules: it exempts nothing, and conftest fails", n.name)
		return
	}
	n.exceptions, _ = program.Prepare(ref)
	for _, b := range bodies(program, rules) {
		n.exempting = append(n.exempting, b.origin.String())
	}
}

func (s *sources) byFile(file string) *source {
	return s.all[slices.IndexFunc(s.all, func(src *source) bool { return src.file == file })]
}

// checkFunctions adds an error for each function of a package whose name is that of a
// rule that conftest evaluates.
func (s *sources) checkFunctions(pkg string) {
	for _, src := range s.of[pkg] {
		if src.out() {
			continue
		}
		seen := map[string]bool{}
		for _, r := range src.module.Rules {
			name := ruleName(r)
			if seen[name] || len(r.Head.Args) == 0 || !entry.MatchString(name) {
				continue
			}
			seen[name] = true
			s.failAt(src, r.Location, "entry-rule", "call it something else", "%s.%s is a function: nothing is ever violated, and conftest fails", pkg, name)
		}
	}
}

func (s *sources) packagePath(name string) ast.Ref {
	for _, src := range s.of[name] {
		if !src.out() {
			return slices.Clone(src.module.Package.Path)
		}
	}
	return nil
}

// entries returns the names in a package that conftest evaluates, in order,
// with the source of each.
func (s *sources) entries(pkg string) ([]string, map[string]*source) {
	at := map[string]*source{}
	for _, src := range s.of[pkg] {
		if src.out() {
			continue
		}
		for _, r := range src.module.Rules {
			name := ruleName(r)
			if entry.MatchString(name) && len(r.Head.Args) == 0 && at[name] == nil {
				at[name] = src
			}
		}
	}
	return slices.Sorted(maps.Keys(at)), at
}

// rule prepares a rule, or records why conftest would never find it violated.
func (s *sources) rule(program *opa.Program, n *namespace, name string, src *source) *rule {
	ref := s.packagePath(n.name).Append(ast.StringTerm(name))
	rules := program.Rules(ref)
	if len(rules) == 0 {
		s.failAt(src, firstRule(src, name), "entry-rule", "name it "+strings.ReplaceAll(flat(src, name), ".", "_"),
			"conftest evaluates %s.%s, but not the rules below it: nothing is ever violated", n.name, name)
		return nil
	}
	if only := constants(rules); only != "" {
		s.failAt(src, firstRule(src, name), "entry-rule", "write `"+name+" contains msg if { ... }`",
			"%s.%s is %s and not a set of messages, which conftest treats as a pass", n.name, name, only)
		return nil
	}
	query, err := program.Prepare(ref)
	if err != nil {
		s.fail(src, "compile", err)
		return nil
	}
	r := &rule{ref: ref, query: query, isSet: isSet(rules), bodies: bodies(program, rules), action: policy.Deny, suffix: suffix(name), assumptions: n.assumptions}
	if warning.MatchString(name) {
		r.action = policy.Warn
	}
	r.doc = document(program, rules)
	r.doc.Engine, r.doc.Policy, r.doc.Name, r.doc.Action, r.doc.Origin = policy.EngineRego, n.name, name, r.action, r.bodies[0].origin
	return r
}

func firstRule(src *source, name string) *ast.Location {
	for _, r := range src.module.Rules {
		if ruleName(r) == name {
			return r.Location
		}
	}
	return nil
}

// flat returns the whole name of a rule.
func flat(src *source, name string) string {
	for _, r := range src.module.Rules {
		if ruleName(r) == name {
			return strings.Join(append([]string{name}, ground(append(ast.Ref{ast.DefaultRootDocument}, r.Head.Ref()[1:]...))...), ".")
		}
	}
	return name
}

// constants describes the constant value of a rule if it can't be a set.
func constants(rules []*ast.Rule) string {
	what := ""
	for _, r := range rules {
		if r.Head.DocKind() != ast.CompleteDoc || r.Head.Value == nil || len(r.Head.Reference) > 1 {
			return ""
		}
		switch r.Head.Value.Value.(type) {
		case ast.Boolean:
			what = cmp.Or(what, "true or false")
		case ast.String:
			what = cmp.Or(what, "a string")
		case ast.Number, ast.Null:
			what = cmp.Or(what, "a constant")
		default:
			return ""
		}
	}
	return what
}

// suffix returns the name of a rule in exceptions, as conftest derives it.
func suffix(name string) string {
	switch name {
	case "deny", "violation", "warn":
		return ""
	}
	for _, prefix := range []string{"violation_", "deny_", "warn_"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

// bodies returns the definitions of a rule, in the order of their places.
func bodies(program *opa.Program, rules []*ast.Rule) []body {
	var all []body
	for _, r := range rules {
		all = append(all, body{locationSpan(r.Location), severity(program.Annotations(r)), opa.Literals(r.Body)})
	}
	slices.SortFunc(all, func(a, b body) int { return byPlace(a.origin, b.origin) })
	return all
}

// checkUnused adds an error for a package without rules that conftest evaluates,
// unless another package uses it.
func (s *sources) checkUnused(pkg string) {
	var first *source
	for _, src := range s.of[pkg] {
		if !src.out() && !src.test && first == nil {
			first = src
		}
	}
	if first == nil || s.isUsed(pkg) {
		return
	}
	s.failAt(first, first.module.Package.Location, "no-entry-rule", s.nearMiss(pkg),
		"package %s defines no deny, violation or warn rule, and no other package uses it", pkg)
}

// onlyTests reports whether a module tests others, and has no rules itself.
func onlyTests(m *ast.Module) bool {
	tests := strings.HasSuffix(nameOf(m.Package.Path), "_test")
	for _, r := range m.Rules {
		switch name := ruleName(r); {
		case entry.MatchString(name), meantFor(name) != "" && r.Head.DocKind() == ast.PartialSetDoc:
			return false
		case isTest(name):
			tests = true
		}
	}
	return tests
}

// isUsed reports whether a policy of another package uses a package.
func (s *sources) isUsed(pkg string) bool {
	if slices.ContainsFunc(s.of[pkg], func(src *source) bool { return src.broken }) {
		return true // it has an error already, and may define anything
	}
	return slices.ContainsFunc(s.all, func(src *source) bool {
		return src.pkg != pkg && !src.test && slices.ContainsFunc(src.uses, func(u use) bool { return u.reaches(pkg) })
	})
}

// nearMiss returns a hint at a rule whose name is similar to one that conftest
// evaluates.
func (s *sources) nearMiss(pkg string) string {
	for _, src := range s.of[pkg] {
		if src.out() {
			continue
		}
		for _, r := range src.module.Rules {
			switch meant := meantFor(ruleName(r)); {
			case meant == "":
			case len(r.Head.Args) > 0:
				return ruleName(r) + " is a function, which conftest does not evaluate"
			default:
				return "did you mean " + meant + " with " + ruleName(r) + "?"
			}
		}
	}
	return ""
}

// synonyms maps names of rules in other tools to conftest's.
var synonyms = map[string]string{
	"denied": "deny", "denies": "deny", "error": "deny", "errors": "deny", "fail": "deny", "failure": "deny", "failures": "deny", "reject": "deny",
	"warning": "warn", "warnings": "warn", "violate": "violation", "violates": "violation",
}

// meantFor returns the name that conftest evaluates, for a similar name that it
// does not.
func meantFor(name string) string {
	base, _, _ := strings.Cut(name, "_")
	base = strings.ToLower(base)
	if s := synonyms[base]; s != "" {
		return s
	}
	for _, known := range []string{"deny", "violation", "warn"} {
		if strings.HasPrefix(base, known) || render.Nearest(base, []string{known}) != "" {
			return known
		}
	}
	return ""
}
