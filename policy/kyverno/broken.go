package kyverno

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

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
