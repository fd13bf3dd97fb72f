package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

var (
	_ policy.Inspector = (*validator)(nil)
	_ policy.Inspector = (*mutator)(nil)
)

// Inspect implements policy.Inspector. It finds conditions that are the same
// for every object, and fields that Kyverno deprecates.
func (v *validator) Inspect() []policy.Result {
	all := v.engine.deprecatedKinds()
	for _, p := range v.engine.policies {
		all = append(all, deprecatedFields(p)...)
		for _, rule := range p.Rules {
			if rule.Mutate == nil {
				all = append(all, constants(p, rule)...)
			}
		}
	}
	return all
}

// Inspect implements policy.Inspector.
func (m *mutator) Inspect() []policy.Result {
	var all []policy.Result
	for _, p := range m.engine.policies {
		for _, rule := range p.Rules {
			if rule.Mutate != nil {
				all = append(all, constants(p, rule)...)
			}
		}
	}
	return all
}

// constants finds preconditions that never hold, and deny conditions that
// always or never hold.
func constants(p *Policy, rule *Rule) []policy.Result {
	name := p.Name + "/" + rule.Name
	find := func(kind, pointer, format string) []policy.Result {
		return []policy.Result{policy.NewFinding(kind, p.Name, p.Object.Span(rule.Pointer+pointer), format, name)}
	}
	if held, decided := conditions.Constant(rule.Preconditions); decided && !held {
		return find(policy.NeverApplies, "/preconditions", "%s: the preconditions can't hold, whatever the object is, so the rule never applies")
	}
	if rule.Validate == nil || rule.Validate.Deny == nil || rule.Validate.Deny.Conditions == nil {
		return nil // deny: {} is the usual way to deny everything
	}
	deny := rule.Validate.Deny.Conditions
	switch held, decided := conditions.Constant(deny); {
	case decided && held:
		return find(policy.NeverPasses, "/validate/deny", "%s can't pass: the conditions of deny hold, whatever the object is")
	case decided:
		return find(policy.NeverFails, "/validate/deny", "%s can't fail: the conditions of deny can't hold, whatever the object is")
	}
	if held, decided := conditions.Constant(rule.Preconditions, deny); decided && !held {
		return find(policy.NeverFails, "/validate/deny", "%s can't fail: the conditions of deny contradict the preconditions")
	}
	return nil
}

// deprecatedKinds returns one finding for all policies of the older kinds.
func (e *Engine) deprecatedKinds() []policy.Result {
	all := slices.DeleteFunc(slices.Clone(e.policies), func(p *Policy) bool { return p.Object.Span("").File == "" })
	if len(all) == 0 {
		return nil
	}
	what := "1 policy is"
	if len(all) > 1 {
		what = fmt.Sprintf("%d policies are", len(all))
	}
	r := policy.NewFinding(policy.Deprecated, all[0].Name, all[0].Object.Span("/kind"),
		"%s of the kinds ClusterPolicy and Policy of kyverno.io, which Kyverno deprecates since 1.17: ValidatingPolicy, MutatingPolicy and the others of policies.kyverno.io replace them", what)
	r.Action = policy.Audit
	return []policy.Result{r}
}

// deprecated lists the fields of a policy's spec that other fields replace.
var deprecated = []struct{ field, instead string }{
	{"failurePolicy", "webhookConfiguration.failurePolicy"},
	{"generateExisting", "generate.generateExisting of the rule"},
	{"generateExistingOnPolicyUpdate", "generate.generateExisting of the rule"},
	{"mutateExistingOnPolicyUpdate", "mutate.mutateExistingOnPolicyUpdate of the rule"},
	{"schemaValidation", "nothing: it has no effect"},
	{"validationFailureAction", "validate.failureAction of the rule"},
	{"validationFailureActionOverrides", "validate.failureActionOverrides of the rule"},
	{"webhookTimeoutSeconds", "webhookConfiguration.timeoutSeconds"},
}

func deprecatedFields(p *Policy) []policy.Result {
	var all []policy.Result
	if p.Object.Span("").File == "" {
		return nil
	}
	find := func(pointer, format string, args ...any) {
		all = append(all, policy.NewFinding(policy.Deprecated, p.Name, p.Object.Span(pointer), format, args...))
	}
	for _, d := range deprecated {
		if _, ok := render.Lookup(p.Object.Object, "/spec/"+d.field); ok {
			find("/spec/"+d.field, "spec.%s is deprecated: use %s", d.field, d.instead)
		}
	}
	for _, rule := range p.Rules {
		for _, c := range conditionsOf(rule) {
			switch {
			case c.Operator == "In" || c.Operator == "NotIn":
				find(c.Pointer+"/operator", "the operator %s is deprecated: use Any%[1]s or All%[1]s", c.Operator)
			case strings.HasPrefix(c.Operator, "Duration"):
				find(c.Pointer+"/operator", "the operator %s is deprecated: use %s, which compares durations too", c.Operator, strings.TrimPrefix(c.Operator, "Duration"))
			}
		}
	}
	return slices.CompactFunc(all, func(a, b policy.Result) bool { return a.PolicyOrigin == b.PolicyOrigin })
}

// conditionsOf returns the conditions of a rule's preconditions and deny.
func conditionsOf(rule *Rule) []*conditions.Condition {
	blocks := []*conditions.Block{rule.Preconditions}
	if v := rule.Validate; v != nil {
		if v.Deny != nil {
			blocks = append(blocks, v.Deny.Conditions)
		}
		for _, f := range v.Foreach {
			if blocks = append(blocks, f.Preconditions); f.Deny != nil {
				blocks = append(blocks, f.Deny.Conditions)
			}
		}
	}
	var all []*conditions.Condition
	for _, b := range blocks {
		if b == nil {
			continue
		}
		for i := range b.Groups {
			for _, list := range [][]conditions.Condition{b.Groups[i].All, b.Groups[i].Any} {
				for k := range list {
					all = append(all, &list[k])
				}
			}
		}
	}
	return all
}
