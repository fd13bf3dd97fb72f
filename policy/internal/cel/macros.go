package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// A macro is what a comprehension does with each element: look whether it
// holds, or add what is made of it to a list, of those that it holds for if
// there is a predicate.
type macro struct {
	predicate, elem ast.Expr
	decides         types.Bool // all stops at false, exists at true
}

// macro plans a comprehension that a macro stands for; nil is none.
func (b *builder) macro(c ast.ComprehensionExpr, over node) (node, error) {
	m := macroOf(c)
	if m == nil {
		return nil, nil
	}
	outside := len(b.locals)
	slot := b.newSlot()
	b.locals = append(b.locals, local{name: c.AccuVar()}, local{name: c.IterVar(), node: &variable{slot}})
	defer func() { b.locals = b.locals[:outside] }()
	predicate, err := b.optional(m.predicate)
	if err != nil {
		return nil, err
	}
	elem, err := b.optional(m.elem)
	switch {
	case err != nil:
		return nil, err
	case b.locals[outside].uses > 0:
		return nil, nil // reads what it has so far, as no macro does
	case elem != nil:
		return &collection{over, predicate, elem, slot}, nil
	}
	return &quantifier{over, predicate, m.decides, slot}, nil
}

// optional is nil for no expression.
func (b *builder) optional(e ast.Expr) (node, error) {
	if e == nil {
		return nil, nil
	}
	return b.node(e)
}

// macroOf recognizes a macro by its expansion.
func macroOf(c ast.ComprehensionExpr) *macro {
	accu, step := c.AccuVar(), c.LoopStep()
	switch {
	case c.HasIterVar2() || accu == c.IterVar() || !isIdent(c.Result(), accu):
		return nil
	case isLiteral(c.AccuInit(), types.True) && isGoOn(c.LoopCondition(), accu, false):
		return quantifies(step, operators.LogicalAnd, accu, types.False)
	case isLiteral(c.AccuInit(), types.False) && isGoOn(c.LoopCondition(), accu, true):
		return quantifies(step, operators.LogicalOr, accu, types.True)
	case c.AccuInit().Kind() != ast.ListKind || c.AccuInit().AsList().Size() > 0 || !isLiteral(c.LoopCondition(), types.True):
		return nil
	}
	m := &macro{}
	if args := argsOf(step, operators.Conditional, 3); args != nil && isIdent(args[2], accu) {
		m.predicate, step = args[0], args[1]
	}
	if m.elem = added(step, accu); m.elem == nil {
		return nil
	}
	return m
}

// quantifies recognizes the steps accu && p and accu || p.
func quantifies(step ast.Expr, operator, accu string, decides types.Bool) *macro {
	if args := argsOf(step, operator, 2); args != nil && isIdent(args[0], accu) {
		return &macro{predicate: args[1], decides: decides}
	}
	return nil
}

// added recognizes accu + [elem].
func added(step ast.Expr, accu string) ast.Expr {
	args := argsOf(step, operators.Add, 2)
	if args == nil || !isIdent(args[0], accu) || args[1].Kind() != ast.ListKind {
		return nil
	}
	if l := args[1].AsList(); l.Size() == 1 && len(l.OptionalIndices()) == 0 {
		return l.Elements()[0]
	}
	return nil
}

// isGoOn recognizes @not_strictly_false(accu), or of !accu.
func isGoOn(e ast.Expr, accu string, negated bool) bool {
	args := argsOf(e, operators.NotStrictlyFalse, 1)
	if args != nil && negated {
		args = argsOf(args[0], operators.LogicalNot, 1)
	}
	return args != nil && isIdent(args[0], accu)
}

func argsOf(e ast.Expr, function string, n int) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != function || e.AsCall().IsMemberFunction() || len(e.AsCall().Args()) != n {
		return nil
	}
	return e.AsCall().Args()
}

func isIdent(e ast.Expr, name string) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == name
}

func isLiteral(e ast.Expr, v ref.Val) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == v
}

// A quantifier is all or exists: && or || over the elements.
type quantifier struct {
	over, predicate node
	decides         types.Bool
	slot            int
}

func (q *quantifier) eval(f *frame) ref.Val {
	elems, err := iterated(q.over.eval(f))
	if err != nil {
		return err
	}
	var u undecided
	for _, e := range elems {
		f.slots[q.slot].value = e
		v := q.predicate.eval(f)
		switch b, ok := v.(types.Bool); {
		case !ok:
			u.add(v)
		case b == q.decides:
			return q.decides
		}
	}
	return u.or(!q.decides)
}

// A collection is map or filter.
type collection struct {
	over, predicate, elem node // predicate is nil where all are taken
	slot                  int
}

func (c *collection) eval(f *frame) ref.Val {
	elems, err := iterated(c.over.eval(f))
	if err != nil {
		return err
	}
	made := make([]ref.Val, 0, len(elems))
	var stop ref.Val // the list so far is an error or unknown
	for _, e := range elems {
		f.slots[c.slot].value = e
		if c.predicate != nil {
			v := c.predicate.eval(f)
			if v == types.False {
				continue
			}
			if v != types.True {
				stop = types.MaybeNoSuchOverloadErr(v)
				continue
			}
		}
		if types.IsError(stop) {
			continue // nothing can be added to it
		}
		v := c.elem.eval(f)
		switch {
		case types.IsError(v):
			stop = v
		case stop != nil || types.IsUnknown(v):
			stop = merged(stop, v)
		default:
			made = append(made, v)
		}
	}
	if stop != nil {
		return stop
	}
	return &List{made}
}

// merged is the unknowns of a list so far, and of an element to be added.
func merged(list, elem ref.Val) ref.Val {
	unknown, _ := types.MaybeMergeUnknowns(elem, nil)
	if list != nil {
		unknown, _ = types.MaybeMergeUnknowns(list, unknown)
	}
	return unknown
}
