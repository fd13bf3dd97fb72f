package kyvernocel

import (
	"errors"
	"fmt"
	"slices"
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

	variables        []*cel.Expression
	names            cel.Names // of the variables
	conditions       []*cel.Expression
	validations      []*cel.Expression
	messages         []*cel.Expression // by validation; nil without messageExpression
	annotations      []*cel.Expression
	mutations        []*cel.Expression
	targetConditions []*cel.Expression
	targetExpression *cel.Expression
	deleting         []*cel.Expression
	generations      []*generator
	references       []*cel.Expression // of matchImageReferences; nil for globs
	extractors       []*cel.Expression

	expressions []*cel.Expression // all expressions
	assumed     []string
}

// readPolicy reads, checks and compiles a policy. If Kyverno would refuse it, readPolicy
// returns nil and the errors; otherwise the errors are warnings.
func readPolicy(o *render.Object) (*Policy, []error) {
	p, errs := read(o)
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

// idle returns a warning if the policy's match constraints name no resources.
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
	return c
}

// everyOperation sets all operations in rules. Existing objects are selected
// without an operation.
func everyOperation(rules []v1.NamedRuleWithOperations) {
	for i := range rules {
		rules[i].Operations = []v1.OperationType{v1.OperationAll}
	}
}

// ready compiles the expressions once. Their errors are in c.broken.
func (c *compiled) ready() *compiled {
	c.once.Do(func() {
		c.sources()
		f := flavour{kind: c.policy.Kind, namespaced: c.policy.Namespace != ""}
		var err error
		if c.dialect, err = f.dialect(); err == nil {
			err = c.compile()
		}
		if err != nil {
			c.broken = append(c.broken, policy.ErrorAt(c.policy.Object, "", "policy", err))
		}
		c.covered()
	})
	return c
}

func (c *compiled) add(e cel.Expression) *cel.Expression {
	e.Origin = c.policy.Object.Span(e.Pointer)
	e.Explainer = sync.OnceValue(func() *explain.Explainer { return c.explainer(&e) })
	c.expressions = append(c.expressions, &e)
	return &e
}

var boolean, text = []*celgo.Type{celgo.BoolType}, []*celgo.Type{celgo.StringType}

// sources lists the expressions. An expression comes after those that it reads.
func (c *compiled) sources() {
	s := c.spec
	if c.policy.Kind == Validating { // compiled before there are variables
		c.conditions = c.named("matchConditions", s.MatchConditions)
	}
	for i, v := range s.Variables {
		c.names.Add(v.Name)
		c.variables = append(c.variables, c.add(cel.Expression{
			Name: v.Name, Rule: "variables[" + v.Name + "]", Pointer: render.Pointer("spec", "variables", i, "expression"), Source: v.Expression,
		}))
	}
	if c.policy.Kind != Validating {
		c.conditions = c.named("matchConditions", s.MatchConditions)
	}
	c.targetConditions = c.named("targetMatchConditions", s.TargetMatchConditions)
	c.deleting = c.named("conditions", s.Conditions)
	if t := s.TargetMatchConstraints; t != nil && t.Expression != "" {
		c.targetExpression = c.add(cel.Expression{Rule: "targetMatchConstraints", Pointer: "/spec/targetMatchConstraints/expression", Source: t.Expression})
	}
	c.imageSources()
	c.validationSources()
	c.mutationSources()
	for i, g := range s.Generate {
		c.generations = append(c.generations, c.generator(i, g))
	}
}

func (c *compiled) named(list string, conditions []v1.MatchCondition) []*cel.Expression {
	var all []*cel.Expression
	for i, m := range conditions {
		all = append(all, c.add(cel.Expression{
			Name: m.Name, Rule: list + "[" + m.Name + "]", Pointer: render.Pointer("spec", list, i, "expression"), Source: m.Expression,
			Want: boolean,
		}))
	}
	return all
}

func (c *compiled) validationSources() {
	for i, v := range c.spec.Validations {
		rule := fmt.Sprintf("validations[%d]", i)
		c.validations = append(c.validations, c.add(cel.Expression{
			Rule: rule, Pointer: render.Pointer("spec", "validations", i, "expression"), Source: v.Expression, Want: boolean,
		}))
		c.messages = append(c.messages, nil)
		if v.MessageExpression != "" {
			c.messages[i] = c.add(cel.Expression{
				Rule: rule, Pointer: render.Pointer("spec", "validations", i, "messageExpression"), Source: v.MessageExpression, Want: text,
			})
		}
	}
	for i, a := range c.spec.AuditAnnotations {
		c.annotations = append(c.annotations, c.add(cel.Expression{
			Name: a.Key, Rule: "auditAnnotations[" + a.Key + "]", Pointer: render.Pointer("spec", "auditAnnotations", i, "valueExpression"),
			Source: a.ValueExpression, Want: []*celgo.Type{celgo.StringType, celgo.NullType},
		}))
	}
}

func (c *compiled) mutationSources() {
	for i, m := range c.spec.Mutations {
		field, source := "applyConfiguration", ""
		switch {
		case m.PatchType == v1.PatchTypeJSONPatch && m.JSONPatch != nil:
			field, source = "jsonPatch", m.JSONPatch.Expression
		case m.ApplyConfiguration != nil:
			source = m.ApplyConfiguration.Expression
		}
		c.mutations = append(c.mutations, c.add(cel.Expression{
			Rule: fmt.Sprintf("mutations[%d]", i), Pointer: render.Pointer("spec", "mutations", i, field, "expression"), Source: source,
		}))
	}
}

// compile compiles and plans all expressions. An expression's error goes to
// c.broken. The returned error means that none could be compiled.
func (c *compiled) compile() error {
	s, err := newScope(c.dialect)
	if err != nil {
		return err
	}
	for _, e := range c.expressions {
		t, env := celgo.DynType, s.env
		if c.policy.Kind == Validating && slices.Contains(c.conditions, e) { // which can't read variables
			env = s.before
		}
		switch err := s.compile(c.dialect, e, env); {
		case err != nil:
			c.broken = append(c.broken, brokenAt(c.policy.Object, e, err))
		default:
			t = e.AST.OutputType()
			c.assume(e.AST)
		}
		if slices.Contains(c.variables, e) {
			s.fields[e.Name] = t
		}
	}
	return nil
}

func (s *scope) compile(d *cel.Dialect, e *cel.Expression, env *celgo.Env) (err error) {
	if err = e.Compile(env); err == nil {
		e.Program, err = d.Plan(e.AST)
	}
	return err
}

// brokenAt returns the error of an expression.
func brokenAt(o *render.Object, e *cel.Expression, err error) *render.Error {
	f := e.Broken(o, e.Rule, err)
	f.Err = fmt.Errorf("%s: %w", e.Rule, f.Err)
	return f
}

// Assumptions of results that depend on stubs.
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

// cover counts the branches of the policy's expressions.
func (p *Policy) cover(coverage *policy.Coverage) {
	if coverage == nil || p.main == nil {
		return
	}
	for _, e := range p.main.ready().expressions {
		e.Cover(coverage, p.Object, policy.Branch{Engine: p.engine(), Policy: p.Name, Rule: e.Rule})
	}
}

// covered makes a copy for pod controllers add its counts to the branches of
// the written policy.
func (c *compiled) covered() {
	main := c.policy.main
	if main == nil || c == main || len(main.expressions) != len(c.expressions) {
		return
	}
	for i, e := range c.expressions {
		if main.expressions[i].Pointer == e.Pointer {
			e.Program.CoverAs(main.expressions[i].Program)
		}
	}
}
