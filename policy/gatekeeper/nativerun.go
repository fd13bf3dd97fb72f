package gatekeeper

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// buckets are the sizes of inputs for which costs are bounded beforehand, so
// that what can't reach the limit runs without counting.
var buckets = [...]cel.Sizes{
	{Items: 8, Length: 128},
	{Items: 24, Length: 256},
	{Items: 64, Length: 1 << 10},
	{Items: 512, Length: 16 << 10},
}

// bound is what all expressions together cost at most.
func (c *nativeCode) bound(s cel.Sizes) uint64 {
	roots := cel.Roots{Inputs: s, Variables: map[string]cel.Sizes{}}
	var total uint64
	left := len(c.variables)
	c.each(func(e *expression) {
		sum, carry := bits.Add64(total, cel.Cost(e.program.AST, roots), 0)
		if total = sum; carry != 0 {
			total = math.MaxUint64
		}
		if left--; left >= 0 {
			if s, ok := cel.ResultSizes(e.program.AST, roots); ok {
				roots.Variables[e.name] = s
			}
		}
	})
	return total
}

// counts says whether what runs on inputs of some sizes has to be counted.
func (c *nativeCode) counts(s cel.Sizes) bool {
	for i, b := range buckets {
		if s.Items <= b.Items && s.Length <= b.Length {
			return c.bounds[i]() > nativeBudget
		}
	}
	return true
}

// nativeBudget is what a constraint's validations and messages may cost
// together: Gatekeeper gives them what the API server gives one expression.
const nativeBudget = celconfig.PerCallLimit

// A nativeReview is what CEL sees of a review, made once for all constraints.
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
		n.space = &open{r, r.needsNamespace()}
	case r.namespace != nil && r.namespace.object != nil && !r.engine.options.Written:
		n.space = freeze(namespaceTree(r.namespace.object, r.namespace.name))
	}
	n.made = true
	return n
}

// celRequest is the request as CEL sees it, with what tells where nobody knows
// who makes it.
func (r *review) celRequest() map[string]any {
	if !r.userOpen() {
		return r.fields
	}
	fields := maps.Clone(r.fields)
	fields["userInfo"] = &open{r, needsUser}
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
	exact      bool // count the cost of everything
	remaining  int64
	conditions bool // what is evaluated is a match condition, which sees no namespace
	slots      []slot
}

// A slot is a variable's value, evaluated when it is first read.
type slot struct {
	value ref.Val
	busy  bool
	asked []string // what it came to read that nobody knows
}

// askNative asks a constraint whose template is in CEL.
func (r *review) askNative(c *constraint) []Response {
	x := r.nativeRun(c)
	if said, done := x.matchConditions(); done {
		return said
	}
	return x.validations()
}

func (r *review) nativeRun(c *constraint) *nativeRun {
	params, sizes := c.frozen()
	values := r.frozen()
	x := &nativeRun{review: r, c: c, code: c.template.native, values: values, params: params}
	x.exact = x.code.counts(values.sizes.Max(sizes))
	return x
}

// frozen is the constraint as CEL sees it, made once.
func (c *constraint) frozen() (ref.Val, cel.Sizes) {
	c.freeze.Do(func() { c.frozenTree, c.frozenSizes = cel.Freeze(c.tree) })
	return c.frozenTree, c.frozenSizes
}

// begin makes the run ready for a group of expressions, which evaluate the
// variables anew.
func (x *nativeRun) begin(budget int64, conditions bool) {
	x.remaining, x.conditions = budget, conditions
	x.slots = make([]slot, len(x.code.variables))
}

var errBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// errOpen is why an expression has no value that came to read what nobody knows:
// review.asked tells what that is.
var errOpen = errors.New("undecided")

// eval evaluates an expression. Its error is errBudget or errOpen, or has the
// API server's words.
func (x *nativeRun) eval(e *expression) (ref.Val, error) {
	x.asked = x.asked[:0]
	v, err := x.program(e)
	if x.remaining < 0 {
		return nil, errBudget
	}
	if err != nil && len(x.asked) > 0 {
		return nil, errOpen
	}
	if err != nil {
		return nil, fmt.Errorf("expression '%v' resulted in error: %w", e.source, x.told(e, err))
	}
	return v, nil
}

func (x *nativeRun) program(e *expression) (ref.Val, error) {
	if !x.exact {
		return e.program.Eval(x)
	}
	v, cost, err := e.program.EvalExact(x.ctx, x)
	x.remaining -= cost
	return v, err
}

// told is an error as it may be told: functions quote the values that they
// can't use. A key may be told that the expression names.
func (x *nativeRun) told(e *expression, err error) error {
	if !x.secret() {
		return err
	}
	if key, ok := strings.CutPrefix(err.Error(), "no such key: "); ok && strings.Contains(e.source, key) {
		return err
	}
	return errors.New(rego.Hidden)
}

