package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// evaluate returns the cases of one object, one for each rule with an outcome.
func (k *kyvernoEntry) evaluate(s subject, policies []*kyvernoPolicy) []Case {
	c := k.Case
	c.Notes = []string{}
	if k.Rule != "" && k.byPolicy(policies) {
		c.Rule = ""
		c.Notes = append(c.Notes, fmt.Sprintf("rule %q is ignored: the policy's rules have no names", k.Rule))
	}
	c.Kind, c.Resource = tested(s.object, s.file)
	c.Kind = cmp.Or(c.Kind, k.Kind)
	if s.target {
		return k.target(c, s, policies)
	}
	v := k.t.evaluate(s.object, k.Operation, s.json)
	var outcomes []ruleOutcome
	silent := true
	for _, p := range policies {
		for _, one := range v.of(p) {
			if one.err != nil {
				c.Reason = k.t.text(one.err)
				return []Case{c}
			}
			silent = silent && one.Silent
			for _, r := range one.Rules {
				if r.Rule == "" || sameRule(k.Rule, r.Rule) || k.byPolicy(policies) {
					outcomes = append(outcomes, ruleOutcome{one, r})
				}
			}
		}
	}
	return k.compare(c, outcomes, silent)
}

// A ruleOutcome is the outcome of a rule, with that of its policy.
type ruleOutcome struct {
	*verdict
	KyvernoResponse
}

// statusExcluded is the status of a case without a rule that has an outcome.
const statusExcluded = "excluded"

// compare compares the outcomes of rules with the expected status and returns a
// case for each rule name.
func (k *kyvernoEntry) compare(c Case, outcomes []ruleOutcome, silent bool) []Case {
	if len(outcomes) == 0 {
		k.excluded(&c, silent)
		return []Case{c}
	}
	var cases []Case
	for _, r := range outcomes {
		rule := cmp.Or(r.KyvernoResponse.Rule, c.Rule)
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Rule == rule })
		if i < 0 {
			one := c
			one.Rule, one.Notes, one.OK = rule, slices.Clone(c.Notes), true
			cases, i = append(cases, one), len(cases)
		}
		k.add(&cases[i], r)
	}
	return cases
}

// add compares one rule's outcome with the expected status. Several rules of
// one name share a case, whose result is the first that differs.
func (k *kyvernoEntry) add(c *Case, r ruleOutcome) {
	got, reason, vacuous := k.row(c, r)
	if ok := got == k.Want || vacuous; c.Got == "" || c.OK && !ok {
		c.Got, c.Reason, c.OK, c.Vacuous = got, reason, ok, vacuous
	}
	c.assume(r.Assumed)
}

// excluded sets the result of a case for which no rule ran. As in Kyverno it
// passes, unless the policy gives no response at all.
func (k *kyvernoEntry) excluded(c *Case, silent bool) {
	c.Got, c.Vacuous, c.OK = statusExcluded, true, !silent
	c.Reason = "the policy does not match it"
	if c.Rule != "" {
		c.Reason = fmt.Sprintf("rule %s does not match it", c.Rule)
	}
	if c.OK {
		c.Notes = append(c.Notes, "Kyverno passes it as Excluded, whatever is expected")
	}
}

// row compares one rule's outcome. As in Kyverno, a rule whose patched or
// generated object differs from the expected one has failed.
func (k *kyvernoEntry) row(c *Case, r ruleOutcome) (got, reason string, vacuous bool) {
	same, reason, vacuous := k.compareObjects(c, r)
	switch {
	case vacuous:
		return r.Status, r.Message, true
	case !same && (r.Status == k.Want || k.Want == "fail"):
		return "fail", reason, false
	}
	return r.Status, r.Message, false
}

// compareObjects compares the objects that one rule patched or generated with
// the expected ones.
func (k *kyvernoEntry) compareObjects(c *Case, r ruleOutcome) (ok bool, reason string, vacuous bool) {
	if k.hasGenerated && r.phase == Generating {
		for _, o := range r.Generated {
			if err := k.differs(k.generated, o, "generatedResource"); err != nil {
				return false, err.Error(), false
			}
		}
		if len(r.Generated) == 0 && r.Status == "pass" {
			return false, "nothing was generated to compare with generatedResource", false
		}
	}
	if k.hasPatched && r.phase == Mutating {
		err := k.differs(k.patched, r.patched, "patchedResources")
		switch {
		case errors.Is(err, errNoDocument) && !k.failOnMissing:
			c.Notes = append(c.Notes, "patchedResources has no document of it: it was not compared, and Kyverno drops the case")
			return true, "", true
		case err != nil:
			return false, err.Error(), false
		}
	}
	return true, "", false
}

// differs returns an error with the first field in which an object differs from
// the object of the same identity in a file.
func (k *kyvernoEntry) differs(expected []*render.Object, o map[string]any, key string) error {
	want, err := pick(expected, o)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if d := difference(tidied(want.Object), tidied(o)); d != "" {
		return fmt.Errorf("not as in %s (%s): %s", key, k.t.shown(want.Span("")), d)
	}
	return nil
}

