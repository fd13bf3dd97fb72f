package cel

import (
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Cover makes the program count its branches: whether each operand of && and ||, each
// condition of ?: and each predicate of a macro was true and false, whether the list
// of a macro was empty and not, and both outcomes of a boolean expression. Evaluation
// takes about twice as long. o is the policy; of has its name and rule. A nil
// Coverage counts nothing.
func (e *Expression) Cover(c *policy.Coverage, o *render.Object, of policy.Branch) {
	p := e.Program
	if p == nil || c == nil {
		return
	}
	p.watch(&branchWalk{counter: func(part ast.Expr, outcome string) *atomic.Int64 {
		b := of
		b.Case = outcome
		e.branch(&b, o, part)
		return c.Declare(b)
	}})
}

// CoverAs makes the program count its branches as those of other. The two expressions
// may differ only in the fields that they read.
func (p *Program) CoverAs(other *Program) {
	if p == nil || other == nil || len(other.counters) == 0 {
		return
	}
	rest := other.counters
	p.watch(&branchWalk{counter: func(ast.Expr, string) *atomic.Int64 {
		if len(rest) == 0 {
			return new(atomic.Int64)
		}
		next := rest[0]
		rest = rest[1:]
		return next
	}})
}

func (p *Program) watch(w *branchWalk) {
	w.of, w.points = p.AST.NativeRep(), make(map[int64]*branchPoint)
	root := w.of.Expr()
	if p.AST.OutputType().IsExactType(cel.BoolType) {
		w.outcomes(root)
	}
	w.walk(root)
	if len(w.points) == 0 {
		return
	}
	if observed, err := planned(p.plan, p.AST, w.watching()); err == nil {
		p.observed, p.counters = observed, w.counters
	}
}

// A branchPoint is a part of an expression with the counters of its values.
type branchPoint struct {
	yes, no     *atomic.Int64 // of a boolean
	empty, full *atomic.Int64 // of a list or map
}

func (b *branchPoint) observe(v ref.Val) {
	if b.yes != nil {
		switch v {
		case types.True:
			b.yes.Add(1)
		case types.False:
			b.no.Add(1)
		}
	}
	if sized, ok := v.(traits.Sizer); ok && b.empty != nil {
		if sized.Size() == types.IntZero {
			b.empty.Add(1)
		} else {
			b.full.Add(1)
		}
	}
}

// A branchWalk finds the branches of an expression.
type branchWalk struct {
	of       *ast.AST
	points   map[int64]*branchPoint
	counter  func(part ast.Expr, outcome string) *atomic.Int64
	counters []*atomic.Int64
}

// walk goes through an expression as its author wrote it: macros are not expanded.
func (b *branchWalk) walk(e ast.Expr) {
	if call, ok := b.of.SourceInfo().GetMacroCall(e.ID()); ok {
		b.macro(call.AsCall())
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		b.call(e.AsCall())
	case ast.SelectKind:
		b.walk(e.AsSelect().Operand())
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			b.walk(x)
		}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			b.walk(x.AsMapEntry().Key())
			b.walk(x.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, x := range e.AsStruct().Fields() {
			b.walk(x.AsStructField().Value())
		}
	}
}

func (b *branchWalk) call(c ast.CallExpr) {
	switch fn := c.FunctionName(); fn {
	case operators.LogicalAnd, operators.LogicalOr:
		for _, x := range c.Args() {
			if !isCall(x, fn) { // a && b && c has three operands
				b.outcomes(x)
			}
		}
	case operators.Conditional:
		b.outcomes(c.Args()[0])
	}
	if c.IsMemberFunction() {
		b.walk(c.Target())
	}
	for _, x := range c.Args() {
		b.walk(x)
	}
}

// macro takes the call of a macro: has(a.b), list.all(x, predicate).
func (b *branchWalk) macro(c ast.CallExpr) {
	if c.FunctionName() == "has" || !c.IsMemberFunction() {
		return
	}
	args := c.Args()
	switch c.FunctionName() {
	case "all", "exists", "exists_one", "existsOne", "filter":
		if last := args[len(args)-1]; !isCall(last, operators.LogicalAnd) && !isCall(last, operators.LogicalOr) {
			b.outcomes(last)
		}
		b.sizes(c.Target())
	case "map", "transformList", "transformMap", "transformMapEntry":
		b.sizes(c.Target())
	}
	b.walk(c.Target())
	for _, x := range args {
		b.walk(x)
	}
}

func isCall(e ast.Expr, function string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == function
}

// outcomes declares that a part may be true and false. A constant has no branches.
func (b *branchWalk) outcomes(e ast.Expr) {
	if e.Kind() == ast.LiteralKind {
		return
	}
	p := b.point(e)
	p.yes, p.no = b.declare(e, "true"), b.declare(e, "false")
}

// sizes declares that a list may be empty and not.
func (b *branchWalk) sizes(e ast.Expr) {
	if e.Kind() == ast.ListKind {
		return
	}
	p := b.point(e)
	p.empty, p.full = b.declare(e, "empty"), b.declare(e, "not empty")
}

func (b *branchWalk) point(e ast.Expr) *branchPoint {
	p := b.points[e.ID()]
	if p == nil {
		p = &branchPoint{}
		b.points[e.ID()] = p
	}
	return p
}

// maxPart bounds the text of a part.
const maxPart = 200

func (b *branchWalk) declare(e ast.Expr, outcome string) *atomic.Int64 {
	c := b.counter(e, outcome)
	b.counters = append(b.counters, c)
	return c
}

// branch sets the text and the place of a part of the expression.
func (e *Expression) branch(b *policy.Branch, o *render.Object, part ast.Expr) {
	info := e.Program.AST.NativeRep().SourceInfo()
	text, err := parser.Unparse(part, info)
	if err != nil {
		text = e.Source
	}
	b.Part, b.Origin = policy.Shorten(strings.Join(strings.Fields(text), " "), maxPart), o.Span(e.Pointer)
	if s, ok := o.Inside(e.Pointer, e.Source, startOf(info, part)); ok {
		b.Origin = s
	}
}

// startOf returns the offset at which a part begins, in code points.
func startOf(info *ast.SourceInfo, e ast.Expr) int {
	first := -1
	for {
		if r, ok := info.GetOffsetRange(e.ID()); ok && (first < 0 || int(r.Start) < first) {
			first = int(r.Start)
		}
		if call, ok := info.GetMacroCall(e.ID()); ok {
			e = call
		}
		switch {
		case e.Kind() == ast.SelectKind:
			e = e.AsSelect().Operand()
		case e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction():
			e = e.AsCall().Target()
		case e.Kind() == ast.CallKind && len(e.AsCall().Args()) > 0 && !isNamed(e.AsCall().FunctionName()):
			e = e.AsCall().Args()[0]
		default:
			return max(first, 0)
		}
	}
}

// isNamed reports whether a function is called by its name, before its arguments, or
// is an operator before its operand.
func isNamed(function string) bool {
	return !strings.ContainsAny(function, "_@") || function == operators.LogicalNot || function == operators.Negate
}

// watching returns the option by which a program's points are observed.
func (b *branchWalk) watching() cel.ProgramOption {
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		p := b.points[i.ID()]
		if p == nil {
			return i, nil
		}
		switch x := i.(type) {
		case *watched, *watchedAttribute, interpreter.InterpretableConst:
			return i, nil
		case interpreter.InterpretableAttribute:
			return &watchedAttribute{x, p}, nil
		default:
			return &watched{i, p}, nil
		}
	})
}

// watched is an observed part of a program.
type watched struct {
	interpreter.InterpretableV2
	point *branchPoint
}

// Exec implements interpreter.InterpretableV2.
func (w *watched) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableV2.Exec(frame)
	w.point.observe(v)
	return v
}

// Eval implements interpreter.Interpretable.
func (w *watched) Eval(in interpreter.Activation) ref.Val {
	v := w.InterpretableV2.Eval(in)
	w.point.observe(v)
	return v
}

// watchedAttribute is an observed variable or field.
type watchedAttribute struct {
	interpreter.InterpretableAttribute
	point *branchPoint
}

// Exec implements interpreter.InterpretableV2.
func (w *watchedAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableAttribute.Exec(frame)
	w.point.observe(v)
	return v
}

// Eval implements interpreter.Interpretable.
func (w *watchedAttribute) Eval(in interpreter.Activation) ref.Val {
	v := w.InterpretableAttribute.Eval(in)
	w.point.observe(v)
	return v
}
