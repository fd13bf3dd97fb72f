package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/render"
)

// rules is a file of rules.
type rules struct {
	rules    []rule
	fallback string // unknown, allow or deny
}

// A rule decides the checks that it matches.
type rule struct {
	user, groups []pattern // nil matches anyone
	verb         []pattern

	kind     kind
	path     []pattern
	resource []resourcePattern
	apiGroup, namespace, name,
	subresource []pattern
	fieldSelector, labelSelector *string // in canonical form

	decision, reason string
}

// A kind selects the checks that a rule applies to.
type kind int

const (
	anyCheck kind = iota
	pathCheck
	resourceCheck
)

// resourcePattern is the resource and subresource of RBAC's "pods/log".
type resourcePattern struct{ resource, subresource pattern }

func (r *rules) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for i := range r.rules {
		switch matched, known := r.rules[i].matches(a); {
		case !known:
			return cannotTell(a, "")
		case matched:
			return decide(r.rules[i].decision, r.rules[i].reason, a)
		}
	}
	return decide(r.fallback, "", a)
}

func decide(decision, reason string, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch decision {
	case "allow":
		return authorizer.DecisionAllow, reason, nil
	case "deny":
		return authorizer.DecisionDeny, reason, nil
	case "noopinion":
		return authorizer.DecisionNoOpinion, reason, nil
	case "error":
		return authorizer.DecisionNoOpinion, "", errors.New(reason)
	default:
		return cannotTell(a, reason)
	}
}

// matches reports whether the rule applies to a check. known is false if that
// depends on the user and the user is unknown.
func (r *rule) matches(a authorizer.Attributes) (matched, known bool) {
	if !r.asks(a) {
		return false, true
	}
	name, groups := "", []string(nil)
	if u := a.GetUser(); u != nil {
		name, groups = u.GetName(), u.GetGroups()
	}
	user := oneOf(r.user, name)
	group := r.groups == nil || slices.ContainsFunc(groups, func(g string) bool { return oneOf(r.groups, g) })
	if name != "" {
		return user && group, true
	}
	return group, r.user == nil && group
}

// asks reports whether the rule applies to the operation of a check.
func (r *rule) asks(a authorizer.Attributes) bool {
	if !oneOf(r.verb, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return r.kind != resourceCheck && oneOf(r.path, a.GetPath())
	}
	return r.kind != pathCheck &&
		oneOf(r.apiGroup, a.GetAPIGroup()) && r.hasResource(a) && oneOf(r.subresource, a.GetSubresource()) &&
		oneOf(r.namespace, a.GetNamespace()) && oneOf(r.name, a.GetName()) &&
		(r.fieldSelector == nil || *r.fieldSelector == fieldsOf(a)) &&
		(r.labelSelector == nil || *r.labelSelector == labelsOf(a))
}

func (r *rule) hasResource(a authorizer.Attributes) bool {
	return r.resource == nil || slices.ContainsFunc(r.resource, func(p resourcePattern) bool {
		return p.resource.matches(a.GetResource()) && p.subresource.matches(a.GetSubresource())
	})
}

// oneOf reports whether s matches one of the patterns; nil matches anything.
func oneOf(patterns []pattern, s string) bool {
	return patterns == nil || slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(s) })
}

// fieldsOf returns a check's field selector in canonical form.
func fieldsOf(a authorizer.Attributes) string {
	requirements, err := a.GetFieldSelector()
	if err != nil {
		return "" // as in CEL: no selector
	}
	return canonicalFields(requirements)
}

func canonicalFields(requirements fields.Requirements) string {
	var terms []string
	for _, r := range requirements {
		terms = append(terms, r.Field+string(r.Operator)+fields.EscapeValue(r.Value))
	}
	return canonical(terms)
}

// labelsOf returns a check's label selector in canonical form.
func labelsOf(a authorizer.Attributes) string {
	requirements, err := a.GetLabelSelector()
	if err != nil {
		return ""
	}
	return canonicalLabels(requirements)
}

func canonicalLabels(requirements labels.Requirements) string {
	var terms []string
	for i := range requirements {
		terms = append(terms, requirements[i].String())
	}
	return canonical(terms)
}

func canonical(terms []string) string {
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), ",")
}

// A pattern is a text in which every * matches any text. It holds the parts
// between the asterisks.
type pattern []string

func newPattern(s string) pattern { return strings.Split(s, "*") }

func (p pattern) matches(s string) bool {
	first, last := p[0], p[len(p)-1]
	if len(p) == 1 {
		return first == s
	}
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return true
}

var ruleKeys = []string{
	"user", "groups", "serviceAccount", "verb", "group", "resource", "subresource", "namespace", "name",
	"fieldSelector", "labelSelector", "path", "decision", "reason",
}

