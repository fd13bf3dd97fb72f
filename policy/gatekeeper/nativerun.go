package gatekeeper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// The groups of expressions that share a budget.
const (
	conditionsGroup = iota
	validationsGroup
)

// nativeBudget limits the cost of a constraint's validations and messages together.
// Gatekeeper uses the API server's limit for a single expression.
const nativeBudget = celconfig.PerCallLimit

// A nativeReview holds the values of a review for CEL, built once for all
// constraints.
type nativeReview struct {
	made                        bool
	object, old, request, space ref.Val
}

// frozen returns the CEL values of a review, built on first use. On DELETE, unlike
// in Rego, object is null.
func (r *review) frozen() *nativeReview {
	n := &r.native
	if n.made {
		return n
	}
	freeze := func(tree map[string]any) ref.Val {
		if tree == nil {
			return types.NullValue
		}
		return cel.Freeze(tree)
	}
	n.object, n.old = freeze(r.celObject()), freeze(r.old)
	n.request, n.space = freeze(r.celRequest()), types.NullValue
	switch {
	case r.namespaceOpen():
		n.space = r.open(r.needsNamespace())
	case r.namespace != nil && r.namespace.Object != nil && !r.engine.options.Written:
		n.space = freeze(cel.NamespaceTree(r.namespace.Object, r.namespace.Name))
	}
	n.made = true
	return n
}

// celRequest returns the request for CEL. Reading its user, if that is unknown, or its options
// makes the verdict undecided.
func (r *review) celRequest() map[string]any {
	fields := maps.Clone(r.fields)
	if r.userOpen() {
		fields[userField] = r.open(needsUser)
	}
	if r.optionsOpen() {
		fields[optionsField] = cel.PartialOptions(fields[optionsField], r.open(needsOptions).Ask)
	}
	return fields
}

func (r *review) celObject() map[string]any {
	if r.operation == string(policy.Delete) {
		return nil
	}
	return r.object
}

// A nativeRun evaluates one constraint on one review.
type nativeRun struct {
	*review
	c          *constraint
	code       *nativeCode
	values     *nativeReview
	params     ref.Val
	meter      cel.Meter
	conditions bool // match conditions are evaluated, which see no namespaceObject
	variables  *cel.Variables
}

// evaluateNative evaluates a constraint whose template is in CEL.
func (r *review) evaluateNative(c *constraint) []Response {
	x := r.nativeRun(c)
	if all, done := x.matchConditions(); done {
		return all
	}
	return x.validations()
}

func (r *review) nativeRun(c *constraint) *nativeRun {
	params, values := c.frozen(), r.frozen()
	x := &nativeRun{review: r, c: c, code: c.template.native, values: values, params: params}
	x.variables = cel.NewVariables(&x.code.names, &r.questions, x.variable)
	return x
}

// frozen returns the constraint as a CEL value, built once.
func (c *constraint) frozen() ref.Val {
	c.freeze.Do(func() { c.frozenTree = cel.Freeze(c.tree) })
	return c.frozenTree
}

// begin prepares the run for the match conditions or the validations. Each have a
// budget, and evaluate the variables, of their own.
func (n *nativeRun) begin(conditions bool, budget int64) {
	n.conditions = conditions
	n.meter.Begin(budget)
	n.variables.Reset(&n.code.names)
}

// errOpen is the error of an expression that reads an unknown value.
// they are in review.questions.
var errOpen = errors.New("undecided")

// eval evaluates an expression. Its error is cel.ErrBudget or errOpen, or worded
// like the API server's.
func (n *nativeRun) eval(e *cel.Expression) (ref.Val, error) {
	n.questions.Reset()
	v, err := n.meter.Evaluate(n.ctx, e.Program, n, e.Source, n.secret())
	if err != nil && !n.meter.Out() && n.questions.Any() {
		return nil, errOpen
	}
	return v, err
}

// variable evaluates a variable.
func (n *nativeRun) variable(i int) ref.Val {
	v, err := n.meter.Eval(n.ctx, n.code.variables[i].Program, n)
	return n.code.names.Variable(i, v, err)
}

