package kyverno

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
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

// Kyverno accepts some policies whose rules can't work: every request that
// matches such a rule fails or ends in an error. Here the rule is reported as
// an error at its line and is not evaluated, as if Kyverno had refused the
// policy. With Options.CLI the rule is evaluated as Kyverno's command line
// does.

// brokenRules marks the programs of rules that can't work as broken. The error
// joins the reasons.
func (e *Engine) brokenRules(p *Policy) error {
	b := breakage{policy: p}
	generated := map[*Rule][]*Rule{}
	for _, rule := range p.AllRules() {
		generated[rule.Base] = append(generated[rule.Base], rule)
	}
	for _, rule := range p.Rules {
		before := len(b.errs)
		b.expressions(rule)
		b.references(rule, generated[rule])
		g := e.programs[rule]
		if g.noStandard != nil {
			b.add(p.Object.Span(rule.Pointer+"/validate/podSecurity"), "%s", g.noStandard)
		}
		if g.cel != nil {
			b.cel(g.cel())
		}
		g.broken = len(b.errs) > before
	}
	if c := e.conditions[p]; c != nil {
		before := len(b.errs)
		b.cel(c)
		for _, rule := range p.Rules {
			e.programs[rule].broken = e.programs[rule].broken || len(b.errs) > before
		}
	}
	for _, rule := range p.AllRules() {
		if rule.Base != nil && e.programs[rule.Base].broken {
			e.programs[rule].broken = true
		}
	}
	return errors.Join(b.errs...)
}

// A breakage collects the errors in a policy's rules.
type breakage struct {
	policy *Policy
	errs   []error
}

func (b *breakage) add(at render.Span, format string, args ...any) {
	if len(b.errs) == document.MaxErrors {
		return
	}
	b.errs = append(b.errs, document.Invalid(b.policy.Object, at, fmt.Sprintf(format, args...)))
}

// references adds an error for a reference $(path) to a field that the rule, or one that
// is generated from it, does not have. Kyverno refuses the policy.
func (b *breakage) references(rule *Rule, generated []*Rule) {
	_, err := resolveReferences(rule.Source)
	if wrong, ok := errors.AsType[*referenceError](err); ok {
		b.add(b.policy.Object.Span(rule.Pointer+wrong.at), "%s", err)
		return
	}
	for _, g := range generated {
		_, err := resolveReferences(g.Source)
		if wrong, ok := errors.AsType[*referenceError](err); ok {
			at := b.policy.Object.Span(rule.Pointer + strings.Replace(wrong.at, g.Prefix, "", 1))
			b.add(at, "the rule %s, which Kyverno generates from it: %s", g.Name, err)
			return
		}
	}
}

// cel adds an error for each expression that does not compile, with the place
// of its text.
func (b *breakage) cel(g *celProgram) {
	all := append(append([]*cel.Expression{}, g.conditions...), g.variables...)
	for _, v := range g.validations {
		all = append(all, v.Expression)
		if v.expression != nil {
			all = append(all, v.expression)
		}
	}
	for _, x := range all {
		if x.Err == nil {
			continue
		}
		at, message := b.policy.Object.Span(x.Pointer), x.Err.Error()
		if wrong, ok := errors.AsType[*cel.CompileError](x.Err); ok && len(wrong.Issues) > 0 {
			i := wrong.Issues[0]
			message = wrong.Plain()
			at = b.inside(x.Pointer, x.Source, i.Offset(x.Source))
		}
		b.add(at, "%s: %s", document.Dotted(x.Pointer), message)
	}
}

// inside returns the span of the character at an offset of the string at
// pointer, or of the whole string if that is not known.
func (b *breakage) inside(pointer, text string, offset int) render.Span {
	if s, ok := b.policy.Object.Inside(pointer, text, offset); ok {
		return s
	}
	return b.policy.Object.Span(pointer)
}

// expressions checks the rule's fields that hold JMESPath without braces, and
// the functions called by all of its JMESPath.
func (b *breakage) expressions(rule *Rule) {
	for pointer, s := range render.Texts(rule.Source, rule.Pointer) {
		switch in := strings.TrimPrefix(pointer, rule.Pointer); {
		case strings.Contains(s, "{{"):
			b.variables(s, pointer)
		case bareExpressions.MatchString(in):
			compiled, err := jmespath.Compile(s)
			if err == nil {
				err = compiled.Check()
			}
			if err != nil {
				b.add(b.policy.Object.Span(pointer), "%s: %s", document.Dotted(pointer), err)
			}
		}
	}
}

// bareExpressions matches the pointers of a rule's fields that hold JMESPath
// without braces.
var bareExpressions = regexp.MustCompile(`/foreach/\d+/list$|/context/\d+/\w+/jmesPath$|^/imageExtractors/[^/]+/\d+/jmesPath$`)

// variables checks the variables of a string. It skips variables that contain
// other variables, because their expression is known only when a request is
// evaluated.
func (b *breakage) variables(s, pointer string) {
	for _, v := range document.VariablePattern.FindAllStringSubmatch(s, -1) {
		expr := strings.TrimSpace(strings.TrimPrefix(strings.NewReplacer("{{", "", "}}", "").Replace(v[2]), "-"))
		compiled, err := jmespath.Compile(expr)
		if err != nil {
			continue // Kyverno refuses the policy for it, or nothing reads the string
		}
		if err := compiled.Check(); err != nil {
			b.add(b.policy.Object.Span(pointer), "variable %.200s: %s", expr, err)
			return
		}
	}
}
