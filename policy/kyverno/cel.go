package kyverno

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/kyvernodoc"
	"github.com/preadmit/preadmit/render"
)

// validate.cel is what a ValidatingAdmissionPolicy holds, and Kyverno has
// k8s.io/apiserver evaluate it, with one difference that shows: whatever goes
// wrong is a failure.

// celEnvs hands out the environments of one version. It is safe for
// concurrent use.
type celEnvs struct {
	version cel.Version
	bare    func() (*celgo.Env, error)
	params  func() (*celgo.Env, error)
}

// newCELEnvs joins what is wrong with the version to an error.
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

// A celProgram is the CEL of a rule, or the match conditions of a policy.
type celProgram struct {
	conditions  []*celExpression
	variables   []*celExpression
	names       cel.Names // of the variables
	plans       *cel.Plans
	validations []*celValidation
	ofPolicy    bool // not of a rule
	paramKind   schemaKind
	paramRef    map[string]any // nil: no params
}

// schemaKind is a kind, as paramKind has it.
type schemaKind struct{ apiVersion, kind string }

// A celExpression is compiled, or says why it does not.
type celExpression struct {
	source    string
	pointer   string // in the policy as it is written
	program   *cel.Program
	err       error
	explainer func() *explain.Explainer

	user, namespace bool // reads who makes the request, and the namespace but for its name
}

// at says where the expression is written.
func (c *celExpression) at(prefix, list string, i int, key string) *celExpression {
	c.pointer = prefix + list + "/" + strconv.Itoa(i) + "/" + key
	return c
}

// A celValidation is an entry of expressions.
type celValidation struct {
	*celExpression
	message    string
	expression *celExpression // of the message; nil: none
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
		g.validations = []*celValidation{{celExpression: &celExpression{err: err, pointer: rule.Pointer + "/validate/cel"}}}
		g.plan()
		return g
	}
	at := rule.Pointer + "/validate/cel/"
	for i, x := range v.Variables {
		g.names.Add(x.Name)
		g.variables = append(g.variables, c.variable(x).at(at, "variables", i, "expression"))
	}
	for i, x := range rule.CELPreconditions {
		n := c.compile(x.Expression, celgo.BoolType)
		g.conditions = append(g.conditions, n.at(rule.Pointer+"/", "celPreconditions", i, "expression"))
	}
	for i, x := range v.Expressions {
		n := &celValidation{celExpression: c.compile(x.Expression, celgo.BoolType), message: cmp.Or(x.Message, rule.Validate.Message)}
		n.at(at, "expressions", i, "expression")
		if x.MessageExpression != "" {
			n.expression = c.compile(x.MessageExpression, celgo.StringType).at(at, "expressions", i, "messageExpression")
		}
		g.validations = append(g.validations, n)
	}
	g.plan()
	return g
}

// newMatchConditions compiles those of a policy's webhookConfiguration.
func (e *Engine) newMatchConditions(p *Policy) *celProgram {
	g := &celProgram{ofPolicy: true}
	c, err := e.newCELCompiler(g)
	for i, x := range p.MatchConditions {
		n := &celExpression{source: x.Expression, err: err}
		if err == nil {
			n = c.compile(x.Expression, celgo.BoolType)
		}
		g.conditions = append(g.conditions, n.at("/spec/webhookConfiguration/", "matchConditions", i, "expression"))
	}
	g.plan()
	return g
}

// The groups of expressions that share a budget.
const (
	conditionsGroup = iota
	validationsGroup
)

// plan prepares what is needed once the expressions are compiled.
func (c *celProgram) plan() {
	programs := func(list []*celExpression) []*cel.Program {
		return cel.Programs(func(e *celExpression) *cel.Program { return e.program }, list)
	}
	var validations []*celExpression
	for _, v := range c.validations {
		validations = append(validations, v.celExpression, v.expression)
	}
	c.plans = cel.NewPlans(&c.names, programs(c.variables),
		cel.Group{Budget: celconfig.RuntimeCELCostBudgetMatchConditions, Rounds: 1, Programs: programs(c.conditions)},
		cel.Group{Budget: celconfig.RuntimeCELCostBudget, Rounds: 1, Programs: programs(validations)})
}

// A celCompiler compiles the expressions of one program: its variables' type
// grows while it does.
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

