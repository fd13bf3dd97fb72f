package kyverno

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// maxChecks is the most checks of a request that are shown for one rule.
const maxChecks = 100

// A matching collects the checks that decide whether a rule matches a request.
type matching struct {
	review *review
	target *document.Target
	object *render.Object // the policy or exception whose filters are checked
	base   string         // the pointer that names are relative to
	prefix string         // prefix of names
	checks []policy.Check
	more   int
}

func (m *matching) add(name, pointer, text string, answer policy.Answer, why string) {
	if len(m.checks) == maxChecks {
		m.more++
		return
	}
	m.checks = append(m.checks, policy.Check{
		Name: m.prefix + name, Text: policy.Shorten(text, maxChecked), Answer: answer, Why: policy.Shorten(why, maxChecked), Origin: m.object.Span(pointer),
	})
}

// maxChecked is the longest text of a check.
const maxChecked = 400

// rest returns the checks. If some were left out, the last has their number.
func (m *matching) rest() []policy.Check {
	if m.more > 0 {
		m.checks = append(m.checks, policy.Check{Name: "…", Text: fmt.Sprintf("and %d more", m.more), Answer: policy.Undecided})
	}
	return m.checks
}

func answer(yes bool) policy.Answer {
	if yes {
		return policy.Yes
	}
	return policy.No
}

// matches reports whether the rule matches the request, with the checks that
// decide it.
func (r *ruleExplainer) matches() (policy.Answer, []policy.Check) {
	p, rule, t := r.program.policy, r.program.rule, r.target
	m := &matching{review: r.review, target: t, object: p.Object, base: rule.Pointer + "/"}
	all := policy.Yes
	if p.Namespace != "" {
		m.add("namespace", "/metadata/namespace", p.Namespace, answer(p.InScope(t)), "")
		all = answer(p.InScope(t))
	}
	if !p.Admission && !r.review.engine.options.CLI {
		m.add("admission", "/spec/admission", "false", policy.No, "the policy applies only in background scans")
		all = policy.No
	}
	if !r.generated(m) {
		all = policy.No
	}
	m.block("match", rule.Match, false)
	m.block("exclude", rule.Exclude, true)
	matched := r.concerns()
	if all == policy.Yes {
		all = matched
	}
	if all != policy.No {
		r.exceptionChecks(m)
	}
	return all, m.rest()
}

// concerns returns the result of match and exclude together.
func (r *ruleExplainer) concerns() policy.Answer {
	all := policy.No
	r.review.quietly(func() {
		r.review.questions = nil
		matched, _ := r.program.rule.Matches(r.target)
		all = answer(matched)
		if len(r.review.questions) > 0 && !r.program.rule.SelectsByNameOnly() {
			all = policy.Undecided
		}
	})
	return all
}

// generated adds the relation between an autogen rule and the rule it was
// generated from. It returns false if Kyverno does not evaluate the rule for objects of the kind.
func (r *ruleExplainer) generated(m *matching) bool {
	p, rule, kind := r.program.policy, r.program.rule, r.review.req.Kind.Kind
	if rule.Base == nil {
		return true
	}
	made := rule.Validate == nil || slices.Contains(p.RulesFor(r.review.req.Kind), rule)
	why := ""
	if !made {
		why = "the object is a " + kind
	}
	m.add("autogen", rule.Pointer, "made from rule "+rule.Base.Name+" for "+few(p.GeneratedFor(rule), func(k string) bool { return k == kind }), answer(made), why)
	return made
}

// block adds the checks of every filter of a match or exclude block.
func (m *matching) block(name string, block *document.Match, excludes bool) {
	if block == nil {
		return
	}
	if len(block.Filters()) == 0 {
		m.add(name, strings.TrimSuffix(m.base, "/")+"/"+name, "nothing", policy.No, "the block is empty")
		return
	}
	for _, f := range block.Filters() {
		m.filter(f, excludes)
	}
}

