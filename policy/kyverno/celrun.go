package kyverno

import (
	"context"
	"errors"
	"fmt"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A celReview holds the variables of CEL expressions for one request, built
// once for all rules.
type celReview struct {
	object, old, request ref.Val
	namespace            ref.Val
	authorizer, resource ref.Val
}

func (r *review) celValues() *celReview {
	if r.cel != nil {
		return r.cel
	}
	c := &celReview{object: types.NullValue, old: types.NullValue}
	if r.object != nil {
		c.object = cel.Freeze(r.object)
	}
	if r.old != nil {
		c.old = cel.Freeze(r.old)
	}
	c.request, c.namespace = cel.Freeze(r.celRequest()), cel.Freeze(r.namespaceObject())
	r.cel = c
	return c
}

// celRequest returns the CEL variable request. Kyverno's command line leaves
// out the user.
func (r *review) celRequest() map[string]any {
	fields := r.req.Fields(r.req.Version())
	delete(fields, "requestSubResource")
	fields["operation"], fields["object"], fields["oldObject"], fields["options"] = r.operation, nil, nil, nil
	if r.engine.options.CLI {
		fields["userInfo"] = map[string]any{}
	}
	return fields
}

// namespaceObject returns the object's namespace. Only its name is there on
// Kyverno's command line, and where the Namespace is not among the objects.
func (r *review) namespaceObject() any {
	name := r.req.Namespace
	if name == "" || r.req.Kind == namespaceKind {
		return nil
	}
	if !r.engine.options.CLI {
		if o := r.engine.options.Cluster.Namespace(r.unit(), name); o != nil {
			return merge(o.Object, map[string]any{"metadata": map[string]any{"labels": map[string]any{corev1.LabelMetadataName: name}}})
		}
	} else if labels := r.mocks.Namespaces[name]; labels != nil {
		set := map[string]any{}
		for k, v := range labels {
			set[k] = v
		}
		return map[string]any{"metadata": map[string]any{"name": name, "labels": set}}
	}
	return map[string]any{"metadata": map[string]any{"name": name}}
}

// namespaceKnown reports whether more than the namespace's name is known.
func (r *review) namespaceKnown() bool {
	name := r.req.Namespace
	return r.engine.options.CLI || name == "" || r.engine.options.Cluster.Namespace(r.unit(), name) != nil
}

// A celRun evaluates one program on one request. It is the activation of the
// program's expressions.
type celRun struct {
	program   *celProgram
	run       *run
	values    *celReview
	params    ref.Val
	variables *cel.Variables
	meter     cel.Meter
}

var _ celgo.Activation = (*celRun)(nil)

func newCELRun(g *celProgram, x *run, params *render.Object) *celRun {
	r := &celRun{program: g, run: x, values: x.review.celValues(), params: types.NullValue}
	if params != nil {
		r.params = cel.Freeze(params.Object)
	}
	r.variables = cel.NewVariables(&g.names, nil, r.variable)
	return r
}

// begin prepares for expressions that share a cost budget. They evaluate the
// variables again.
func (c *celRun) begin(budget int64) {
	c.meter.Begin(budget)
	c.variables.Reset(&c.program.names)
}

// eval evaluates an expression. Its errors have the API server's wording.
func (c *celRun) eval(e *cel.Expression) (ref.Val, error) {
	if e.Err != nil {
		return nil, fmt.Errorf("compilation error: %w", e.Err)
	}
	review := c.run.review
	reads := c.program.reads[e]
	if reads.user && !review.userKnown() {
		return nil, review.ask(policy.NeedsUser)
	}
	if reads.namespace && !review.namespaceKnown() {
		return nil, review.ask(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", review.req.Namespace))
	}
	v, err := c.meter.Eval(review.ctx, e.Program, c)
	if c.meter.Out() {
		err = cel.ErrBudget
	}
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", e.Source, err)
	}
	return v, nil
}

// ResolveName implements cel.Activation.
func (c *celRun) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return c.values.object, true
	case "oldObject":
		return c.values.old, true
	case "request":
		return c.values.request, true
	case "namespaceObject":
		return c.values.namespace, true
	case "params":
		return c.params, true
	case "variables":
		return c.variables, true
	case "authorizer":
		c.authorize()
		return c.values.authorizer, true
	case "authorizer.requestResource":
		c.authorize()
		return c.values.resource, true
	default:
		return nil, false
	}
}

// Parent implements cel.Activation.
func (c *celRun) Parent() celgo.Activation { return nil }

func (c *celRun) authorize() {
	if c.values.authorizer != nil {
		return
	}
	by := c.run.review
	c.values.authorizer, c.values.resource = cel.AuthorizerValues(by.req, by.req.Namespace, *by.user(), &celAuthorizer{by})
}

// celAuthorizer answers the checks of the CEL variable authorizer. On Kyverno's
// command line every answer is no.
type celAuthorizer struct{ *review }

// Authorize implements authorizer.Authorizer.
func (c *celAuthorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	o := &c.engine.options
	switch {
	case o.CLI:
		return authorizer.DecisionNoOpinion, "", nil
	case o.Authorizer == nil:
		return authorizer.DecisionNoOpinion, "", c.ask(cel.AuthorizerQuestion(attrs))
	}
	decision, reason, err := o.Authorizer.Authorize(ctx, attrs)
	if u, ok := errors.AsType[*Undecided](err); ok {
		return authorizer.DecisionNoOpinion, "", c.ask(u.Question)
	}
	if o.AuthorizerAssumed != "" {
		c.assume(o.AuthorizerAssumed)
	}
	return decision, reason, err
}

// variable evaluates the i-th variable.
func (c *celRun) variable(i int) ref.Val {
	e := c.program.variables[i]
	if e.Err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", c.program.names.At(i), e.Err)
	}
	v, err := c.eval(e)
	return c.program.names.Variable(i, v, err)
}
