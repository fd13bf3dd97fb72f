package policytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	keys = append(keys, sortedKeys(asAny(kyvernoFlags))...)
	for _, item := range list.items() {
		m, _ := item.value.(map[string]any)
		for _, k := range sortedKeys(m) {
			if better := kyvernoRenamed[k]; better != "" {
				node{s: item.s, doc: item.doc, pointer: item.pointer + render.Pointer(k)}.fail("%s is no longer known in results: use %s", k, better)
			}
		}
		f := item.folded(append(slices.Clone(keys), sortedKeys(asAny(kyvernoRenamed))...)...)
		t.entries = append(t.entries, t.readEntry(item, f))
	}
}

func asAny(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
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
	for _, flag := range sortedKeys(asAny(kyvernoFlags)) {
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
	var cases []Case
	subjects, missing := e.subjects()
	for _, s := range subjects {
		cases = append(cases, e.judge(s, policies)...)
	}
	cases = append(cases, missing...)
	if e.kindIsWrong(subjects) {
		for i := range cases {
			cases[i].OK, cases[i].Got = false, ""
			cases[i].Kind = e.Kind
			cases[i].Reason = e.t.text(e.at["kind"].errorf("none of the resources is of kind %q: %s", e.Kind, kindsOf(subjects)))
		}
	}
	if len(cases) == 0 {
		return e.refused([]error{e.at["policy"].errorf("there is no resource to judge")})
	}
	return cases
}

// faults are the reasons for which the entry can't be judged.
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
	if e.Rule != "" && !e.byPolicy(policies) && !hasRule(policies, e.Rule) {
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

// cut is what Kyverno leaves of the name of a generated rule.
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
	return " among the policies; there are " + few(names)
}

func ruleNames(policies []*kyvernoPolicy) string {
	var names []string
	for _, p := range policies {
		names = append(names, p.ruleNames()...)
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are " + few(names)
}

// refused are the cases of an entry that can't be judged.
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

// A subject is an object that an entry is about.
type subject struct {
	object *render.Object
	target bool // of mutations of existing objects
	json   bool
	file   string // of a payload
	refuse error
}

// all are the objects that may be meant: targets first, as Kyverno has it.
func (t *kyvernoTest) all() []subject {
	var all []subject
	for _, o := range t.setup.Targets {
		all = append(all, subject{object: o, target: true})
	}
	for _, o := range t.setup.Resources {
		all = append(all, subject{object: o})
	}
	for _, p := range t.payloads {
		all = append(all, subject{object: p.object, json: true, file: p.file, refuse: p.refuse})
	}
	return all
}

// subjects are the objects that the entry names, all where it names none, and
// a case for each name that is none's.
func (e *kyvernoEntry) subjects() (found []subject, missing []Case) {
	all := e.t.all()
	if len(e.resources)+len(e.specs) == 0 {
		return e.unnamed(all), nil
	}
	add := func(n node, called string, means func(*render.Object) bool) {
		hit := false
		for _, s := range all {
			if means(s.object) {
				hit, found = true, append(found, s)
			}
		}
		if !hit {
			c := e.Case
			c.Resource, c.Line = called, n.span().Line
			c.Reason = e.t.text(n.errorf("there is no %s %q among the resources%s", cmpOr(e.Kind, "resource"), called, e.t.likely(e.Kind)))
			missing = append(missing, c)
		}
	}
	for _, r := range e.resources {
		called := r.text()
		add(r, called, func(o *render.Object) bool { return meant(called, o) })
	}
	for _, s := range e.specs {
		add(s.node, s.String(), s.means)
	}
	return found, missing
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// unnamed are the objects where an entry names none: what it has a target for
// is judged there.
func (e *kyvernoEntry) unnamed(all []subject) []subject {
	var found []subject
	for _, s := range all {
		if !s.target || e.t.changes(s, e.t.named(e.Policy)) {
			found = append(found, s)
		}
	}
	return found
}

// meant says whether a name, or namespace/name, is an object's.
func meant(called string, o *render.Object) bool {
	namespace, short, ok := strings.Cut(called, "/")
	if !ok {
		return called == o.GetName()
	}
	return namespace == o.GetNamespace() && short == o.GetName()
}

func (s resourceSpec) String() string {
	if s.namespace == "" {
		return s.called
	}
	return s.namespace + "/" + s.called
}

func (s resourceSpec) means(o *render.Object) bool {
	gv := o.GroupVersionKind().GroupVersion()
	return gv.Group == s.group && gv.Version == s.version && o.GetNamespace() == s.namespace && o.GetName() == s.called
}

// likely lists the objects of a kind.
func (t *kyvernoTest) likely(kind string) string {
	var names []string
	for _, s := range t.all() {
		if kind == "" || s.object.GetKind() == kind {
			names = append(names, name(s.object))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return ""
	}
	return "; there are " + few(names)
}

// kindIsWrong says whether the kind of an entry is that of none of its
// resources. Kyverno does not look at it.
func (e *kyvernoEntry) kindIsWrong(subjects []subject) bool {
	if e.Kind == "" || len(subjects) == 0 {
		return false
	}
	return !slices.ContainsFunc(subjects, func(s subject) bool { return s.object.GetKind() == e.Kind || s.json })
}

func kindsOf(subjects []subject) string {
	var kinds []string
	for _, s := range subjects {
		if kind := s.object.GetKind() + " " + name(s.object); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return "there are " + few(kinds)
}

// judge makes the cases of one object: one for each rule that said something.
func (e *kyvernoEntry) judge(s subject, policies []*kyvernoPolicy) []Case {
	c := e.Case
	c.Notes = []string{}
	if e.Rule != "" && e.byPolicy(policies) {
		c.Rule = ""
		c.Notes = append(c.Notes, fmt.Sprintf("rule %q counts for nothing: the policy has no rules with names", e.Rule))
	}
	c.Kind, c.Resource = tested(s.object, s.file)
	c.Kind = cmpOr(c.Kind, e.Kind)
	switch {
	case s.refuse != nil:
		c.Reason = s.refuse.Error()
		return []Case{c}
	case s.target:
		return e.target(c, s, policies)
	}
	v := e.t.judge(s.object, e.Operation, s.json)
	var said []rowOf
	silent := true
	for _, p := range policies {
		for _, one := range v.of(p) {
			if one.err != nil {
				c.Reason = e.t.text(one.err)
				return []Case{c}
			}
			silent = silent && one.Silent
			for _, r := range one.Rules {
				if r.Rule == "" || sameRule(e.Rule, r.Rule) || e.byPolicy(policies) {
					said = append(said, rowOf{one, r})
				}
			}
		}
	}
	return e.compare(c, said, silent)
}

// A rowOf is what a rule said, within what its policy said.
type rowOf struct {
	*verdict
	KyvernoResponse
}

// statusExcluded is what is got where no rule said anything.
const statusExcluded = "excluded"

// compare holds what the rules said against what is expected: a case for each
// name of a rule.
func (e *kyvernoEntry) compare(c Case, said []rowOf, silent bool) []Case {
	if len(said) == 0 {
		e.excluded(&c, silent)
		return []Case{c}
	}
	var cases []Case
	for _, r := range said {
		rule := cmpOr(r.KyvernoResponse.Rule, c.Rule)
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Rule == rule })
		if i < 0 {
			one := c
			one.Rule, one.Notes, one.OK = rule, slices.Clone(c.Notes), true
			cases, i = append(cases, one), len(cases)
		}
		e.add(&cases[i], r)
	}
	return cases
}

// add holds what one rule said against what is expected, in a case that others
// of its name may have part in: the first that differs tells.
func (e *kyvernoEntry) add(c *Case, r rowOf) {
	got, reason, vacuous := e.row(c, r)
	if ok := got == e.Want || vacuous; c.Got == "" || c.OK && !ok {
		c.Got, c.Reason, c.OK, c.Vacuous = got, reason, ok, vacuous
	}
	for _, a := range r.Assumed {
		if !slices.Contains(c.Notes, a) {
			c.Notes = append(c.Notes, a)
		}
	}
}

// excluded is the case of which no rule ran. Kyverno passes it, unless the
// policy gives no response at all.
func (e *kyvernoEntry) excluded(c *Case, silent bool) {
	c.Got, c.Vacuous, c.OK = statusExcluded, true, !silent
	c.Reason = "the policy is not about it"
	if c.Rule != "" {
		c.Reason = fmt.Sprintf("rule %s is not about it", c.Rule)
	}
	if c.OK {
		c.Notes = append(c.Notes, "Kyverno passes it as Excluded, whatever is expected")
	}
}

// row compares what one rule said. Where it made something else of an object
// than was expected, it failed, as Kyverno has it.
func (e *kyvernoEntry) row(c *Case, r rowOf) (got, reason string, vacuous bool) {
	same, reason, vacuous := e.made(c, r)
	switch {
	case vacuous:
		return r.Status, r.Message, true
	case !same && (r.Status == e.Want || e.Want == "fail"):
		return "fail", reason, false
	}
	return r.Status, r.Message, false
}

// made compares what one rule changed or generated.
func (e *kyvernoEntry) made(c *Case, r rowOf) (ok bool, reason string, vacuous bool) {
	if e.hasGenerated && r.phase == Generating {
		for _, o := range r.Generated {
			if err := e.differs(e.generated, o, "generatedResource"); err != nil {
				return false, err.Error(), false
			}
		}
		if len(r.Generated) == 0 && r.Status == "pass" {
			return false, "nothing was generated to compare with generatedResource", false
		}
	}
	if e.hasPatched && r.phase == Mutating {
		err := e.differs(e.patched, r.patched, "patchedResources")
		switch {
		case errors.Is(err, errNoFile) && !e.failOnMissing:
			c.Notes = append(c.Notes, "patchedResources has no document of it: it was not compared, and Kyverno drops the case")
			return true, "", true
		case err != nil:
			return false, err.Error(), false
		}
	}
	return true, "", false
}

// differs says where an object is other than that of the same identity in a
// file.
func (e *kyvernoEntry) differs(expected []*render.Object, o map[string]any, key string) error {
	want, err := pick(expected, o)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if d := difference(tidied(want.Object), tidied(o)); d != "" {
		return fmt.Errorf("not as in %s (%s): %s", key, e.t.shown(placeOf(want)), d)
	}
	return nil
}

// changes says whether a policy changed a target.
func (t *kyvernoTest) changes(s subject, policies []*kyvernoPolicy) bool {
	for _, o := range t.setup.Resources {
		for _, p := range policies {
			for _, one := range t.judge(o, "", false).of(p) {
				for _, r := range one.Rules {
					if isOf(r.Target, s.object) {
						return true
					}
				}
			}
		}
	}
	return false
}

// isOf says whether a tree is of an object's identity.
func isOf(tree map[string]any, o *render.Object) bool {
	if tree == nil {
		return false
	}
	_, err := pick([]*render.Object{o, o}, tree)
	return err == nil
}

// target is the case of an object that mutations of other objects changed.
func (e *kyvernoEntry) target(c Case, s subject, policies []*kyvernoPolicy) []Case {
	var said []rowOf
	for _, o := range e.t.setup.Resources {
		for _, p := range policies {
			for _, one := range e.t.judge(o, e.Operation, false).of(p) {
				for _, r := range one.Rules {
					if isOf(r.Target, s.object) && (sameRule(e.Rule, r.Rule) || e.byPolicy(policies)) {
						changed := *one
						changed.patched = r.Target
						said = append(said, rowOf{&changed, r})
					}
				}
			}
		}
	}
	return e.compare(c, said, true)
}
