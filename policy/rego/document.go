package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
)

// Limits on the documentation of a rule, in bytes.
const (
	maxTitle = 200
	maxDoc   = 16 << 10
)

// document returns the documentation of a rule from the "# METADATA" comments
// of its definitions, and its text. If several definitions have comments, they
// are listed.
func document(program *opa.Program, rules []*ast.Rule) policy.Rule {
	rules = slices.Clone(rules)
	slices.SortFunc(rules, func(a, b *ast.Rule) int { return byPlace(locationSpan(a.Location), locationSpan(b.Location)) })
	var doc policy.Rule
	var helps, texts []string
	for _, r := range rules {
		notes := program.Annotations(r)
		helps = appendNew(helps, nearest(notes, (*annotations).help))
		texts = appendNew(texts, string(r.Location.Text))
		if s := severity(notes); worse(s, doc.Severity) {
			doc.Severity = s
		}
		if doc.URL == "" {
			doc.URL = nearest(notes, (*annotations).url)
		}
	}
	doc.Title, doc.Description = titleOf(program, rules)
	doc.Title = policy.Shorten(strings.Join(strings.Fields(doc.Title), " "), maxTitle)
	doc.Description = policy.Shorten(doc.Description, maxDoc)
	doc.Help = policy.Shorten(strings.Join(helps, "\n\n"), maxDoc)
	doc.Expression = policy.Shorten(strings.Join(texts, "\n\n"), maxDoc)
	return doc
}

// titleOf returns the common title and description of a rule's definitions, or
// a list if they differ.
func titleOf(program *opa.Program, rules []*ast.Rule) (title, description string) {
	var titles, descriptions, listed []string
	for _, r := range rules {
		notes := program.Annotations(r)
		t, d := nearest(notes, (*annotations).title), strings.TrimSpace(nearest(notes, (*annotations).description))
		if !slices.Contains(titles, t) {
			titles = append(titles, t)
		}
		descriptions = appendNew(descriptions, d)
		if line := strings.Trim(t+": "+strings.ReplaceAll(d, "\n", "\n  "), ": "); line != "" {
			listed = appendNew(listed, "- "+line)
		}
	}
	if len(titles) == 1 {
		return titles[0], strings.Join(descriptions, "\n\n")
	}
	return "", strings.Join(listed, "\n")
}

// appendNew appends text to list, unless it is empty or in the list.
func appendNew(list []string, text string) []string {
	if text = strings.TrimSpace(text); text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// annotations are the METADATA comments of one scope.
type annotations ast.Annotations

func (a *annotations) title() string       { return a.own(a.Title) }
func (a *annotations) description() string { return a.own(a.Description) }
func (a *annotations) severity() string    { return a.custom("severity") }

// own returns text unless the comments are about a whole package.
func (a *annotations) own(text string) string {
	if a.Scope == "package" || a.Scope == "subpackages" {
		return ""
	}
	return text
}

// help returns how to fix a violation, from a custom field, because OPA has no
// standard one.
func (a *annotations) help() string {
	for _, key := range []string{"help", "remediation", "fix", "recommendation", "recommended_actions", "recommended_action"} {
		if text := a.custom(key); text != "" {
			return text
		}
	}
	return ""
}

func (a *annotations) custom(key string) string {
	text, _ := a.Custom[key].(string)
	return text
}

// url returns the first related resource on the web.
func (a *annotations) url() string {
	for _, r := range a.RelatedResources {
		if r.Ref.Scheme == "https" || r.Ref.Scheme == "http" {
			return r.Ref.String()
		}
	}
	return a.custom("url")
}

// nearest returns the value of the nearest scope.
func nearest(chain ast.FlatAnnotationsRefSet, what func(*annotations) string) string {
	for _, ref := range chain {
		if text := what((*annotations)(ref.Annotations)); text != "" {
			return text
		}
	}
	return ""
}

func severity(chain ast.FlatAnnotationsRefSet) policy.Severity {
	return severityOf(nearest(chain, (*annotations).severity))
}

// severityOf parses a severity in any case. It returns "" for other text.
func severityOf(text string) policy.Severity {
	return policy.SeverityOf(strings.ToLower(text))
}

// worse reports whether a is a severity that is worse than b.
func worse(a, b policy.Severity) bool {
	if a == "" || b == "" {
		return a != ""
	}
	return slices.Index(policy.Severities, a) < slices.Index(policy.Severities, b)
}
