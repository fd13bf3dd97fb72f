package kyverno

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A celReview is what expressions see of a request, made once for all rules.
type celReview struct {
	object, old, request ref.Val
	sizes                cel.Sizes
	namespace            ref.Val
	authorizer, resource ref.Val
}

func (r *review) celValues() *celReview {
	if r.cel != nil {
		return r.cel
	}
	c := &celReview{object: types.NullValue, old: types.NullValue}
	var s cel.Sizes
	if r.object != nil {
		c.object, c.sizes = cel.Freeze(r.object)
	}
	if r.old != nil {
		c.old, s = cel.Freeze(r.old)
		c.sizes = c.sizes.Max(s)
	}
	c.request, s = cel.Freeze(r.celRequest())
	c.sizes = c.sizes.Max(s)
	c.namespace, s = cel.Freeze(r.namespaceObject())
	c.sizes = c.sizes.Max(s)
	r.cel = c
	return c
}

// celRequest is the variable request: of a user nothing is there on the
// command line of Kyverno.
func (r *review) celRequest() map[string]any {
	info := map[string]any{}
	if !r.engine.options.CLI {
		u := r.user()
		if u.Username != "" {
			info["username"] = u.Username
		}
		if u.UID != "" {
			info["uid"] = u.UID
		}
		if len(u.Groups) > 0 {
			info["groups"] = anys(u.Groups)
		}
	}
	kind, resource := kindTree(r.req), resourceTree(r.req)
	m := map[string]any{
		"uid": "", "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
		"operation": r.operation, "userInfo": info, "dryRun": r.req.DryRun, "object": nil, "oldObject": nil,
		"options": nil,
	}
	for key, value := range map[string]string{"name": r.req.Name, "namespace": r.req.Namespace, "subResource": r.req.SubResource} {
		if value != "" {
			m[key] = value
		}
	}
	return m
}

