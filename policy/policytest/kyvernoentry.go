package policytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A kyvernoEntry is one of a test's results: what is expected of one rule for
// some resources.
type kyvernoEntry struct {
	Case
	t         *kyvernoTest
	at        map[string]node
	resources []node
	specs     []resourceSpec
	flags     []string // isValidatingPolicy and such, that are true

	patched, generated []*render.Object
	hasPatched         bool
	hasGenerated       bool
	sources            []*render.Object
	failOnMissing      bool
}

// A resourceSpec names a resource by group, version, namespace and name.
type resourceSpec struct {
	node
	group, version, namespace, called string
}

var kyvernoFlags = map[string]string{
	"isValidatingAdmissionPolicy": "ValidatingAdmissionPolicy", "isMutatingAdmissionPolicy": "MutatingAdmissionPolicy",
	"isValidatingPolicy": "ValidatingPolicy", "isMutatingPolicy": "MutatingPolicy", "isGeneratingPolicy": "GeneratingPolicy",
	"isDeletingPolicy": "DeletingPolicy", "isImageValidatingPolicy": "ImageValidatingPolicy",
}

var kyvernoStatuses = []string{"pass", "fail", "skip", "warn", "error"}

// kyvernoRenamed are keys of results that newer versions have under others.
var kyvernoRenamed = map[string]string{
	"resource": "resources", "namespace": "resources, as namespace/name", "status": "result", "patchedResource": "patchedResources",
}

func (t *kyvernoTest) readEntries(list node) {
	keys := []string{
		"policy", "rule", "resources", "resourceSpecs", "kind", "result", "operation", "patchedResources", "generatedResource",
		"cloneSourceResource", "failOnMissingResources",
	}
	keys = append(keys, slices.Sorted(maps.Keys(kyvernoFlags))...)
	for _, item := range list.items() {
		m, _ := item.value.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if better := kyvernoRenamed[k]; better != "" {
				node{s: item.s, doc: item.doc, pointer: item.pointer + render.Pointer(k)}.fail("%s is no longer known in results: use %s", k, better)
			}
		}
		f := item.folded(append(slices.Clone(keys), slices.Sorted(maps.Keys(kyvernoRenamed))...)...)
		t.entries = append(t.entries, t.readEntry(item, f))
	}
}

func (t *kyvernoTest) readEntry(item node, f map[string]node) *kyvernoEntry {
	e := &kyvernoEntry{t: t, at: f, Case: Case{
		Line: item.span().Line, Policy: f["policy"].text(), Rule: f["rule"].text(), Kind: f["kind"].text(),
		Want: f["result"].text(), Operation: f["operation"].text(), Notes: []string{},
	}}
	e.resources = f["resources"].items()
	for _, s := range f["resourceSpecs"].items() {
		g := s.folded("group", "version", "resource", "kind", "namespace", "name", "subresource")
		e.specs = append(e.specs, resourceSpec{s, g["group"].text(), g["version"].text(), g["namespace"].text(), g["name"].text()})
	}
	for _, flag := range slices.Sorted(maps.Keys(kyvernoFlags)) {
		if f[flag].flag() {
			e.flags = append(e.flags, flag)
		}
	}
	e.failOnMissing = f["failOnMissingResources"].flag()
	e.patched, e.hasPatched = t.expected(f["patchedResources"]), f["patchedResources"].value != nil
	e.generated, e.hasGenerated = t.expected(f["generatedResource"]), f["generatedResource"].value != nil
	if v := f["cloneSourceResource"]; v.value != nil {
		e.sources = t.readObjects(node{s: v.s, doc: v.doc, pointer: v.pointer, value: []any{v.value}})
	}
	return e
}

// run makes the cases of the entry: one for each resource.
func (e *kyvernoEntry) run() []Case {
	policies := e.t.named(e.Policy)
	if errs := e.faults(policies); len(errs) > 0 {
		return e.refused(errs)
	}
	subjects, missing := e.subjects()
	if len(missing) == 0 && e.kindIsWrong(subjects) {
		return e.refused([]error{e.at["kind"].errorf("none of the resources is of kind %q: %s", e.Kind, kindsOf(subjects))})
	}
	var cases []Case
	for _, s := range subjects {
		cases = append(cases, e.evaluate(s, policies)...)
	}
	if cases = append(cases, missing...); len(cases) == 0 {
		return e.refused([]error{e.at["policy"].errorf("there is no resource to check")})
	}
	return cases
}

