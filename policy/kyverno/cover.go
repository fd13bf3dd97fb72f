package kyverno

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// covered counts the branches of rules: whether they matched, their outcomes,
// and whether each condition held. Counts of an autogen rule are added to the
// rule that it was generated from. A nil *covered counts nothing.
type covered struct {
	coverage   *policy.Coverage
	rules      map[*Rule]*ruleBranches
	conditions map[*conditions.Condition]*[2]*atomic.Int64 // counts of true and of false
	patterns   map[patternAt]*[2]*atomic.Int64             // counts of matches and of mismatches of a pattern's key
	below      map[patternAt][]*[2]*atomic.Int64           // counters of keys inside a map or list of a pattern
}

// A patternAt is the place of a pattern's key in its policy.
type patternAt struct {
	policy  *Policy
	pointer string
}

// ruleBranches holds the counters of a rule.
type ruleBranches struct {
	matched, unmatched *atomic.Int64
	outcomes           map[Status]*atomic.Int64
}

func newCovered(coverage *policy.Coverage) *covered {
	return &covered{
		coverage, make(map[*Rule]*ruleBranches), make(map[*conditions.Condition]*[2]*atomic.Int64), make(map[patternAt]*[2]*atomic.Int64),
		make(map[patternAt][]*[2]*atomic.Int64),
	}
}

// declare registers the branches of a rule.
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
		if rule.Base == nil {
			c.declarePatterns(p, rule, branch)
		}
	}
	for _, x := range conditionsOf(rule) {
		text := policy.Shorten(fmt.Sprintf("%v %s %v", x.Key, x.Operator, x.Value), maxChecked)
		if c.conditions[x] == nil && written != rule {
			text = c.textAt(p, x.Pointer, text)
		}
		c.conditions[x] = &[2]*atomic.Int64{branch(text, x.Pointer, "true"), branch(text, x.Pointer, "false")}
	}
}

// A declareBranch registers a branch of a rule at a pointer of its policy and
// returns its counter.
type declareBranch func(part, pointer, outcome string) *atomic.Int64

// declarePatterns registers the keys of a rule's patterns, including those in
// foreach.
func (c *covered) declarePatterns(p *Policy, rule *Rule, branch declareBranch) {
	v, base := rule.Validate, rule.Pointer+"/validate"
	if v.HasPattern {
		c.declarePattern(p, base+"/pattern", v.Pattern, branch)
	}
	for i, x := range v.AnyPattern {
		c.declarePattern(p, base+render.Pointer("anyPattern", i), x, branch)
	}
	var each func(all []*document.ForeachValidate)
	each = func(all []*document.ForeachValidate) {
		for _, f := range all {
			if f.HasPattern {
				c.declarePattern(p, f.Pointer+"/pattern", f.Pattern, branch)
			}
			for i, x := range f.AnyPattern {
				c.declarePattern(p, f.Pointer+render.Pointer("anyPattern", i), x, branch)
			}
			each(f.Foreach)
		}
	}
	each(v.Foreach)
}

func (c *covered) declarePattern(p *Policy, base string, source any, branch declareBranch) {
	compiled, err := pattern.Compile(source)
	if err != nil {
		return
	}
	for _, s := range compiled.Steps() {
		text := joined(render.Path(s.Place))
		if s.Scalar {
			text += fmt.Sprintf(": %v", s.Wants)
		}
		text = policy.Shorten(text, maxChecked)
		n := &[2]*atomic.Int64{branch(text, base+s.Place, "true"), branch(text, base+s.Place, "false")}
		c.patterns[patternAt{p, base + s.Place}] = n
		for i := strings.LastIndexByte(s.Place, '/'); i > 0; i = strings.LastIndexByte(s.Place[:i], '/') {
			above := patternAt{p, base + s.Place[:i]}
			c.below[above] = append(c.below[above], n)
		}
	}
}

// pattern counts the keys of a pattern that matched a value and those that did
// not.
func (c *covered) pattern(g *program, in *clause, i int, p *pattern.Pattern, value any) {
	if c == nil || c.rules[g.rule] == nil {
		return
	}
	at := cmp.Or(in.pointer, g.rule.Pointer+"/validate") + "/pattern"
	if in.pattern == nil {
		at = cmp.Or(in.pointer, g.rule.Pointer+"/validate") + render.Pointer("anyPattern", i)
	}
	_, steps := p.Trace(value, maxCoveredSteps)
	for k := range steps {
		key := patternAt{g.policy, at + strings.TrimPrefix(steps[k].Place, g.rule.Prefix)}
		n := c.patterns[key]
		switch {
		case n == nil && steps[k].Status != pattern.Pass: // a missing map has none of its keys
			for _, n := range c.below[key] {
				n[1].Add(1)
			}
		case n == nil:
		case steps[k].Status == pattern.Pass:
			n[0].Add(1)
		default:
			n[1].Add(1)
		}
	}
}

// maxCoveredSteps is the most steps of one match that are counted.
const maxCoveredSteps = 1 << 16

// selective reports whether a rule selects among the objects of its kinds. It
// gives no responses about other objects.
func selective(rule *Rule) bool {
	return rule.Exclude != nil || slices.ContainsFunc(rule.Match.Filters(), func(f *document.Filter) bool {
		return len(f.Names)+len(f.Namespaces)+len(f.Operations)+len(f.Annotations)+len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) > 0 ||
			f.Selector != nil || f.NamespaceSelector != nil
	})
}

// textAt returns the text of the condition at a pointer of the policy as it is
// written. text is the condition in an autogen rule, which may differ.
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

// condition counts whether a condition held.
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

// coverCEL registers the branches of a rule's CEL expressions.
func (e *Engine) coverCEL(p *Policy, rule *Rule) {
	g := e.programs[rule]
	if e.covered == nil || g.cel == nil || p.Object.Span("").File == "" {
		return
	}
	expressions := g.cel().covers()
	if rule.Base == nil {
		for _, n := range expressions {
			n.Cover(e.covered.coverage, p.Object, policy.Branch{Engine: policy.EngineKyverno, Policy: p.Name, Rule: rule.Name})
		}
		return
	}
	base := e.programs[rule.Base]
	if base == nil || base.cel == nil {
		return
	}
	for i, n := range base.cel().covers() {
		if i < len(expressions) && expressions[i].Pointer == n.Pointer {
			expressions[i].Program.CoverAs(n.Program)
		}
	}
}

// covers returns the expressions whose branches are counted.
func (c *celProgram) covers() []*cel.Expression {
	all := slices.Concat(c.variables, c.conditions)
	for _, v := range c.validations {
		all = append(all, v.Expression)
	}
	return all
}
