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

// A nativeReview has the values of a review for CEL, made once for all constraints.
type nativeReview struct {
	made                        bool
	object, old, request, space ref.Val
	sizes                       cel.Sizes
}

// frozen makes the values of a review. Unlike Rego, CEL sees no object on
// DELETE.
func (r *review) frozen() *nativeReview {
	n := &r.native
	if n.made {
		return n
	}
	freeze := func(tree map[string]any) ref.Val {
		if tree == nil {
			return types.NullValue
		}
		v, s := cel.Freeze(tree)
		n.sizes = n.sizes.Max(s)
		return v
	}
	n.object, n.old = freeze(r.celObject()), freeze(r.old)
	n.request, n.space = freeze(r.celRequest()), types.NullValue
	switch {
	case r.namespaceOpen():
		n.space = r.open(r.needsNamespace())
	case r.namespace != nil && r.namespace.object != nil && !r.engine.options.Written:
		n.space = freeze(cel.NamespaceTree(r.namespace.object, r.namespace.name))
	}
	n.made = true
	return n
}

// celRequest returns the request for CEL. If the user is unknown, reading userInfo makes
// the verdict undecided.
func (r *review) celRequest() map[string]any {
	if !r.userOpen() {
		return r.fields
	}
	fields := maps.Clone(r.fields)
	fields["userInfo"] = r.open(needsUser)
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
	conditions bool // what is evaluated is a match condition, which sees no namespace
	variables  *cel.Variables
}

// askNative asks a constraint whose template is in CEL.
func (r *review) askNative(c *constraint) []Response {
	x := r.nativeRun(c)
	var all []Response
	done := false
	_ = x.meter.Group(conditionsGroup, func() error { all, done = x.matchConditions(); return nil })
	if !done {
		_ = x.meter.Group(validationsGroup, func() error { all = x.validations(); return nil })
	}
	return all
}

func (r *review) nativeRun(c *constraint) *nativeRun {
	params, sizes := c.frozen()
	values := r.frozen()
	x := &nativeRun{review: r, c: c, code: c.template.native, values: values, params: params}
	x.variables = cel.NewVariables(&x.code.names, &r.questions, x.variable)
	x.meter = x.code.plans.Meter(cel.Inputs{Objects: values.sizes, Others: values.sizes, Params: sizes})
	return x
}

// frozen is the constraint as CEL sees it, made once.
func (c *constraint) frozen() (ref.Val, cel.Sizes) {
	c.freeze.Do(func() { c.frozenTree, c.frozenSizes = cel.Freeze(c.tree) })
	return c.frozenTree, c.frozenSizes
}

// begin makes the run ready for a group of expressions, which evaluate the
// variables anew.
func (x *nativeRun) begin(conditions bool) {
	x.conditions = conditions
	x.variables.Reset(&x.code.names)
}

// errOpen is the error of an expression that reads an unknown value:
// review.questions tells what that is.
var errOpen = errors.New("undecided")

// eval evaluates an expression. Its error is cel.ErrBudget or errOpen, or has the
// API server's words.
func (x *nativeRun) eval(e *expression) (ref.Val, error) {
	x.questions.Reset()
	v, err := x.meter.Eval(x.ctx, e.program, x)
	if x.meter.Out() {
		return nil, cel.ErrBudget
	}
	if err != nil && x.questions.Any() {
		return nil, errOpen
	}
	if err != nil {
		return nil, fmt.Errorf("expression '%v' resulted in error: %w", e.source, cel.ShownError(e.source, err, x.secret()))
	}
	return v, nil
}

// variable evaluates a variable.
func (x *nativeRun) variable(i int) ref.Val {
	v, err := x.meter.Eval(x.ctx, x.code.variables[i].program, x)
	return x.meter.Variable(i, v, err)
}

// matchConditions says whether the constraint is about the review at all; done
// that it is not, or that this is not known
// (k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions).
func (x *nativeRun) matchConditions() (said []Response, done bool) {
	if len(x.code.conditions) == 0 {
		return nil, false
	}
	x.begin(true)
	var wrong, needs []string
	for _, e := range x.code.conditions {
		v, err := x.eval(e)
		switch {
		case errors.Is(err, cel.ErrBudget):
			return []Response{x.broken(err)}, true
		case errors.Is(err, errOpen):
			needs = append(needs, x.questions.All()...)
		case err != nil:
			wrong = append(wrong, err.Error())
		case v == types.False:
			return []Response{x.c.said(policy.Skip, fmt.Sprintf("exempt by match condition %q", e.name))}, true
		}
	}
	if len(needs) > 0 {
		return []Response{x.undecided(needs)}, true
	}
	if len(wrong) > 0 {
		return []Response{x.broken(errors.New(strings.Join(wrong, ", ")))}, true
	}
	return nil, false
}

// broken returns the response for an error at run time.
func (x *nativeRun) broken(err error) Response {
	r := x.c.said(policy.Error, policy.Shorten(err.Error(), policy.MaxMessage))
	if x.code.ignores {
		r.ignored, r.Message = true, policy.Shorten("ignored error: "+r.Message, policy.MaxMessage)
	}
	return r
}

// undecided is the response of an expression that depends on unknown values.
func (x *nativeRun) undecided(needs []string) Response {
	slices.Sort(needs)
	return x.c.said(policy.Unknown, "needs "+strings.Join(slices.Compact(needs), "; "))
}

// validations evaluates the validations, and the messages of those that fail.
func (x *nativeRun) validations() []Response {
	x.begin(false)
	var all []Response
	var needs []string
	for i, e := range x.code.validations {
		v, err := x.eval(e)
		var r Response
		switch {
		case errors.Is(err, cel.ErrBudget):
			return []Response{x.broken(err)}
		case errors.Is(err, errOpen):
			needs = append(needs, x.questions.All()...)
			continue
		case err != nil:
			r = x.broken(err)
		case v == types.True:
			continue
		default:
			r = x.c.said(policy.Fail, x.message(i))
		}
		if x.meter.Out() {
			return []Response{x.broken(fmt.Errorf("failed messageExpression: %w", cel.ErrBudget))}
		}
		if !x.engine.options.Written && !cel.WasStopped(err) {
			r.Fields, r.literals = x.blame(e)
		}
		all = append(all, r)
	}
	if len(needs) > 0 {
		all = append(all, x.undecided(needs))
	}
	if len(all) == 0 {
		return []Response{x.c.said(policy.Pass, "")}
	}
	return all
}

// message is that of a validation that failed.
func (x *nativeRun) message(i int) string {
	if e := x.code.messages[i]; e != nil {
		if text, ok := cel.Message(x.eval(e)); ok {
			return text
		}
	}
	return cel.FailedMessage(x.code.validations[i].source, x.code.fixed[i])
}

// ResolveName implements cel.Activation.
func (x *nativeRun) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return x.values.object, true
	case "oldObject":
		return x.values.old, true
	case "request":
		return x.values.request, true
	case paramsName:
		return x.params, true
	case "variables":
		return x.variables, true
	case "namespaceObject":
		if x.conditions {
			return types.NullValue, true
		}
		return x.values.space, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (x *nativeRun) Parent() celgo.Activation { return nil }