// matchConditions says whether the constraint is about the review at all; done
// that it is not, or that this can't be told
// (k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions).
func (x *nativeRun) matchConditions() (said []Response, done bool) {
	if len(x.code.conditions) == 0 {
		return nil, false
	}
	x.begin(celconfig.RuntimeCELCostBudgetMatchConditions, true)
	var wrong, needs []string
	for _, e := range x.code.conditions {
		v, err := x.eval(e)
		switch {
		case errors.Is(err, errBudget):
			return []Response{x.broken(err)}, true
		case errors.Is(err, errOpen):
			needs = append(needs, x.asked...)
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

// broken is the response of what went wrong while it ran.
func (x *nativeRun) broken(err error) Response {
	r := x.c.said(policy.Error, cel.Shorten(err.Error(), maxMessage))
	if x.code.ignores {
		r.ignored, r.Message = true, cel.Shorten("ignored error: "+r.Message, maxMessage)
	}
	return r
}

// undecided is the response of what hangs on things that nobody knows.
func (x *nativeRun) undecided(needs []string) Response {
	slices.Sort(needs)
	return x.c.said(policy.Unknown, "needs "+strings.Join(slices.Compact(needs), "; "))
}

// validations evaluates the validations, and the messages of those that fail.
func (x *nativeRun) validations() []Response {
	x.begin(nativeBudget, false)
	var all []Response
	var needs []string
	for i, e := range x.code.validations {
		v, err := x.eval(e)
		var r Response
		switch {
		case errors.Is(err, errBudget):
			return []Response{x.broken(err)}
		case errors.Is(err, errOpen):
			needs = append(needs, x.asked...)
			continue
		case err != nil:
			r = x.broken(err)
		case v == types.True:
			continue
		default:
			r = x.c.said(policy.Fail, x.message(i))
		}
		if x.exact && x.remaining < 0 {
			return []Response{x.broken(fmt.Errorf("failed messageExpression: %w", errBudget))}
		}
		if !x.engine.options.Written {
			r.Fields, r.telling = x.blame(e)
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
		v, err := x.eval(e)
		s, ok := v.(types.String)
		text := strings.TrimSpace(string(s))
		if err == nil && ok && text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			return text
		}
	}
	if m := x.code.fixed[i]; m != "" {
		return m
	}
	return "failed expression: " + strings.TrimSpace(x.code.validations[i].source)
}

// maxFields is how many fields of one violation are named.
const maxFields = 16

// blame names the fields of the object that made a validation fail, and the
// texts that what failed compares them with.
func (x *nativeRun) blame(e *expression) (fields, telling []string) {
	why, ok := x.why(e, explain.Input{})
	if !ok {
		return nil, nil
	}
	root := "object"
	if x.celObject() == nil {
		root = "oldObject"
	}
	for _, c := range why.Culprits {
		if c.Root == root && len(fields) < maxFields {
			fields = append(fields, x.pointer(e, &c))
			telling = append(telling, c.Literals()...)
		}
	}
	return fields, telling
}

// why explains a validation that is not true.
func (x *nativeRun) why(e *expression, in explain.Input) (why explain.Explanation, ok bool) {
	explainer := e.explainer()
	if explainer == nil {
		return why, false
	}
	in.Roots, in.Want = map[string]any{"object": orEmpty(x.celObject()), "oldObject": orEmpty(x.old)}, true
	for _, name := range []string{"request", "namespaceObject", paramsName} {
		in.Roots[name], _ = x.ResolveName(name)
	}
	why, err := explainer.Explain(x.ctx, in)
	return why, err == nil
}

// orEmpty is a tree as a root, null where there is none.
func orEmpty(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return tree
}

// pointer is where a culprit stands. The name of a missing field that the
// expression does not have may come from a Secret's values.
func (x *nativeRun) pointer(e *expression, c *explain.Culprit) string {
	path := render.Path(c.Pointer)
	if n := len(path); c.Missing && n > 0 && x.secret() && !strings.Contains(e.source, path[n-1]) {
		return strings.TrimSuffix(c.Pointer, render.Pointer(path[n-1]))
	}
	return c.Pointer
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
		return (*variables)(x), true
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

// variables is the map of composited variables
// (k8s.io/apiserver/pkg/cel/lazy).
type variables nativeRun

// Find implements traits.Mapper.
func (v *variables) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	i, ok := v.code.slots[string(name)]
	if !ok {
		return nil, false
	}
	s := &v.slots[i]
	switch {
	case s.busy:
		return types.NewErr("variable %q reads itself", string(name)), true
	case s.value == nil:
		s.busy = true
		before := len(v.asked)
		value, err := (*nativeRun)(v).program(v.code.variables[i])
		s.asked = slices.Clone(v.asked[before:])
		if err != nil {
			value = types.NewErr("composited variable %q fails to evaluate: %v", string(name), err)
		}
		s.value, s.busy = value, false
	default:
		v.asked = append(v.asked, s.asked...)
	}
	return s.value, true
}

// Get implements traits.Indexer.
func (v *variables) Get(key ref.Val) ref.Val {
	if val, ok := v.Find(key); ok {
		return val
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (v *variables) Contains(key ref.Val) ref.Val {
	val, ok := v.Find(key)
	if ok && types.IsUnknownOrError(val) {
		return val
	}
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (v *variables) Size() ref.Val { return types.Int(len(v.slots)) }

// Iterator implements traits.Iterable.
func (v *variables) Iterator() traits.Iterator {
	names := make([]ref.Val, len(v.slots))
	for i, e := range v.code.variables {
		names[i] = types.String(e.name)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

// ConvertToNative implements ref.Val.
func (v *variables) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("variables can't be converted")
}

// ConvertToType implements ref.Val.
func (v *variables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return v
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("variables can't be converted")
}

// Equal implements ref.Val.
func (v *variables) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(v)) }

// Type implements ref.Val.
func (v *variables) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (v *variables) Value() any { return v }
