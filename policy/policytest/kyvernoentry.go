package policytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A kyvernoEntry is one of a test's results: the expected status of one rule
// for some resources.
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

// kyvernoRenamed maps old keys of results to their names in newer versions.
var kyvernoRenamed = map[string]string{
	"resource": "resources", "namespace": "resources, as namespace/name", "status": "result", "patchedResource": "patchedResources",
}

func (k *kyvernoTest) readEntries(list node) {
	keys := []string{
		"policy", "rule", "resources", "resourceSpecs", "kind", "result", "operation", "patchedResources", "generatedResource",
		"cloneSourceResource", "failOnMissingResources",
	}
	keys = append(keys, slices.Sorted(maps.Keys(kyvernoFlags))...)
	for _, item := range list.items() {
		m, _ := item.value.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if better := kyvernoRenamed[key]; better != "" {
				node{s: item.s, doc: item.doc, pointer: item.pointer + render.Pointer(key)}.fail("%s was removed from results: use %s", key, better)
			}
		}
		f := item.folded(append(slices.Clone(keys), slices.Sorted(maps.Keys(kyvernoRenamed))...)...)
		k.entries = append(k.entries, k.readEntry(item, f))
	}
}

func (k *kyvernoTest) readEntry(item node, f map[string]node) *kyvernoEntry {
	e := &kyvernoEntry{t: k, at: f, Case: Case{
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
	e.patched, e.hasPatched = k.expected(f["patchedResources"]), f["patchedResources"].value != nil
	e.generated, e.hasGenerated = k.expected(f["generatedResource"]), f["generatedResource"].value != nil
	if v := f["cloneSourceResource"]; v.value != nil {
		e.sources = k.readObjects(node{s: v.s, doc: v.doc, pointer: v.pointer, value: []any{v.value}})
	}
	return e
}

// run returns the cases of the entry, one for each resource.
func (k *kyvernoEntry) run() []Case {
	policies := k.t.named(k.Policy)
	if errs := k.faults(policies); len(errs) > 0 {
		return k.refused(errs)
	}
	subjects, missing := k.subjects()
	if len(missing) == 0 && k.kindIsWrong(subjects) {
		return k.refused([]error{k.at["kind"].errorf("none of the resources is of kind %q: %s", k.Kind, kindsOf(subjects))})
	}
	var cases []Case
	for _, s := range subjects {
		cases = append(cases, k.evaluate(s, policies)...)
	}
	if cases = append(cases, missing...); len(cases) == 0 {
		return k.refused([]error{k.at["policy"].errorf("there is no resource to check")})
	}
	return cases
}

// faults returns the reasons why the entry can't be evaluated.
func (k *kyvernoEntry) faults(policies []*kyvernoPolicy) []error {
	var errs []error
	add := func(n node, format string, args ...any) { errs = append(errs, n.errorf(format, args...)) }
	switch {
	case k.Want == "":
		add(k.at["result"], "result is missing; there are %s", strings.Join(kyvernoStatuses, ", "))
	case !slices.Contains(kyvernoStatuses, k.Want):
		add(k.at["result"], "result %q is none of %s", k.Want, strings.Join(kyvernoStatuses, ", "))
	}
	if op := k.Operation; op != "" && !slices.Contains([]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, op) {
		add(k.at["operation"], "operation %q is none of CREATE, UPDATE, DELETE, CONNECT", op)
	}
	for _, key := range []string{"patchedResources", "generatedResource"} {
		if k.at[key].value != nil && len(k.expectations(key)) == 0 {
			add(k.at[key], "%s can't be read", key)
		}
	}
	if len(policies) == 0 {
		return append(errs, k.at["policy"].errorf("there is no policy %q%s", k.Policy, k.t.policyNames()))
	}
	errs = append(errs, k.flagFaults(policies)...)
	for _, p := range policies {
		if broken := p.broken(); p.engine == nil {
			errs = append(errs, fmt.Errorf("policy %s is not valid: %s", k.Policy, k.t.text(broken...)))
		}
	}
	switch byPolicy := k.byPolicy(policies); {
	case byPolicy || len(errs) > 0:
	case k.Rule == "":
		add(k.at["policy"], "rule is missing: name the rule of policy %s that gives the result%s", k.Policy, ruleNames(policies))
	case !hasRule(policies, k.Rule):
		add(k.at["rule"], "policy %s has no rule %q%s", k.Policy, k.Rule, ruleNames(policies))
	}
	return errs
}

func (k *kyvernoEntry) expectations(key string) []*render.Object {
	if key == "patchedResources" {
		return k.patched
	}
	return k.generated
}

// flagFaults returns errors for flags of the entry that name a kind which none
// of the policies has.
func (k *kyvernoEntry) flagFaults(policies []*kyvernoPolicy) []error {
	var errs []error
	for _, flag := range k.flags {
		kind := kyvernoFlags[flag]
		if !slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool { return strings.TrimPrefix(p.kind, "Namespaced") == kind }) {
			errs = append(errs, k.at[flag].errorf("%s is set, and policy %s is a %s", flag, k.Policy, policies[0].kind))
		}
	}
	return errs
}

// byPolicy reports whether the rule's name is ignored, because policies in CEL
// have no rule names.
func (k *kyvernoEntry) byPolicy(policies []*kyvernoPolicy) bool {
	return len(k.flags) > 0 || !slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool { return len(p.ruleNames()) > 0 })
}

func (k *kyvernoPolicy) ruleNames() []string {
	if k.engine == nil {
		return nil
	}
	return k.engine.Rules()
}

// hasRule reports whether a policy has the rule, as written or as it is generated.
func hasRule(policies []*kyvernoPolicy, rule string) bool {
	return slices.ContainsFunc(policies, func(p *kyvernoPolicy) bool {
		return slices.ContainsFunc(p.ruleNames(), func(r string) bool { return sameRule(rule, r) || sameRule(r, rule) })
	})
}

// sameRule reports whether a rule's reported name is meant by a result's.
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

func (k *kyvernoTest) policyNames() string {
	var names []string
	for _, p := range k.policies {
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

// refused returns the cases of an entry that can't be evaluated.
func (k *kyvernoEntry) refused(errs []error) []Case {
	c := k.Case
	c.Reason = k.t.text(errs...)
	if len(k.resources) == 0 {
		return []Case{c}
	}
	var cases []Case
	for _, r := range k.resources {
		one := c
		one.Resource, _ = r.value.(string)
		cases = append(cases, one)
	}
	return cases
}