// filter adds the checks of a filter, in the order of its fields.
func (m *matching) filter(f *document.Filter, excludes bool) {
	t := m.target
	name := func(at string) string { return document.Dotted("/" + strings.TrimPrefix(f.Pointer+at, m.base)) }
	ask := func(there bool, at, text string, yes bool, why string) {
		switch {
		case !there:
			return
		case yes:
			why = ""
		}
		m.add(name(at), f.Pointer+at, text, answer(yes), why)
	}
	ask(len(f.Kinds) > 0, "/resources/kinds", m.kinds(f.Kinds), f.NamesKind(t), "the object is a "+m.kind())
	at := "/resources/names"
	if _, written := render.Lookup(m.object.Object, f.Pointer+at); !written {
		at = "/resources/name"
	}
	ask(len(f.Names) > 0, at, few(f.Names, fits(t.Name())), pattern.AnyWildcard(f.Names, t.Name()), fmt.Sprintf("the name is %q", t.Name()))
	ask(len(f.Namespaces) > 0, "/resources/namespaces", few(f.Namespaces, fits(t.Namespace())), pattern.AnyWildcard(f.Namespaces, t.Namespace()), namespaceText(t.Namespace()))
	ask(len(f.Operations) > 0, "/resources/operations", strings.Join(f.Operations, ", "), f.NamesOperation(t), "the operation is "+t.Operation)
	ask(len(f.Annotations) > 0, "/resources/annotations", pairs(f.Annotations), t.Annotated(f.Annotations), "the object has other annotations")
	if f.Selector != nil {
		ask(true, "/resources/selector", selectorText(f.Selector), f.Selector.Matches(t.StringMap("labels")), "the object "+labelsText(t.StringMap("labels")))
	}
	if f.NamespaceSelector != nil {
		m.namespaces(f, name("/resources/namespaceSelector"))
	}
	m.users(f, name, excludes)
	if excludes && f.ExcludesAll() {
		m.add(name(""), f.Pointer, "everything", policy.Yes, "it has only an empty list of users")
	}
}

func (m *matching) kind() string {
	text := m.target.Kind.Kind
	if m.target.Subresource != "" {
		text += "/" + m.target.Subresource
	}
	if m.target.Kind.Group != "" {
		text += " of " + m.target.Kind.GroupVersion().String()
	}
	return text
}

func namespaceText(name string) string {
	if name == "" {
		return "the object is in no namespace"
	}
	return fmt.Sprintf("the namespace is %q", name)
}

func labelsText(labels map[string]string) string {
	if len(labels) == 0 {
		return "has no labels"
	}
	return "is labelled " + pairs(labels)
}

// namespaces adds the checks of the namespace's labels. They are undecided if
// the labels are unknown.
func (m *matching) namespaces(f *document.Filter, name string) {
	at, s := f.Pointer+"/resources/namespaceSelector", f.NamespaceSelector
	if m.target.Kind.Kind == "Namespace" {
		m.add(name, at, selectorText(s), answer(f.Exempts), "a Namespace is in no namespace")
		return
	}
	var labels map[string]string
	var asked []string
	m.review.quietly(func() {
		m.review.questions = nil
		labels, asked = m.target.LabelsOfNamespace(), m.review.questions
	})
	switch matches := s.Matches(labels); {
	case len(asked) > 0 && !s.SelectsByNameOnly():
		m.add(name, at, selectorText(s), policy.Undecided, asked[0])
	case matches:
		m.add(name, at, selectorText(s), policy.Yes, "")
	default:
		m.add(name, at, selectorText(s), policy.No, "the namespace "+labelsText(labels))
	}
}

