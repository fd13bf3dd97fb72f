package kyverno

import "k8s.io/apimachinery/pkg/runtime/schema"

func (r reader) autogen(p *Policy) map[string][]*Rule { return nil }

// rulesFor are the policy's rules for objects of a kind: those written, and
// those that autogen makes of them for a kind that makes pods.
func (p *Policy) rulesFor(gvk schema.GroupVersionKind) []*Rule {
	if rules, ok := p.controllers[gvk.Kind]; ok {
		return rules
	}
	return p.Rules
}