// namespaceObject is the object's namespace: on the command line of Kyverno
// its name alone, and so where it is not among the objects.
func (r *review) namespaceObject() any {
	name := r.req.Namespace
	if name == "" || r.req.Kind == namespaceKind {
		return nil
	}
	if !r.engine.options.CLI {
		if o := r.engine.options.Cluster.Namespace(r.unit(), name); o != nil {
			return merge(o.Object, map[string]any{"metadata": map[string]any{"labels": map[string]any{nameLabel: name}}})
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

// namespaceKnown says whether more than the namespace's name is known.
func (r *review) namespaceKnown() bool {
	name := r.req.Namespace
	return r.engine.options.CLI || name == "" || r.engine.options.Cluster.Namespace(r.unit(), name) != nil
}

// A celRun evaluates one program on one request. It is the activation of its
// expressions.
type celRun struct {
	program   *celProgram
	run       *run
	values    *celReview
	params    ref.Val
	variables celVariables
	remaining int64
	exact     bool // costs are counted
}

var _ celgo.Activation = (*celRun)(nil)

func newCELRun(g *celProgram, x *run, params *render.Object) *celRun {
	r := &celRun{program: g, run: x, values: x.review.celValues(), params: types.NullValue}
	sizes := r.values.sizes
	if params != nil {
		var s cel.Sizes
		r.params, s = cel.Freeze(params.Object)
		sizes = sizes.Max(s)
	}
	r.exact = sizes.Items > usual.Items || sizes.Length > usual.Length || g.total() > celconfig.RuntimeCELCostBudgetMatchConditions
	r.variables = celVariables{run: r, slots: make([]ref.Val, len(g.variables))}
	return r
}

// total bounds what all expressions cost together on usual inputs.
func (g *celProgram) total() uint64 {
	n := uint64(0)
	plus := func(e *celExpression) {
		if e == nil {
			return
		}
		sum, carry := bits.Add64(n, e.bound, 0)
		if carry != 0 {
			sum = math.MaxUint64
		}
		n = sum
	}
	for _, list := range [][]*celExpression{g.conditions, g.variables} {
		for _, e := range list {
			plus(e)
		}
	}
	for _, v := range g.validations {
		plus(v.celExpression)
		plus(v.expression)
	}
	return n
}

func (r *celRun) budget(n int64) { r.remaining = n }

var errCELBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// eval evaluates an expression. The error is in the API server's words.
func (r *celRun) eval(e *celExpression) (ref.Val, error) {
	if e.err != nil {
		return nil, fmt.Errorf("compilation error: %w", e.err)
	}
	review := r.run.review
	if e.user && !review.userKnown() {
		return nil, review.ask("needs to know who makes the request: give the user with --as")
	}
	if e.namespace && !review.namespaceKnown() {
		return nil, review.ask(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", review.req.Namespace))
	}
	v, err := r.evaluate(e)
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", e.source, err)
	}
	return v, nil
}

func (r *celRun) evaluate(e *celExpression) (ref.Val, error) {
	if !r.exact {
		return e.program.Eval(r)
	}
	v, cost, err := e.program.EvalExact(r.run.review.ctx, r)
	if r.remaining -= cost; r.remaining < 0 {
		return nil, errCELBudget
	}
	return v, err
}

// ResolveName implements cel.Activation.
func (r *celRun) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return r.values.object, true
	case "oldObject":
		return r.values.old, true
	case "request":
		return r.values.request, true
	case "namespaceObject":
		return r.values.namespace, true
	case "params":
		return r.params, true
	case "variables":
		return &r.variables, true
	case "authorizer":
		r.authorize()
		return r.values.authorizer, true
	case "authorizer.requestResource":
		r.authorize()
		return r.values.resource, true
	default:
		return nil, false
	}
}

// Parent implements cel.Activation.
func (r *celRun) Parent() celgo.Activation { return nil }

func (r *celRun) authorize() {
	if r.values.authorizer != nil {
		return
	}
	u := r.run.review.user()
	info := &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
	by := &celAuthorizer{r.run.review}
	r.values.authorizer = library.NewAuthorizerVal(info, by)
	r.values.resource = library.NewResourceAuthorizerVal(info, by, by)
}

// celAuthorizer answers the checks of the variable authorizer: on the command
// line of Kyverno with no.
type celAuthorizer struct{ *review }

// Authorize implements authorizer.Authorizer.
func (a *celAuthorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	o := &a.engine.options
	switch {
	case o.CLI:
		return authorizer.DecisionNoOpinion, "", nil
	case o.Authorizer == nil:
		return authorizer.DecisionNoOpinion, "", a.ask(question(attrs))
	}
	decision, reason, err := o.Authorizer.Authorize(ctx, attrs)
	if u, ok := errors.AsType[*Undecided](err); ok {
		return authorizer.DecisionNoOpinion, "", a.ask(u.Question)
	}
	if o.AuthorizerAssumed != "" {
		a.assume(o.AuthorizerAssumed)
	}
	return decision, reason, err
}

func question(attrs authorizer.Attributes) string {
	what := cmp.Or(attrs.GetResource(), attrs.GetPath())
	return fmt.Sprintf("needs to know whether the user may %s %s", attrs.GetVerb(), what)
}

// GetName and the others are the request as authorizer.requestResource has it.
func (a *celAuthorizer) GetName() string        { return a.req.Name }
func (a *celAuthorizer) GetNamespace() string   { return a.req.Namespace }
func (a *celAuthorizer) GetSubresource() string { return a.req.SubResource }
func (a *celAuthorizer) GetResource() schema.GroupVersionResource {
	return a.req.Resource.GroupVersionResource
}

// celVariables is the map of a rule's variables, each evaluated when it is
// first read.
type celVariables struct {
	run   *celRun
	slots []ref.Val
}

// Find implements traits.Mapper.
func (v *celVariables) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	i, ok := v.run.program.slots[string(name)]
	if !ok {
		return nil, false
	}
	if v.slots[i] == nil {
		v.slots[i] = types.NewErr("variable %q reads itself", string(name))
		v.slots[i] = v.value(i)
	}
	return v.slots[i], true
}

func (v *celVariables) value(i int) ref.Val {
	e := v.run.program.variables[i]
	if e.err == nil {
		val, err := v.run.eval(e)
		if err == nil {
			return val
		}
		return types.NewErr("composited variable %q fails to evaluate: %v", v.run.program.names[i], err)
	}
	return types.NewErr("composited variable %q fails to compile: %v", v.run.program.names[i], e.err)
}

// Get implements traits.Indexer.
func (v *celVariables) Get(key ref.Val) ref.Val {
	if val, ok := v.Find(key); ok {
		return val
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (v *celVariables) Contains(key ref.Val) ref.Val {
	val, ok := v.Find(key)
	if val != nil && types.IsUnknownOrError(val) {
		return val
	}
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (v *celVariables) Size() ref.Val { return types.Int(len(v.slots)) }

// Iterator implements traits.Iterable.
func (v *celVariables) Iterator() traits.Iterator {
	names := make([]ref.Val, len(v.run.program.names))
	for i, n := range v.run.program.names {
		names[i] = types.String(n)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

var celVariablesType = celgo.ObjectType("kubernetes.variables", traits.IndexerType|traits.FieldTesterType|traits.IterableType)

// ConvertToNative implements ref.Val.
func (v *celVariables) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("variables can't be converted")
}

// ConvertToType implements ref.Val.
func (v *celVariables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case celVariablesType:
		return v
	case types.TypeType:
		return celVariablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", celVariablesType.TypeName(), t.TypeName())
}

// Equal implements ref.Val.
func (v *celVariables) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(v)) }

// Type implements ref.Val.
func (v *celVariables) Type() ref.Type { return celVariablesType }

// Value implements ref.Val.
func (v *celVariables) Value() any { return v }