// matchConditions evaluates the match conditions. If done, the validations must
// not run, and the responses say why
// (k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions).
func (n *nativeRun) matchConditions() (responses []Response, done bool) {
	if len(n.code.conditions) == 0 {
		return nil, false
	}
	n.begin(true, celconfig.RuntimeCELCostBudgetMatchConditions)
	var wrong, needs []string
	exempt, err := cel.FirstFalse(n.code.conditions, n.eval, func(_ *cel.Expression, err error) {
		if errors.Is(err, errOpen) {
			needs = append(needs, n.questions.All()...)
		} else {
			wrong = append(wrong, err.Error())
		}
	})
	switch {
	case err != nil:
		return []Response{n.broken(err)}, true
	case exempt != nil:
		return []Response{n.c.respond(policy.Skip, fmt.Sprintf("exempt by match condition %q", exempt.Name))}, true
	case len(needs) > 0:
		return []Response{n.undecided(needs)}, true
	case len(wrong) > 0:
		return []Response{n.broken(errors.New(strings.Join(wrong, ", ")))}, true
	}
	return nil, false
}

// broken returns the response for an error at run time.
func (n *nativeRun) broken(err error) Response {
	r := n.c.respond(policy.Error, policy.Shorten(err.Error(), policy.MaxMessage))
	if n.code.ignores {
		r.ignored, r.Message = true, policy.Shorten("ignored error: "+r.Message, policy.MaxMessage)
	}
	return r
}

// undecided returns the response for an expression that depends on unknown
// values.
func (n *nativeRun) undecided(needs []string) Response {
	slices.Sort(needs)
	return n.c.respond(policy.Unknown, "needs "+strings.Join(slices.Compact(needs), "; "))
}

// validations evaluates the validations, and the messages of those that fail.
func (n *nativeRun) validations() []Response {
	n.begin(false, nativeBudget)
	var all []Response
	var needs []string
	for i, e := range n.code.validations {
		v, err := n.eval(e)
		var r Response
		switch {
		case errors.Is(err, cel.ErrBudget):
			return []Response{n.broken(err)}
		case errors.Is(err, errOpen):
			needs = append(needs, n.questions.All()...)
			continue
		case err != nil:
			r = n.broken(err)
		case v == types.True:
			continue
		default:
			r = n.c.respond(policy.Fail, n.message(i))
		}
		if n.meter.Out() {
			return []Response{n.broken(fmt.Errorf("failed messageExpression: %w", cel.ErrBudget))}
		}
		if !n.engine.options.Written && !cel.WasStopped(err) {
			r.Fields, r.literals = n.blame(e)
		}
		all = append(all, r)
	}
	if len(needs) > 0 {
		all = append(all, n.undecided(needs))
	}
	if len(all) == 0 {
		return []Response{n.c.respond(policy.Pass, "")}
	}
	return all
}

// message returns the message of a failed validation.
func (n *nativeRun) message(i int) string {
	if e := n.code.messages[i]; e != nil {
		if text, ok := cel.Message(n.eval(e)); ok {
			return text
		}
	}
	return cel.FailedMessage(n.code.validations[i].Source, n.code.fixed[i])
}

// ResolveName implements cel.Activation.
func (n *nativeRun) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return n.values.object, true
	case "oldObject":
		return n.values.old, true
	case "request":
		return n.values.request, true
	case paramsName:
		return n.params, true
	case "variables":
		return n.variables, true
	case "namespaceObject":
		if n.conditions {
			return types.NullValue, true
		}
		return n.values.space, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (n *nativeRun) Parent() celgo.Activation { return nil }

// maxFields is the most fields that are named for one violation.
const maxFields = 16

// blame returns the fields of the object that made a validation fail, and the
// literals that the failed part compares them with.
func (n *nativeRun) blame(e *cel.Expression) (fields, literals []string) {
	root := "object"
	if n.celObject() == nil {
		root = "oldObject"
	}
	fields, literals = n.failure(e).Fields(n.ctx, e.Explainer(), n.roots(), root)
	return fields[:min(len(fields), maxFields)], literals
}

func (n *nativeRun) failure(e *cel.Expression) cel.Failure {
	return cel.Failure{Source: e.Source, Secret: n.secret()}
}

// roots returns the variables of expressions.
func (n *nativeRun) roots() map[string]any {
	return cel.RootsOf(n.celObject(), n.old, n, "request", "namespaceObject", paramsName)
}
