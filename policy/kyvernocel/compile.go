package kyvernocel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	v1 "k8s.io/api/admissionregistration/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// An expression is one CEL expression of a policy.
type expression struct {
	name, rule, pointer, source string
	want                        []*celgo.Type
	before                      bool // the variables can't be read
	origin                      render.Span
	ast                         *celgo.Ast
	program                     *cel.Program
	explainer                   func() *explain.Explainer
}

// compiled is a compiled policy, or a compiled copy of it for pod controllers.
// Apart from values made on first use it is read-only.
type compiled struct {
	policy   *Policy
	spec     *spec
	dialect  *cel.Dialect
	criteria *match.Criteria // nil matches nothing
	targets  *match.Criteria // selects existing objects to mutate; nil if there are none
	once     sync.Once
	broken   []error

	variables        []*expression
	names            cel.Names // of the variables
	conditions       []*expression
	validations      []*expression
	messages         []*expression // by validation; nil without messageExpression
	annotations      []*expression
	mutations        []*expression
	targetConditions []*expression
	targetExpression *expression
	deleting         []*expression
	generations      []*making
	references       []*expression // of matchImageReferences; nil for globs
	extractors       []*expression

	expressions []*expression // all expressions
	plans       *cel.Plans
	repeats     cel.Repeats[verdict]
	assumed     []string
}

// compiler compiles policies and exceptions. It is safe for concurrent use.
type compiler struct {
	proxies bool // policies about a proxy's requests are compiled, too
}

// policy reads, checks and compiles a policy; nil is one that Kyverno refuses.
func (c *compiler) policy(o *render.Object) (*Policy, []error) {
	p, errs := read(o)
	if len(errs) == 1 && errors.Is(errs[0], errProxy) && c.proxies {
		errs = nil
	}
	if p == nil || len(errs) > 0 {
		return nil, errs
	}
	p.main = newCompiled(p, p.spec)
	if p.main.ready(); len(p.main.broken) > 0 {
		return nil, p.main.broken
	}
	specs, err := p.autogen()
	if err != nil {
		return nil, []error{policy.ErrorAt(o, "/spec", "policy", err)}
	}
	for _, s := range specs {
		p.copies = append(p.copies, newCompiled(p, s))
	}
	return p, p.idle()
}

// idle warns of a policy that is about nothing.
func (p *Policy) idle() []error {
	m := p.spec.MatchConstraints
	if p.spec.Evaluation.Mode != modeKubernetes || m != nil && len(m.ResourceRules) > 0 {
		return nil
	}
	e := policy.ErrorAt(p.Object, "/spec", "policy", errors.New("spec.matchConstraints names no resources: the policy checks nothing"))
	e.Warning = true
	return []error{e}
}

func newCompiled(p *Policy, s *spec) *compiled {
	c := &compiled{policy: p, spec: s}
	if m := s.MatchConstraints; m != nil && len(m.ResourceRules) > 0 {
		if p.Kind == Deleting {
			everyOperation(m.ResourceRules)
			everyOperation(m.ExcludeResourceRules)
		}
		c.criteria = match.New(m)
	}
	if t := s.targets(); t != nil {
		everyOperation(t.ResourceRules)
		c.targets = match.New(t)
	}
	c.repeats.Reading(&c.names, func(i int) *celgo.Ast { return c.variables[i].ast },
		func() []*celgo.Ast { return asts(c.conditions, c.validations, c.annotations) }, func() []*celgo.Ast { return asts(c.messages) })
	return c
}

func asts(lists ...[]*expression) []*celgo.Ast {
	return cel.Each(func(e *expression) *celgo.Ast { return e.ast }, lists...)
}

// everyOperation sets all operations in rules. Existing objects are selected
// without an operation.
func everyOperation(rules []v1.NamedRuleWithOperations) {
	for i := range rules {
		rules[i].Operations = []v1.OperationType{v1.OperationAll}
	}
}

// ready compiles the expressions, once. What is wrong with them is in broken.
func (c *compiled) ready() *compiled {
	c.once.Do(func() {
		c.sources()
		f := flavour{kind: c.policy.Kind, namespaced: c.policy.Namespace != ""}
		if m := c.spec.Evaluation.Mode; proxies[m] != nil {
			f.proxy = m
		}
		var err error
		if c.dialect, err = f.dialect(); err == nil {
			err = c.compile()
		}
		if err != nil {
			c.broken = append(c.broken, policy.ErrorAt(c.policy.Object, "", "policy", err))
		}
		c.plans = c.plan()
		c.covered()
	})
	return c
}

func (c *compiled) add(e expression) *expression {
	e.origin = c.policy.Object.Span(e.pointer)
	e.explainer = sync.OnceValue(func() *explain.Explainer { return c.explainer(&e) })
	c.expressions = append(c.expressions, &e)
	return &e
}

var boolean, text = []*celgo.Type{celgo.BoolType}, []*celgo.Type{celgo.StringType}

