package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// Kyverno evaluates validate.cel, whose syntax is that of a
// ValidatingAdmissionPolicy, with k8s.io/apiserver. One difference shows: every
// error counts as a failure.

// celEnvs holds the CEL environments of one Kubernetes version. It is safe for
// concurrent use.
type celEnvs struct {
	version cel.Version
	bare    func() (*celgo.Env, error)
	params  func() (*celgo.Env, error)
}

// newCELEnvs returns the environments of a version. The error joins err and the
// error of an invalid version.
func newCELEnvs(version string, err error) (*celEnvs, error) {
	v, broken := cel.ParseVersion(version)
	if broken != nil {
		return nil, errors.Join(err, broken)
	}
	return &celEnvs{
		version: v,
		bare:    sync.OnceValues(func() (*celgo.Env, error) { return v.Env(cel.PolicyDeclarations(false, true)) }),
		params:  sync.OnceValues(func() (*celgo.Env, error) { return v.Env(cel.PolicyDeclarations(true, true)) }),
	}, err
}

// A celProgram holds the compiled CEL of a rule, or the match conditions of a
// policy.
type celProgram struct {
	conditions  []*cel.Expression
	variables   []*cel.Expression
	names       cel.Names // names of the variables
	validations []*celValidation
	ofPolicy    bool // it holds a policy's match conditions
	reads       map[*cel.Expression]celReads
	paramKind   schemaKind
	paramRef    map[string]any // nil: no params
}

// celReads reports whether an expression reads the user, or more of the namespace than its
// name.
type celReads struct{ user, namespace bool }

// schemaKind identifies a kind, as paramKind does.
type schemaKind struct{ apiVersion, kind string }

// A celValidation is an entry of validate.cel.expressions.
type celValidation struct {
	*cel.Expression
	message    string
	expression *cel.Expression // messageExpression, or nil
}

var (
	celUser      = regexp.MustCompile(`\buserInfo\b`)
	celNamespace = regexp.MustCompile(`\bnamespaceObject\b`)
	celName      = regexp.MustCompile(`\bnamespaceObject\.metadata\.name\b`)
)

// newCEL compiles a rule's validate.cel.
func (e *Engine) newCEL(rule *Rule) *celProgram {
	v := rule.Validate.CEL
	g := &celProgram{}
	if kind, ok := v.ParamKind.(map[string]any); ok {
		g.paramKind.apiVersion, _ = kind["apiVersion"].(string)
		g.paramKind.kind, _ = kind["kind"].(string)
		g.paramRef, _ = v.ParamRef.(map[string]any)
		if g.paramRef == nil {
			g.paramRef = map[string]any{}
		}
	}
	c, err := e.newCELCompiler(g)
	if err != nil {
		g.validations = []*celValidation{{Expression: &cel.Expression{Err: err, Pointer: rule.Pointer + "/validate/cel"}}}
		g.plan()
		return g
	}
	at := func(list string, i int, key string) string {
		return rule.Pointer + render.Pointer("validate", "cel", list, i, key)
	}
	for i, x := range v.Variables {
		g.names.Add(x.Name)
		g.variables = append(g.variables, c.variable(x, at("variables", i, "expression")))
	}
	for i, x := range rule.CELPreconditions {
		g.conditions = append(g.conditions, c.compile(x.Expression, rule.Pointer+render.Pointer("celPreconditions", i, "expression"), celgo.BoolType))
	}
	for i, x := range v.Expressions {
		n := &celValidation{c.compile(x.Expression, at("expressions", i, "expression"), celgo.BoolType), cmp.Or(x.Message, rule.Validate.Message), nil}
		if x.MessageExpression != "" {
			n.expression = c.compile(x.MessageExpression, at("expressions", i, "messageExpression"), celgo.StringType)
		}
		g.validations = append(g.validations, n)
	}
	g.plan()
	return g
}

// newMatchConditions compiles the matchConditions of a policy's
// webhookConfiguration.
func (e *Engine) newMatchConditions(p *Policy) *celProgram {
	g := &celProgram{ofPolicy: true}
	c, err := e.newCELCompiler(g)
	for i, x := range p.MatchConditions {
		pointer := render.Pointer("spec", "webhookConfiguration", "matchConditions", i, "expression")
		n := &cel.Expression{Source: x.Expression, Pointer: pointer, Err: err}
		if err == nil {
			n = c.compile(x.Expression, pointer, celgo.BoolType)
		}
		g.conditions = append(g.conditions, n)
	}
	g.plan()
	return g
}