// parseRules reads a file of rules, as the package comment describes them.
func parseRules(file string, data []byte) (*rules, error) {
	r, doc, err := readDocument(file, data, "authorizer-rules", "rules of an authorizer")
	if err != nil {
		return nil, err
	}
	out := &rules{fallback: "unknown"}
	r.known(doc, "", "default", "rules")
	if s, ok := r.text(doc, "", "default"); ok {
		out.fallback = s
		r.choice("/default", "default", s, "unknown", "allow", "deny")
	}
	list, ok := doc["rules"].([]any)
	if !ok && (doc["rules"] != nil || doc["default"] == nil) {
		r.fail("/rules", "rules: want a list of rules")
	}
	for i, v := range list {
		pointer := render.Pointer("rules", i)
		if m, ok := v.(map[string]any); ok {
			out.rules = append(out.rules, r.rule(m, pointer))
		} else {
			r.fail(pointer, "want a rule: a mapping with a decision")
		}
	}
	return out, r.done()
}

func (r *reader) choice(pointer, name, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		r.fail(pointer, "%s: %q is none of %s", name, shorten(value), strings.Join(choices, ", "))
	}
}

func (r *reader) rule(m map[string]any, at string) rule {
	r.known(m, at, ruleKeys...)
	out := rule{
		user: patterns(r.texts(m, at, "user")), groups: patterns(r.texts(m, at, "groups")), verb: patterns(r.texts(m, at, "verb")),
		path: patterns(r.texts(m, at, "path")), apiGroup: patterns(r.texts(m, at, "group")),
		subresource: patterns(r.texts(m, at, "subresource")), namespace: patterns(r.texts(m, at, "namespace")),
		name: patterns(r.texts(m, at, "name")), resource: r.resources(m, at),
	}
	r.serviceAccounts(m, at, &out)
	r.selectors(m, at, &out)
	r.kind(m, at, &out)
	r.decision(m, at, &out)
	return out
}

func patterns(texts []string) []pattern {
	var out []pattern
	for _, s := range texts {
		out = append(out, newPattern(s))
	}
	return out
}

// resources reads resources in RBAC's form: "*" includes subresources, other
// resources only by name.
func (r *reader) resources(m map[string]any, at string) []resourcePattern {
	var out []resourcePattern
	_, separate := m["subresource"]
	for i, s := range r.texts(m, at, "resource") {
		resource, sub, combined := strings.Cut(s, "/")
		switch {
		case combined && separate:
			r.fail(item(m, at, "resource", i), "resource: %q names a subresource, and so does the key subresource", shorten(s))
		case separate || s == "*":
			sub = "*"
		}
		out = append(out, resourcePattern{newPattern(resource), newPattern(sub)})
	}
	return out
}

func (r *reader) serviceAccounts(m map[string]any, at string, out *rule) {
	accounts := r.texts(m, at, "serviceAccount")
	if len(accounts) > 0 && m["user"] != nil {
		r.fail(at+"/serviceAccount", "serviceAccount: the rule is for a user already")
	}
	for i, s := range accounts {
		namespace, name, ok := strings.Cut(s, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			r.fail(item(m, at, "serviceAccount", i), "serviceAccount: %q: want namespace/name", shorten(s))
		}
		out.user = append(out.user, newPattern(serviceaccount.MakeUsername(namespace, name)))
	}
}

func (r *reader) selectors(m map[string]any, at string, out *rule) {
	if s, ok := r.text(m, at, "fieldSelector"); ok {
		selector, err := fields.ParseSelector(s)
		if err != nil {
			r.fail(at+"/fieldSelector", "fieldSelector: %q can't be read", shorten(s))
			return
		}
		text := canonicalFields(selector.Requirements())
		out.fieldSelector = &text
	}
	if s, ok := r.text(m, at, "labelSelector"); ok {
		requirements, err := labels.ParseToRequirements(s)
		if err != nil {
			r.fail(at+"/labelSelector", "labelSelector: %q can't be read", shorten(s))
			return
		}
		text := canonicalLabels(requirements)
		out.labelSelector = &text
	}
}

// kind distinguishes checks of paths from checks of resources.
func (r *reader) kind(m map[string]any, at string, out *rule) {
	if _, ok := m["path"]; ok {
		out.kind = pathCheck
	}
	for _, key := range []string{"group", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector"} {
		switch _, ok := m[key]; {
		case ok && out.kind == pathCheck:
			r.fail(at+"/path", "path: a check of a path has no %s", key)
			return
		case ok:
			out.kind = resourceCheck
		}
	}
}

func (r *reader) decision(m map[string]any, at string, out *rule) {
	out.reason, _ = r.text(m, at, "reason")
	decision, ok := r.text(m, at, "decision")
	switch {
	case m["decision"] == nil:
		r.fail(at, "the rule has no decision")
	case ok:
		r.choice(at+"/decision", "decision", decision, "allow", "deny", "noopinion", "error", "unknown")
	}
	if decision == "error" && out.reason == "" {
		r.fail(at+"/decision", "decision: an error needs a reason, which is its text")
	}
	out.decision = decision
}