// users adds the checks of the user. If the user is unknown, a match block is
// taken to match and an exclude block is not.
func (m *matching) users(f *document.Filter, name func(string) string, excludes bool) {
	t := m.target
	for _, q := range []struct {
		at, text string
		there    bool
		yes      func() bool
		why      string
	}{
		{"/roles", strings.Join(f.Roles, ", "), len(f.Roles) > 0, func() bool { return t.HasRole(f.Roles) }, "no binding in the tree gives the user one"},
		{"/clusterRoles", strings.Join(f.ClusterRoles, ", "), len(f.ClusterRoles) > 0, func() bool { return t.HasClusterRole(f.ClusterRoles) }, "no binding in the tree gives the user one"},
		{"/subjects", subjectsText(f.Subjects), len(f.Subjects) > 0, func() bool {
			return t.User != nil && slices.ContainsFunc(f.Subjects, func(s document.Subject) bool { return s.Is(t.User) })
		}, "the user does not match"},
	} {
		switch {
		case !q.there:
		case t.UserKnown && q.yes():
			m.add(name(q.at), f.Pointer+q.at, q.text, policy.Yes, "")
		case t.UserKnown:
			m.add(name(q.at), f.Pointer+q.at, q.text, policy.No, q.why)
		case excludes:
			m.add(name(q.at), f.Pointer+q.at, q.text, policy.Undecided, "user unknown: assumed to be none of them")
		case !f.NamesObjects():
			m.add(name(q.at), f.Pointer+q.at, q.text, policy.No, "it names only users, and the user is unknown")
		default:
			m.add(name(q.at), f.Pointer+q.at, q.text, policy.Undecided, "user unknown: assumed to be one of them")
		}
	}
}

// exceptionChecks adds the checks of the exceptions that name the rule.
func (r *ruleExplainer) exceptionChecks(m *matching) {
	for _, e := range r.review.engine.exceptions {
		if !e.Covers(r.program.policy, r.program.rule.Name) {
			continue
		}
		var concerned, byUser bool
		r.review.quietly(func() { concerned, byUser = e.Concerns(r.target) })
		why := ""
		switch {
		case byUser:
			why = "user unknown: assumed not to be exempt"
		case e.block != nil && concerned:
			why = "if its conditions hold"
		}
		m.prefix, m.object, m.base = "", e.Object, "/spec/"
		m.add("exception "+e.key(), "", "names the rule", answer(concerned && !byUser), why)
		m.prefix = "exception " + e.Name + " "
		m.block("match", e.Match, false)
	}
}

// few joins the items of a list: all if they are few, else those that fit, or
// else the first ones.
func few(all []string, fits func(string) bool) string {
	const most = 4
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	some := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !fits(s) })
	if len(some) == 0 {
		some = all
	}
	some = some[:min(len(some), most-1)]
	return fmt.Sprintf("%s and %d more", strings.Join(some, ", "), len(all)-len(some))
}

// fits returns a function that reports whether a pattern matches the text.
func fits(text string) func(string) bool {
	return func(p string) bool { return pattern.Wildcard(p, text) }
}

// kinds formats selectors of kinds as policies write them.
func (m *matching) kinds(kinds []document.KindSelector) string {
	var all []string
	means := map[string]bool{}
	for _, k := range kinds {
		text := k.Kind
		if k.Version != "*" || k.Group != "*" {
			text = k.Version + "/" + text
		}
		if k.Group != "*" {
			text = k.Group + "/" + text
		}
		if k.Subresource != "" {
			text += "/" + k.Subresource
		}
		all = append(all, text)
		means[text] = k.Matches(m.target.Kind, m.target.Subresource)
	}
	return few(all, func(text string) bool { return means[text] })
}

// pairs formats labels in one line.
func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, ", ")
}

func selectorText(s *document.Selector) string {
	all := []string{}
	if len(s.MatchLabels) > 0 {
		all = append(all, pairs(s.MatchLabels))
	}
	for _, r := range s.MatchExpressions {
		text := r.Key + " " + r.Operator
		if len(r.Values) > 0 {
			text += " (" + strings.Join(r.Values, ", ") + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "anything"
	}
	return strings.Join(all, ", ")
}

func subjectsText(subjects []document.Subject) string {
	var all []string
	for _, s := range subjects {
		all = append(all, s.Kind+" "+strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"))
	}
	return strings.Join(all, ", ")
}