// Groups of expressions. Those of a group share a cost budget.
const (
	conditionsGroup = iota
	validationsGroup
)

// plan prepares evaluation, after all expressions are compiled.
func (c *celProgram) plan() {
	var rules, messages []*cel.Expression
	for _, v := range c.validations {
		rules, messages = append(rules, v.Expression), append(messages, v.expression)
	}
	validations := slices.Concat(rules, messages)
	for _, e := range slices.Concat(c.conditions, c.variables, validations) {
		if e != nil && e.AST != nil {
			e.Explainer = c.names.ExplainerOf(e.AST, c.variables)
		}
	}
}

// A celCompiler compiles the expressions of one program. Each compiled variable
// adds a field to the type of `variables` that later expressions see.
type celCompiler struct {
	program *celProgram
	env     *celgo.Env
	types   *apiservercel.DeclType
}

func (e *Engine) newCELCompiler(g *celProgram) (*celCompiler, error) {
	base := e.celEnvs.bare
	if g.paramRef != nil {
		base = e.celEnvs.params
	}
	env, err := base()
	if err != nil {
		return nil, err
	}
	c := &celCompiler{program: g, types: cel.VariablesType()}
	c.env, err = e.celEnvs.version.WithVariables(env, c.types)
	return c, err
}

func (c *celCompiler) compile(source, pointer string, want ...*celgo.Type) *cel.Expression {
	e := &cel.Expression{Source: source, Pointer: pointer}
	if c.program.reads == nil {
		c.program.reads = make(map[*cel.Expression]celReads)
	}
	c.program.reads[e] = celReads{
		celUser.MatchString(source), len(celNamespace.FindAllString(source, -1)) > len(celName.FindAllString(source, -1)),
	}
	ast, err := c.compileOrValue(source, want...)
	if err == nil {
		e.Program, err = cel.Plan(ast)
	}
	if e.Err = err; err == nil {
		e.AST = ast
	}
	return e
}

func (c *celCompiler) variable(x document.Expression, pointer string) *cel.Expression {
	e := c.compile(x.Expression, pointer)
	var t *celgo.Type
	if e.AST != nil {
		t = e.AST.OutputType()
	}
	cel.AddVariable(c.types, x.Name, t)
	return e
}

// evaluate evaluates the CEL preconditions, then the expressions until one is
// false. On DELETE, object is null.
func (c *celProgram) evaluate(x *run) *verdict {
	params, v := c.params(x)
	if v != nil {
		return v
	}
	for _, p := range params {
		if v := c.evaluateWith(x, p); v.status != StatusPass {
			return v
		}
	}
	return &verdict{status: StatusPass, message: "Validation rule '" + x.program.rule.Name + "' passed."}
}

func (c *celProgram) evaluateWith(x *run, params *render.Object) *verdict {
	r := newCELRun(c, x, params)
	if v := r.conditionsHold(); v != nil {
		return v
	}
	return r.validate()
}

func (c *celRun) validate() *verdict {
	c.begin(celconfig.RuntimeCELCostBudget)
	for _, n := range c.program.validations {
		v, err := c.eval(n.Expression)
		switch {
		case err != nil:
			return &verdict{status: StatusFail, message: c.errorText(err)}
		case v == types.False:
			return &verdict{status: StatusFail, message: c.message(n), fields: c.blame(n.Expression)}
		}
	}
	return &verdict{status: StatusPass}
}

// conditionsHold evaluates the match conditions. If one is false, errors in
// others do not count.
func (c *celRun) conditionsHold() *verdict {
	c.begin(celconfig.RuntimeCELCostBudgetMatchConditions)
	var first error
	exempt, err := cel.FirstFalse(c.program.conditions, c.eval, func(_ *cel.Expression, err error) { first = cmp.Or(first, err) })
	switch first = cmp.Or(first, err); {
	case exempt != nil:
		return &verdict{status: StatusSkip, message: "cel preconditions not met"}
	case first == nil:
		return nil
	case c.program.ofPolicy:
		return &verdict{status: StatusError, message: c.errorText(first)}
	}
	return &verdict{status: StatusFail, message: c.errorText(first)}
}