// sources lists the expressions. An expression comes after those that it reads.
func (c *compiled) sources() {
	s := c.spec
	if c.policy.Kind == Validating { // compiled before there are variables
		c.conditions = c.named("matchConditions", s.MatchConditions, true)
	}
	for i, v := range s.Variables {
		c.names.Add(v.Name)
		c.variables = append(c.variables, c.add(expression{
			name: v.Name, rule: "variables[" + v.Name + "]", pointer: render.Pointer("spec", "variables", i, "expression"), source: v.Expression,
		}))
	}
	if c.policy.Kind != Validating {
		c.conditions = c.named("matchConditions", s.MatchConditions, false)
	}
	c.targetConditions = c.named("targetMatchConditions", s.TargetMatchConditions, false)
	c.deleting = c.named("conditions", s.Conditions, false)
	if t := s.TargetMatchConstraints; t != nil && t.Expression != "" {
		c.targetExpression = c.add(expression{rule: "targetMatchConstraints", pointer: "/spec/targetMatchConstraints/expression", source: t.Expression})
	}
	c.imageSources()
	c.validationSources()
	c.mutationSources()
	for i, g := range s.Generate {
		c.generations = append(c.generations, c.makingOf(i, g))
	}
}

func (c *compiled) named(list string, conditions []v1.MatchCondition, before bool) []*expression {
	var all []*expression
	for i, m := range conditions {
		all = append(all, c.add(expression{
			name: m.Name, rule: list + "[" + m.Name + "]", pointer: render.Pointer("spec", list, i, "expression"), source: m.Expression,
			want: boolean, before: before,
		}))
	}
	return all
}

func (c *compiled) validationSources() {
	want := boolean
	if p := proxies[c.spec.Evaluation.Mode]; p != nil {
		want = []*celgo.Type{p.response.celType(), celgo.NullType}
	}
	for i, v := range c.spec.Validations {
		rule := fmt.Sprintf("validations[%d]", i)
		c.validations = append(c.validations, c.add(expression{
			rule: rule, pointer: render.Pointer("spec", "validations", i, "expression"), source: v.Expression, want: want,
		}))
		c.messages = append(c.messages, nil)
		if v.MessageExpression != "" {
			c.messages[i] = c.add(expression{
				rule: rule, pointer: render.Pointer("spec", "validations", i, "messageExpression"), source: v.MessageExpression, want: text,
			})
		}
	}
	for i, a := range c.spec.AuditAnnotations {
		c.annotations = append(c.annotations, c.add(expression{
			name: a.Key, rule: "auditAnnotations[" + a.Key + "]", pointer: render.Pointer("spec", "auditAnnotations", i, "valueExpression"),
			source: a.ValueExpression, want: []*celgo.Type{celgo.StringType, celgo.NullType},
		}))
	}
}

func (c *compiled) mutationSources() {
	for i, m := range c.spec.Mutations {
		field, source := "applyConfiguration", ""
		if m.PatchType == v1.PatchTypeJSONPatch {
			field, source = "jsonPatch", m.JSONPatch.Expression
		} else {
			source = m.ApplyConfiguration.Expression
		}
		c.mutations = append(c.mutations, c.add(expression{
			rule: fmt.Sprintf("mutations[%d]", i), pointer: render.Pointer("spec", "mutations", i, field, "expression"), source: source,
		}))
	}
}

// compile compiles and plans all expressions. Errors of single expressions are
// in them; the returned error is about the whole.
func (c *compiled) compile() error {
	s, err := newScope(c.dialect)
	if err != nil {
		return err
	}
	for _, e := range c.expressions {
		t := celgo.DynType
		switch err := s.compile(c.dialect, e); {
		case err != nil:
			c.broken = append(c.broken, brokenAt(c.policy.Object, e, err))
		default:
			t = e.ast.OutputType()
			c.assume(e.ast)
		}
		if slices.Contains(c.variables, e) {
			s.fields[e.name] = t
		}
	}
	return nil
}

func (s *scope) compile(d *cel.Dialect, e *expression) (err error) {
	env := s.env
	if e.before {
		env = s.before
	}
	if strings.TrimSpace(e.source) == "" {
		return errors.New("expression is not specified")
	}
	if e.ast, err = cel.Compile(env, e.source, e.want...); err != nil {
		return err
	}
	e.program, err = d.Plan(e.ast)
	return err
}

// brokenAt returns the error of an expression.
func brokenAt(o *render.Object, e *expression, err error) *render.Error {
	f := policy.ErrorAt(o, e.pointer, e.rule, fmt.Errorf("%s: %w", e.rule, cel.PlainError(err)))
	f.Span = cel.PlaceOf(err, o, e.pointer, e.source)
	return f
}

// The stubs that verdicts can rest on.
const (
	assumedTime   = "time.now() gives a fixed time"
	assumedRandom = "random() gives always the same text"
	assumedToken  = "jwt.Decode checks tokens at a fixed time"
)

// assume records the assumptions behind the stubbed functions that an
// expression calls.
func (c *compiled) assume(a *celgo.Ast) {
	note := func(line string) {
		if !slices.Contains(c.assumed, line) {
			c.assumed = append(c.assumed, line)
		}
	}
	celast.PostOrderVisit(a.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch {
		case e.Kind() == celast.IdentKind && e.AsIdent() == nowName:
			note(assumedTime)
		case e.Kind() == celast.CallKind && (e.AsCall().FunctionName() == "random" || e.AsCall().FunctionName() == "random.random"):
			note(assumedRandom)
		case e.Kind() == celast.CallKind && e.AsCall().FunctionName() == "jwt.Decode":
			note(assumedToken)
		}
	}))
}

// plan returns the plans of the expressions. Kyverno has no budget for several.
func (c *compiled) plan() *cel.Plans {
	var variables, others []*cel.Program
	for _, e := range c.expressions {
		if slices.Contains(c.variables, e) {
			variables = append(variables, e.program)
		} else {
			others = append(others, e.program)
		}
	}
	return cel.NewPlans(&c.names, variables, cel.Group{Programs: others})
}
