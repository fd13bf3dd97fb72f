package document

import (
	"slices"

	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// The values of validationFailureAction and failureAction.
const (
	ActionEnforce = "Enforce"
	actionAudit   = "Audit"
)

// actionOf returns today's spelling of an action; "" stays "".
func actionOf(s string) string {
	switch s {
	case "enforce":
		return ActionEnforce
	case "audit":
		return actionAudit
	}
	return s
}

// ActionFor returns the action for an object in the namespace with these labels: that
// of the rule's first override that applies, else the rule's, else that of the
// policy's first override that applies, else the policy's.
func (p *Policy) ActionFor(rule *Rule, namespace string, labels map[string]string) string {
	if v := rule.Validate; v != nil {
		if a := overridden(v.Overrides, namespace, labels); a != "" {
			return a
		}
		if v.Action != "" {
			return v.Action
		}
	}
	if a := ImagesAction(rule.VerifyImages); a != "" {
		return a
	}
	if a := overridden(p.Overrides, namespace, labels); a != "" {
		return a
	}
	return p.Action
}

// ImagesAction returns the action of a rule's verifyImages: Enforce if one of
// the entries has it.
func ImagesAction(entries []*VerifyImages) string {
	action := ""
	for _, v := range entries {
		if v.Action == ActionEnforce || action == "" {
			action = v.Action
		}
	}
	return action
}

func overridden(all []ActionOverride, namespace string, labels map[string]string) string {
	for i := range all {
		if o := &all[i]; o.Action != "" && o.Fits(namespace, labels) {
			return o.Action
		}
	}
	return ""
}

// Fits reports whether the override applies to the namespace with these labels.
func (a *ActionOverride) Fits(namespace string, labels map[string]string) bool {
	if len(a.Namespaces) > 0 && !pattern.AnyWildcard(a.Namespaces, namespace) {
		return false
	}
	return a.NamespaceSelector == nil || a.NamespaceSelector.Matches(labels)
}

// Strongest returns the strongest action that the rule has in any namespace.
func (p *Policy) Strongest(rule *Rule) string {
	all := []string{p.ActionFor(rule, "", nil)}
	overrides := p.Overrides
	if rule.Validate != nil {
		overrides = append(slices.Clip(overrides), rule.Validate.Overrides...)
	}
	for _, o := range overrides {
		all = append(all, o.Action)
	}
	if slices.Contains(all, ActionEnforce) {
		return ActionEnforce
	}
	return actionAudit
}

// Enforces reports whether any validate rule of the policy has the action Enforce in any
// namespace. Kyverno then denies requests for which any of its rules is in error.
func (p *Policy) Enforces() bool {
	return p.Action == ActionEnforce || slices.ContainsFunc(p.Overrides, ActionOverride.enforces) || slices.ContainsFunc(p.Rules, func(r *Rule) bool {
		return r.Validate != nil && (r.Validate.Action == ActionEnforce || slices.ContainsFunc(r.Validate.Overrides, ActionOverride.enforces))
	})
}

func (a ActionOverride) enforces() bool { return a.Action == ActionEnforce }