// changes reports whether a policy changed a target.
func (k *kyvernoTest) changes(s subject, policies []*kyvernoPolicy) bool {
	for _, o := range k.setup.Resources {
		for _, p := range policies {
			for _, one := range k.evaluate(o, "", false).of(p) {
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

// isOf reports whether a tree has an object's identity.
func isOf(tree map[string]any, o *render.Object) bool {
	if tree == nil {
		return false
	}
	_, err := pick([]*render.Object{o, o}, tree)
	return err == nil
}

// target adds the cases of an object that mutate rules for other objects
// changed.
func (k *kyvernoEntry) target(c Case, s subject, policies []*kyvernoPolicy) []Case {
	var outcomes []ruleOutcome
	for _, o := range k.t.setup.Resources {
		for _, p := range policies {
			for _, one := range k.t.evaluate(o, k.Operation, false).of(p) {
				for _, r := range one.Rules {
					if isOf(r.Target, s.object) && (sameRule(k.Rule, r.Rule) || k.byPolicy(policies)) {
						changed := *one
						changed.patched = r.Target
						outcomes = append(outcomes, ruleOutcome{&changed, r})
					}
				}
			}
		}
	}
	return k.compare(c, outcomes, true)
}

// A subject is an object that an entry is about.
type subject struct {
	object *render.Object
	target bool   // of mutations of existing objects
	json   bool   // of a jsonPayload
	file   string // of JSON
}

// all returns the objects that an entry may name, targets first as in Kyverno.
func (k *kyvernoTest) all() []subject {
	if k.subjects == nil {
		for _, o := range k.setup.Targets {
			k.subjects = append(k.subjects, subject{object: o, target: true})
		}
		for _, o := range k.setup.Resources {
			k.subjects = append(k.subjects, subject{object: o})
		}
		for _, p := range k.payloads {
			k.subjects = append(k.subjects, subject{object: p.object, json: true, file: p.file})
		}
		k.byName = make(map[string][]subject, len(k.subjects))
		for _, s := range k.subjects {
			k.byName[s.object.GetName()] = append(k.byName[s.object.GetName()], s)
			if file := path.Base(s.file); s.file != "" && file != s.object.GetName() {
				k.byName[file] = append(k.byName[file], s)
			}
		}
	}
	return k.subjects
}

// called returns the objects with a name, and JSON of files with that name.
func (k *kyvernoTest) called(name string) []subject {
	k.all()
	return k.byName[name]
}

// subjects returns the objects that the entry names, or all if it names none.
// missing has a case for each name without an object.
func (k *kyvernoEntry) subjects() (found []subject, missing []Case) {
	if len(k.resources)+len(k.specs) == 0 {
		return k.unnamed(k.t.all()), nil
	}
	add := func(n node, called string, means func(subject) bool) {
		hits := slices.DeleteFunc(slices.Clone(k.t.called(called[strings.LastIndexByte(called, '/')+1:])), func(s subject) bool { return !means(s) })
		if len(hits) > 0 && !k.kindIsWrong(hits) {
			found = append(found, hits...)
			return
		}
		c := k.Case
		c.Resource, c.Line = called, n.span().Line
		if len(hits) > 0 {
			c.Reason = k.t.text(k.at["kind"].errorf("%q is not of kind %q: %s", called, k.Kind, kindsOf(hits)))
		} else {
			c.Reason = k.t.text(n.errorf("there is no %s %q among the resources%s", cmp.Or(k.Kind, "resource"), called, k.t.likely(k.Kind)))
		}
		missing = append(missing, c)
	}
	for _, r := range k.resources {
		called := r.text()
		add(r, called, func(s subject) bool { return s.file == called || meant(called, s.object) })
	}
	for _, s := range k.specs {
		add(s.node, s.String(), s.means)
	}
	return found, missing
}

// unnamed returns the objects of an entry that names none: all except targets
// that its policy does not change.
func (k *kyvernoEntry) unnamed(all []subject) []subject {
	var found []subject
	for _, s := range all {
		if !s.target || k.t.changes(s, k.t.named(k.Policy)) {
			found = append(found, s)
		}
	}
	return found
}

// meant reports whether called is the name, or namespace/name, of an object.
func meant(called string, o *render.Object) bool {
	namespace, short, ok := strings.Cut(called, "/")
	if !ok {
		return called == o.GetName()
	}
	return namespace == o.GetNamespace() && short == o.GetName()
}

func (r resourceSpec) String() string {
	if r.namespace == "" {
		return r.called
	}
	return r.namespace + "/" + r.called
}

func (r resourceSpec) means(of subject) bool {
	o := of.object
	gv := o.GroupVersionKind().GroupVersion()
	return gv.Group == r.group && gv.Version == r.version && o.GetNamespace() == r.namespace && o.GetName() == r.called
}

// likely lists the objects of a kind.
func (k *kyvernoTest) likely(kind string) string {
	if hint, ok := k.hints[kind]; ok {
		return hint
	}
	var names []string
	for _, s := range k.all() {
		if kind == "" || s.object.GetKind() == kind {
			names = append(names, cmp.Or(name(s.object), s.file))
		}
	}
	slices.Sort(names)
	hint := ""
	if names = slices.Compact(names); len(names) > 0 {
		hint = "; there are " + policy.Few(names)
	}
	k.hints[kind] = hint
	return hint
}

// kindIsWrong reports whether none of the entry's resources has its kind.
// Kyverno ignores the kind.
func (k *kyvernoEntry) kindIsWrong(subjects []subject) bool {
	if k.Kind == "" || len(subjects) == 0 {
		return false
	}
	return !slices.ContainsFunc(subjects, func(s subject) bool { return s.object.GetKind() == k.Kind || s.json })
}

func kindsOf(subjects []subject) string {
	var kinds []string
	for _, s := range subjects {
		if kind := s.object.GetKind() + " " + name(s.object); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return "there are " + policy.Few(kinds)
}
