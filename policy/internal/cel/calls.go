package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	stdoverloads "github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A callee is the function that a call is to.
type callee struct {
	id                 int64 // of the call
	function, overload string
	impl               *functions.Overload // nil for what only receivers implement
}

func (b *builder) call(e ast.Expr) (node, error) {
	to := b.refs[e.ID()]
	if to == nil {
		return nil, errLeft
	}
	c := e.AsCall()
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	switch c.FunctionName() {
	case operators.Index:
		return b.index(args, false)
	case operators.OptIndex, operators.OptSelect:
		return b.index(args, true)
	}
	nodes, err := b.nodes(args)
	if err != nil {
		return nil, err
	}
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return &junction{nodes, types.False}, nil
	case operators.LogicalOr:
		return &junction{nodes, types.True}, nil
	case operators.Conditional:
		return &conditional{nodes[0], nodes[1], nodes[2]}, nil
	case operators.Equals, operators.NotEquals:
		return &equality{nodes[0], nodes[1], c.FunctionName() == operators.NotEquals}, nil
	}
	return b.apply(b.callee(e.ID(), c.FunctionName(), to.OverloadIDs), nodes)
}

// callee resolves a function: by its overload where there is only one,
// otherwise to what looks for it when it is called.
func (b *builder) callee(id int64, function string, overloads []string) callee {
	c := callee{id: id, function: function}
	if len(overloads) == 1 {
		c.overload = overloads[0]
		c.impl = b.functions[c.overload]
	}
	if c.impl == nil {
		c.impl = b.functions[function]
	}
	return c
}

func (b *builder) apply(c callee, args []node) (node, error) {
	if n, done, err := b.special(c, args); done {
		return n, err
	}
	if c.impl != nil && c.impl.Async != nil {
		return nil, errLeft
	}
	switch {
	case len(args) == 0 && (c.impl == nil || c.impl.Function == nil):
		return nil, errLeft
	case len(args) == 1 && (c.impl == nil || c.impl.Unary != nil):
		return folded(c, &unaryCall{c, args[0], quickUnary[c.function]}, args)
	case len(args) == 2 && (c.impl == nil || c.impl.Binary != nil):
		return &binaryCall{c, args[0], args[1], quickBinary(c)}, nil
	case c.impl != nil && c.impl.Function == nil:
		return nil, errLeft
	}
	return folded(c, &variadicCall{c, args}, args)
}

// special plans the calls that cel-go and its libraries plan in their own way.
func (b *builder) special(c callee, args []node) (_ node, done bool, err error) {
	switch {
	case c.function == "or" && len(args) == 2 && (c.overload == "" || c.overload == "optional_or_optional"):
		return &alternative{args[0], args[1], false}, true, nil
	case c.function == "orValue" && len(args) == 2 && (c.overload == "" || c.overload == "optional_orValue_value"):
		return &alternative{args[0], args[1], true}, true, nil
	case c.overload == stdoverloads.InList:
		return inConstants(args)
	case c.function == "matches", c.function == "find", c.function == "findAll":
		return regexOf(c, args)
	}
	return nil, false, nil
}

func inConstants(args []node) (_ node, done bool, err error) {
	of, ok := args[1].(constant)
	if !ok {
		return nil, false, nil
	}
	list, ok := of.value.(traits.Lister)
	if !ok {
		return nil, true, errLeft
	}
	if list.Size() == types.IntZero {
		return constant{types.False}, true, nil
	}
	m, ok := members(args[0], list)
	return m, ok, nil
}

// folded is the value of a conversion of a constant. One that fails is left to
// cel-go, which refuses the expression.
func folded(c callee, n node, args []node) (node, error) {
	if len(args) != 1 || !stdoverloads.IsTypeConversionFunction(c.function) || !constants(args) {
		return n, nil
	}
	v := n.eval(&frame{})
	if types.IsUnknownOrError(v) {
		return nil, errLeft
	}
	return constant{v}, nil
}

// A regex is a call with a constant pattern.
type regex struct {
	*pattern
	args []node
}

// regexOf compiles a constant pattern. What is called by more than one
// overload, or has a bad pattern, is left to cel-go.
func regexOf(c callee, args []node) (_ node, done bool, err error) {
	if len(args) < 2 {
		return nil, true, errLeft
	}
	given, ok := args[1].(constant)
	if !ok {
		return nil, false, nil
	}
	apply := patterns[c.overload]
	text, ok := given.value.(types.String)
	if apply == nil || !ok {
		return nil, true, errLeft
	}
	p, err := newPattern(string(text), apply)
	if err != nil {
		return nil, true, errLeft
	}
	return &regex{p, args}, true, nil
}