// params returns the objects that paramRef names, or a single nil if the rule
// takes no parameters.
func (c *celProgram) params(x *run) ([]*render.Object, *verdict) {
	if c.paramRef == nil {
		return []*render.Object{nil}, nil
	}
	text := func(key string) string { s, _ := c.paramRef[key].(string); return s }
	gk := policy.ParseGroupVersion(c.paramKind.apiVersion).WithKind(c.paramKind.kind).GroupKind()
	namespace := cmp.Or(text("namespace"), x.review.req.Namespace)
	cluster := x.review.store().cluster
	var found []*render.Object
	if name := text("name"); name != "" {
		if o := cluster.Get(x.review.unit(), gk, namespace, name); o != nil {
			found = append(found, o)
		}
	} else {
		sel := document.SelectorOf(c.paramRef["selector"])
		for _, o := range cluster.List(gk) {
			if (o.GetNamespace() == "" || o.GetNamespace() == namespace) && sel != nil && sel.Matches(o.GetLabels()) {
				found = append(found, o)
			}
		}
	}
	if len(found) == 0 && (text("parameterNotFoundAction") != "Allow" || cluster.Lacks(gk)) {
		err := x.review.missing(fmt.Sprintf("needs a parameter of kind %s", c.paramKind.kind))
		return nil, broken("error in parameterized resource", err)
	}
	for _, o := range found {
		x.review.saw(o.Object)
	}
	return found, nil
}

// message returns the message of a failed expression.
func (c *celRun) message(n *celValidation) string {
	if n.expression != nil {
		if text, ok := cel.Message(c.eval(n.expression)); ok {
			if cel.Quotes(n.expression.AST) {
				return c.run.quoting(text)
			}
			return text
		}
	}
	return cel.FailedMessage(n.Source, n.message)
}

// blame returns the pointers of the object's fields that made an expression
// fail.
func (c *celRun) blame(n *cel.Expression) []string {
	f := cel.Failure{Source: n.Source, Secret: c.run.secret()}
	fields, _ := f.Fields(c.run.review.ctx, n.Explainer(), c.roots(), "object")
	return fields
}

// roots returns the variables that expressions were evaluated with, by name.
func (c *celRun) roots() map[string]any {
	return cel.RootsOf(c.run.review.object, c.run.review.old, c, "params", "request", "namespaceObject", "authorizer", "authorizer.requestResource")
}

// errorText returns the text of an error, with the values of Secrets that CEL
// functions quote removed.
func (c *celRun) errorText(err error) string {
	text := err.Error()
	if c.run.secret() && !strings.HasPrefix(text, "compilation error") && !strings.Contains(text, "no such key") {
		return hidden
	}
	return text
}

// In Kyverno x.orValue(y) returns x if x is not an optional. Elsewhere that is
// an error when the expression is checked or evaluated.

// lenient returns env with Kyverno's orValue, built from CEL's own functions:
// type(x) == optional_type ? x.orValue(y) : x, with x evaluated once.
func lenient(env *celgo.Env) (*celgo.Env, error) {
	return env.Extend(celgo.Macros(celgo.ReceiverMacro("orValue", 1, expandOrValue)))
}

const orValueVar = "@optional"

func expandOrValue(f celgo.MacroExprFactory, target celast.Expr, args []celast.Expr) (celast.Expr, *celgo.Error) {
	x := func() celast.Expr { return f.NewIdent(orValueVar) }
	isOptional := f.NewCall(operators.Equals, f.NewCall("type", x()), f.NewIdent("optional_type"))
	value := f.NewMemberCall("orValue", f.NewCall("dyn", x()), args[0])
	choice := f.NewCall(operators.Conditional, isOptional, value, f.NewCall("dyn", x()))
	return f.NewComprehension(f.NewList(), "#unused", orValueVar, target, f.NewLiteral(types.False), x(), choice), nil
}

// compileOrValue compiles an expression. Where orValue is called on something
// that may not be an optional, it uses Kyverno's orValue.
func (c *celCompiler) compileOrValue(source string, want ...*celgo.Type) (*celgo.Ast, error) {
	ast, err := cel.Compile(c.env, source, want...)
	if !strings.Contains(source, "orValue") || err == nil && !loose(ast) {
		return ast, err
	}
	if env, broken := lenient(c.env); broken == nil {
		if other, broken := cel.Compile(env, source, want...); broken == nil {
			return other, nil
		}
	}
	return ast, err
}

// loose reports whether orValue is called on something of unknown type.
func loose(ast *celgo.Ast) bool {
	native := ast.NativeRep()
	calls := celast.MatchDescendants(celast.NavigateAST(native), celast.FunctionMatcher("orValue"))
	for _, n := range calls {
		if call := n.AsCall(); call.IsMemberFunction() && native.GetType(call.Target().ID()).Kind() == types.DynKind {
			return true
		}
	}
	return false
}
