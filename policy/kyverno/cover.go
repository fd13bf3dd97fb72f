package kyverno

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/conditions"
	"github.com/preadmit/preadmit/policy/internal/kyvernodoc"
)

// covered counts the branches of rules: whether they matched, their outcomes, and
// whether each condition held. What autogen makes of a rule counts for the rule. nil
// counts nothing.
type covered struct {
	coverage   *policy.Coverage
	rules      map[*Rule]*ruleBranches
	conditions map[*conditions.Condition]*[2]*atomic.Int64 // held, and not
}

// ruleBranches are the counters of a rule.
type ruleBranches struct {
	matched, unmatched *atomic.Int64
	outcomes           map[Status]*atomic.Int64
}

func newCovered(coverage *policy.Coverage) *covered {
	return &covered{coverage, make(map[*Rule]*ruleBranches), make(map[*conditions.Condition]*[2]*atomic.Int64)}
}

// declare adds the branches of a rule.
func (c *covered) declare(p *Policy, rule *Rule) {
	if c == nil || p.Object.Span("").File == "" {
		return
	}
	written := rule
	if rule.Base != nil {
		written = rule.Base
	}
	branch := func(part, pointer, outcome string) *atomic.Int64 {
		return c.coverage.Declare(policy.Branch{
			Engine: policy.EngineKyverno, Policy: p.Name, Rule: written.Name, Part: part, Case: outcome, Origin: p.Object.Span(pointer),
		})
	}
	b := &ruleBranches{
		matched: branch("match", written.Pointer+"/match", "true"), unmatched: new(atomic.Int64),
		outcomes: make(map[Status]*atomic.Int64),
	}
	if selective(written) {
		b.unmatched = branch("match", written.Pointer+"/match", "false")
	}
	c.rules[rule] = b
	if rule.Validate != nil {
		b.outcomes[StatusPass] = branch("validate", written.Pointer+"/validate", "true")
		b.outcomes[StatusFail] = branch("validate", written.Pointer+"/validate", "false")
	}
	for _, x := range conditionsOf(rule) {
		text := policy.Shorten(fmt.Sprintf("%v %s %v", x.Key, x.Operator, x.Value), maxChecked)
		if c.conditions[x] == nil && written != rule {
			text = c.textAt(p, x.Pointer, text)
		}
		c.conditions[x] = &[2]*atomic.Int64{branch(text, x.Pointer, "true"), branch(text, x.Pointer, "false")}
	}
}

// selective reports whether a rule selects among the objects of its kinds. Rules are not
// asked about others.
func selective(rule *Rule) bool {
	return rule.Exclude != nil || slices.ContainsFunc(rule.Match.Filters(), func(f *kyvernodoc.Filter) bool {
		return len(f.Names)+len(f.Namespaces)+len(f.Operations)+len(f.Annotations)+len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 ||
			f.Selector != nil || f.NamespaceSelector != nil
	})
}

// textAt is the text of the condition as it is written at a pointer of the policy, which
// autogen changed in the rule at hand.
func (c *covered) textAt(p *Policy, pointer, text string) string {
	for _, rule := range p.Rules {
		for _, x := range conditionsOf(rule) {
			if x.Pointer == pointer {
				return policy.Shorten(fmt.Sprintf("%v %s %v", x.Key, x.Operator, x.Value), maxChecked)
			}
		}
	}
	return text
}

func (c *covered) match(rule *Rule, matched bool) {
	if c == nil || c.rules[rule] == nil {
		return
	}
	if matched {
		c.rules[rule].matched.Add(1)
	} else {
		c.rules[rule].unmatched.Add(1)
	}
}

func (c *covered) outcomes(rule *Rule, responses []Response) {
	if c == nil || c.rules[rule] == nil {
		return
	}
	for i := range responses {
		status := responses[i].Status
		if status == StatusWarn {
			status = StatusFail
		}
		if n := c.rules[rule].outcomes[status]; n != nil {
			n.Add(1)
		}
	}
}

// condition counts whether a condition held that was compared.
func (c *covered) condition(x *conditions.Condition, key, value any, err error) {
	if c == nil || c.conditions[x] == nil || err != nil {
		return
	}
	only := &conditions.Block{Groups: []conditions.Group{{All: []conditions.Condition{*x}}}}
	held, _, err := conditions.Evaluate(only, func(*conditions.Condition) (any, any, error) { return key, value, nil })
	switch {
	case err != nil:
	case held:
		c.conditions[x][0].Add(1)
	default:
		c.conditions[x][1].Add(1)
	}
}

// coverCEL counts the branches of a rule's CEL expressions.
func (e *Engine) coverCEL(p *Policy, rule *Rule) {
	g := e.programs[rule]
	if e.covered == nil || g.cel == nil || p.Object.Span("").File == "" {
		return
	}
	expressions := g.cel().covers()
	if rule.Base == nil {
		for _, n := range expressions {
			n.program.Cover(e.covered.coverage, cel.CoveredExpression{
				Engine: policy.EngineKyverno, Policy: p.Name, Rule: rule.Name, Object: p.Object, Pointer: n.pointer, Source: n.source,
			})
		}
		return
	}
	base := e.programs[rule.Base]
	if base == nil || base.cel == nil {
		return
	}
	for i, n := range base.cel().covers() {
		if i < len(expressions) && expressions[i].pointer == n.pointer {
			expressions[i].program.CoverAs(n.program)
		}
	}
}

// covers are the expressions whose branches are counted.
func (g *celProgram) covers() []*celExpression {
	all := slices.Concat(g.variables, g.conditions)
	for _, v := range g.validations {
		all = append(all, v.celExpression)
	}
	return all
}
