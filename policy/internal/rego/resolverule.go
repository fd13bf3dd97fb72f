package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// rule returns the reads of a reference to a rule: the places of its value and the
// reasons why the rule holds. Of a set, only the referenced element counts.
func (t *tracer) rule(f *frame, x *ast.Expr, ref ast.Ref) []read {
	var out []read
	for _, c := range t.children(f, x) {
		if c.rule == nil {
			continue
		}
		head := c.rule.Ref().GroundPrefix()
		if !ref.HasPrefix(head) {
			continue
		}
		steps := ref[len(head):]
		for _, e := range c.exits {
			if c.rule.Head.RuleKind() == ast.MultiValue && len(steps) > 0 && !same(f.event.Plug(steps[0]), e.value) {
				continue
			}
			out = append(out, derived(tested(e.reads))...)
			out = append(out, t.value(f, c.rule, e.value, steps)...)
		}
	}
	if !slices.ContainsFunc(t.children(f, x), func(c *frame) bool { return len(c.exits) > 0 && !c.isDefault() }) {
		for _, c := range t.children(f, x) {
			out = append(out, c.why()...)
		}
	}
	return merge(out)
}

// isDefault reports whether the body is a rule's default, which applies because all
// others failed.
func (f *frame) isDefault() bool { return f.rule != nil && f.rule.Default }

// value returns the places of a rule's value, as far down as the steps lead.
func (t *tracer) value(f *frame, rule *ast.Rule, value *ast.Term, steps ast.Ref) []read {
	if rule.Head.RuleKind() == ast.MultiValue && len(steps) > 0 {
		steps = steps[1:]
	}
	keys := t.keys(f, steps)
	for n := len(keys); n >= 0; n-- {
		if place, _, ok := t.origins.of(descend(value, keys[:n])); ok {
			return []read{t.below(read{path: place.path()}, keys[n:])}
		}
	}
	return t.elements(value)
}

// same reports whether a step may select an element.
func same(step, element *ast.Term) bool {
	return !step.IsGround() || step.Equal(element)
}

// comprehension returns the reads by which the comprehensions of an expression have
// their elements, or have none.
func (t *tracer) comprehension(f *frame, x *ast.Expr) []read {
	var out []read
	for _, c := range t.children(f, x) {
		if c.rule != nil {
			continue
		}
		for _, e := range c.exits {
			if r := derived(tested(e.reads)); useful(r) {
				out = append(out, r...)
			} else {
				out = append(out, e.reads...)
			}
		}
		if len(c.exits) == 0 {
			out = append(out, c.why()...)
		}
	}
	return derived(merge(out))
}