func (r *regex) eval(f *frame) ref.Val {
	text := r.args[0].eval(f)
	if types.IsError(text) {
		return text
	}
	if len(r.args) == 2 && !types.IsUnknown(text) {
		return r.pattern.match(text, nil)
	}
	vals, stop := strictly(f, r.args)
	if stop != nil {
		return stop
	}
	return r.pattern.match(vals[0], vals[2:])
}

// strictly evaluates arguments up to the first error, or merges the unknowns.
func strictly(f *frame, args []node) (vals []ref.Val, stop ref.Val) {
	vals = make([]ref.Val, len(args))
	var unknown *types.Unknown
	for i, arg := range args {
		vals[i] = arg.eval(f)
		if types.IsError(vals[i]) {
			return nil, vals[i]
		}
		unknown, _ = types.MaybeMergeUnknowns(vals[i], unknown)
	}
	if unknown != nil {
		return nil, unknown
	}
	return vals, nil
}

// takes says whether the implementation takes a first argument.
func (c *callee) takes(v ref.Val) bool {
	return c.impl != nil && (c.impl.OperandTrait == 0 ||
		c.impl.NonStrict && types.IsUnknownOrError(v) || v.Type().HasTrait(c.impl.OperandTrait))
}

// receive asks the first argument itself.
func (c *callee) receive(v ref.Val, args []ref.Val) ref.Val {
	if v.Type().HasTrait(traits.ReceiverType) {
		return v.(traits.Receiver).Receive(c.function, c.overload, args)
	}
	return nil
}

func (c *callee) strict() bool { return c.impl == nil || !c.impl.NonStrict }

func (c *callee) none() ref.Val {
	return types.NewErrWithNodeID(c.id, "no such overload: %s", c.function)
}

// unaryCall is a call with one argument.
type unaryCall struct {
	callee
	arg   node
	quick func(ref.Val) ref.Val // gives nil for what it is not for
}

func (u *unaryCall) eval(f *frame) ref.Val {
	v := u.arg.eval(f)
	if u.quick != nil {
		if out := u.quick(v); out != nil {
			return out
		}
	}
	if u.strict() && types.IsUnknownOrError(v) {
		return v
	}
	if u.takes(v) {
		return u.impl.Unary(v)
	}
	if out := u.receive(v, []ref.Val{}); out != nil {
		return out
	}
	return u.none()
}

// binaryCall is a call with two arguments.
type binaryCall struct {
	callee
	left, right node
	quick       func(l, r ref.Val) ref.Val // gives nil for what it is not for
}

func (b *binaryCall) eval(f *frame) ref.Val {
	l := b.left.eval(f)
	strict := b.strict()
	if strict && types.IsError(l) {
		return l
	}
	r := b.right.eval(f)
	if strict && types.IsError(r) {
		return r
	}
	if b.quick != nil {
		if out := b.quick(l, r); out != nil {
			return out
		}
	}
	if strict {
		unknown, _ := types.MaybeMergeUnknowns(l, nil)
		if unknown, _ = types.MaybeMergeUnknowns(r, unknown); unknown != nil {
			return unknown
		}
	}
	if b.takes(l) {
		return b.impl.Binary(l, r)
	}
	if out := b.receive(l, []ref.Val{r}); out != nil {
		return out
	}
	return b.none()
}

// variadicCall is any other call.
type variadicCall struct {
	callee
	args []node
}

func (c *variadicCall) eval(f *frame) ref.Val {
	vals, stop := c.values(f)
	if stop != nil {
		return stop
	}
	if len(vals) == 0 || c.takes(vals[0]) {
		return c.impl.Function(vals...)
	}
	if out := c.receive(vals[0], vals[1:]); out != nil {
		return out
	}
	return types.NewErrWithNodeID(c.id, "no such overload: %s %d", c.function, c.id)
}

func (c *variadicCall) values(f *frame) (vals []ref.Val, stop ref.Val) {
	if c.strict() {
		return strictly(f, c.args)
	}
	vals = make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		vals[i] = arg.eval(f)
	}
	return vals, nil
}