// faults are the reasons for which the entry can't be evaluated.
func (e *kyvernoEntry) faults(policies []*kyvernoPolicy) []error {
	var errs []error
	add := func(n node, format string, args ...any) { errs = append(errs, n.errorf(format, args...)) }
	switch {
	case e.Want == "":
		add(e.at["result"], "result is missing; there are %s", strings.Join(kyvernoStatuses, ", "))
	case !slices.Contains(kyvernoStatuses, e.Want):
		add(e.at["result"], "result %q is none of %s", e.Want, strings.Join(kyvernoStatuses, ", "))
	}
	if op := e.Operation; op != "" && !slices.Contains([]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, op) {
		add(e.at["operation"], "operation %q is none of CREATE, UPDATE, DELETE, CONNECT", op)
	}
	for _, key := range []string{"patchedResources", "generatedResource"} {
		if e.at[key].value != nil && len(e.expectations(key)) == 0 {
			add(e.at[key], "%s can't be read", key)
		}
	}
	if len(policies) == 0 {
		return append(errs, e.at["policy"].errorf("there is no policy %q%s", e.Policy, e.t.policyNames()))
	}
	errs = append(errs, e.flagFaults(policies)...)
	for _, p := range policies {
		if broken := p.broken(); p.engine == nil {
			errs = append(errs, fmt.Errorf("policy %s is not valid: %s", e.Policy, e.t.text(broken...)))
		}
	}
	switch byPolicy := e.byPolicy(policies); {
	case byPolicy || len(errs) > 0:
	case e.Rule == "":
		add(e.at["policy"], "rule is missing: which of policy %s is expected to say so%s", e.Policy, ruleNames(policies))
	case !hasRule(policies, e.Rule):
		add(e.at["rule"], "policy %s has no rule %q%s", e.Policy, e.Rule, ruleNames(policies))
	}
	return errs
}

func (e *kyvernoEntry) expectations(key string) []*render.Object {
	if key == "patchedResources" {
		return e.patched
	}
	return e.generated
}

// flagFaults are flags of a kind that none of the policies is.
func (e *kyvernoEntry) flagFaults(policies []*kyvernoPolicy) []error {
	var errs []error
	for _, flag := range e.flags {
		kind := kyvernoFlags[flag]
		if !slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool { return strings.TrimPrefix(p.kind, "Namespaced") == kind }) {
			errs = append(errs, e.at[flag].errorf("%s is set, and policy %s is a %s", flag, e.Policy, policies[0].kind))
		}
	}
	return errs
}

// byPolicy says whether the rule's name counts for nothing: policies in CEL
// have no names of rules.
func (e *kyvernoEntry) byPolicy(policies []*kyvernoPolicy) bool {
	return len(e.flags) > 0 || !slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool { return len(p.ruleNames()) > 0 })
}

func (p *kyvernoPolicy) ruleNames() []string {
	if p.engine == nil {
		return nil
	}
	return p.engine.Rules()
}

// hasRule says whether a policy has the rule, as written or as it is generated.
func hasRule(policies []*kyvernoPolicy, rule string) bool {
	return slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool {
		return slices.ContainsFunc(p.ruleNames(), func(r string) bool { return sameRule(rule, r) || sameRule(r, rule) })
	})
}

// sameRule says whether a rule's reported name is meant by a result's.
func sameRule(want, reported string) bool {
	return reported == want || reported == cut("autogen-"+want) || reported == cut("autogen-cronjob-"+want)
}

// cut returns the name of a generated rule as Kyverno shortens it.
func cut(name string) string {
	const most = 63
	if len(name) > most {
		return name[:most]
	}
	return name
}

func (t *kyvernoTest) policyNames() string {
	var names []string
	for _, p := range t.policies {
		names = append(names, p.object.GetName())
	}
	if len(names) == 0 {
		return ""
	}
	return " among the policies; there are " + policy.Few(names)
}

func ruleNames(policies []*kyvernoPolicy) string {
	var names []string
	for _, p := range policies {
		names = append(names, p.ruleNames()...)
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are " + policy.Few(names)
}

// refused are the cases of an entry that can't be evaluated.
func (e *kyvernoEntry) refused(errs []error) []Case {
	c := e.Case
	c.Reason = e.t.text(errs...)
	if len(e.resources) == 0 {
		return []Case{c}
	}
	var cases []Case
	for _, r := range e.resources {
		one := c
		one.Resource, _ = r.value.(string)
		cases = append(cases, one)
	}
	return cases
}
