package kyverno

import "github.com/preadmit/preadmit/policy/internal/pattern"

// The actions, in Kyverno's words.
const (
	actionEnforce = "Enforce"
	actionAudit   = "Audit"
)

// actionOf spells an action as Kyverno does today; "" stays "".
func actionOf(s string) string {
	switch s {
	case "enforce":
		return actionEnforce
	case "audit":
		return actionAudit
	}
	return s
}

func overrides(x field) []ActionOverride {
	var all []ActionOverride
	for _, x := range x.list() {
		all = append(all, ActionOverride{
			Action: actionOf(x.text("action")), Namespaces: x.texts("namespaces"), NamespaceSelector: selector(x.at("namespaceSelector")),
		})
	}
	return all
}

// action is what follows when a rule fails for an object of the namespace with
// these labels: the rule's override that fits first, what the rule says, the
// policy's override that fits first, what the policy says.
func (p *Policy) action(rule *Rule, namespace string, labels map[string]string) string {
	if v := rule.Validate; v != nil {
		if a := overridden(v.Overrides, namespace, labels); a != "" {
			return a
		}
		if v.Action != "" {
			return v.Action
		}
	}
	if a := imagesAction(rule.VerifyImages); a != "" {
		return a
	}
	if a := overridden(p.Overrides, namespace, labels); a != "" {
		return a
	}
	return p.Action
}

// imagesAction is Enforce if any entry says so.
func imagesAction(entries []*VerifyImages) string {
	action := ""
	for _, v := range entries {
		if v.Action == actionEnforce || action == "" {
			action = v.Action
		}
	}
	return action
}

func overridden(all []ActionOverride, namespace string, labels map[string]string) string {
	for i := range all {
		if o := &all[i]; o.Action != "" && o.fits(namespace, labels) {
			return o.Action
		}
	}
	return ""
}

func (o *ActionOverride) fits(namespace string, labels map[string]string) bool {
	if len(o.Namespaces) > 0 && !anyWildcard(o.Namespaces, namespace) {
		return false
	}
	return o.NamespaceSelector == nil || o.NamespaceSelector.matches(labels)
}

func anyWildcard(patterns []string, text string) bool {
	for _, p := range patterns {
		if pattern.Wildcard(p, text) {
			return true
		}
	}
	return false
}