func (c *celCompiler) compile(source string, want ...*celgo.Type) *celExpression {
	n := &celExpression{
		source: source, user: celUser.MatchString(source),
		namespace: len(celNamespace.FindAllString(source, -1)) > len(celName.FindAllString(source, -1)),
	}
	ast, err := c.compileOrValue(source, want...)
	if err != nil {
		n.err = err
		return n
	}
	if n.program, n.err = cel.Plan(ast); n.err != nil {
		return n
	}
	n.explainer = c.program.names.ExplainerOf(ast, c.program.variableAST)
	return n
}

func (c *celCompiler) variable(x kyvernodoc.Expression) *celExpression {
	n := c.compile(x.Expression)
	var t *celgo.Type
	if n.program != nil {
		t = n.program.AST.OutputType()
	}
	cel.AddVariable(c.types, x.Name, t)
	return n
}

// variableAST is the i-th variable, nil where it does not compile.
func (c *celProgram) variableAST(i int) *celgo.Ast {
	if p := c.variables[i].program; p != nil {
		return p.AST
	}
	return nil
}

// evaluate takes the preconditions, then the expressions until one does not
// hold.
func (c *celProgram) evaluate(x *run) *verdict {
	if x.review.object == nil {
		return nil // Kyverno leaves these out on DELETE
	}
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
	return r.group(validationsGroup, r.validate)
}

func (c *celRun) validate() *verdict {
	for _, n := range c.program.validations {
		v, err := c.eval(n.celExpression)
		switch {
		case err != nil:
			return &verdict{status: StatusFail, message: c.errorText(err)}
		case v == types.False:
			return &verdict{status: StatusFail, message: c.message(n), fields: c.blame(n.celExpression)}
		}
	}
	return &verdict{status: StatusPass}
}

// conditionsHold is nil where the policy's match conditions let the request be
// evaluated.
func (c *celProgram) conditionsHold(x *run) *verdict {
	return newCELRun(c, x, nil).conditionsHold()
}

// conditionsHold evaluates the conditions: one that is false counts more than
// one that breaks.
func (c *celRun) conditionsHold() *verdict { return c.group(conditionsGroup, c.eachCondition) }

func (c *celRun) eachCondition() *verdict {
	var first *verdict
	for _, n := range c.program.conditions {
		v, err := c.eval(n)
		switch {
		case err != nil && first == nil:
			first = &verdict{status: StatusFail, message: c.errorText(err)}
			if c.program.ofPolicy {
				first.status = StatusError
			}
		case err == nil && v == types.False:
			return &verdict{status: StatusSkip, message: "cel preconditions not met"}
		}
	}
	return first
}

// params are the objects that paramRef names; one that is nil where the rule
// takes none.
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
		sel := kyvernodoc.SelectorOf(c.paramRef["selector"])
		for _, o := range cluster.List(gk) {
			if (o.GetNamespace() == "" || o.GetNamespace() == namespace) && sel != nil && sel.Matches(o.GetLabels()) {
				found = append(found, o)
			}
		}
	}
	if len(found) == 0 && text("parameterNotFoundAction") != "Allow" {
		err := x.review.missing(fmt.Sprintf("needs a parameter of kind %s", c.paramKind.kind))
		return nil, broken("error in parameterized resource", err)
	}
	for _, o := range found {
		x.review.reveal(o.Object)
	}
	return found, nil
}

// message is the message of a failed expression.
func (c *celRun) message(n *celValidation) string {
	if n.expression != nil {
		if text, ok := cel.Message(c.eval(n.expression)); ok {
			if cel.Quotes(n.expression.program.AST) {
				return c.run.quoting(text)
			}
			return text
		}
	}
	return cel.FailedMessage(n.source, n.message)
}

// blame names the fields of the object that made an expression fail.
func (c *celRun) blame(n *celExpression) []string {
	f := cel.Failure{Source: n.source, Secret: c.run.secret()}
	fields, _ := f.Fields(c.run.review.ctx, n.explainer(), c.roots(), "object")
	return fields
}

// roots are the values that expressions were evaluated over.
func (c *celRun) roots() map[string]any {
	roots := map[string]any{"object": any(c.run.review.object), "oldObject": any(nil)}
	if c.run.review.old != nil {
		roots["oldObject"] = c.run.review.old
	}
	for _, name := range []string{"params", "request", "namespaceObject", "authorizer", "authorizer.requestResource"} {
		if v, ok := c.ResolveName(name); ok && v != nil {
			roots[name] = v
		}
	}
	return roots
}

// errorText returns the text of an error, without the values of Secrets that
// functions quote.
func (c *celRun) errorText(err error) string {
	text := err.Error()
	if c.run.secret() && !strings.HasPrefix(text, "compilation error") && !strings.Contains(text, "no such key") {
		return hidden
	}
	return text
}
