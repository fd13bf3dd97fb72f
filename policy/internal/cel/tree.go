package cel

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// A tree is a checked expression made ready to run: what cel-go's planner
// makes of it, without what that has for protobuf messages, unknown
// attributes, tracking and interrupts. It calls the same functions and gives
// the same values and errors, which tree_test.go holds against cel-go; what
// it does not know how to run is left to cel-go as a whole.
type tree struct {
	root  node
	slots int
}

// A node evaluates a part of an expression. Errors are values, as in cel-go.
type node interface {
	eval(*frame) ref.Val
}

// A frame is one evaluation: its inputs, and the variables of comprehensions.
type frame struct {
	input cel.Activation
	slots []slot
}

// A slot is the variable of a comprehension; nil before it has a value.
type slot struct {
	value   ref.Val
	mutable bool // a list or map that the loop adds to
}

// frames are reused, since one expression takes less time than to allocate one.
var frames = sync.Pool{New: func() any { return new(frame) }}

// errLeft says that an expression is left to cel-go.
var errLeft = errors.New("left to cel-go")

// grow makes the tree of a checked expression, or errLeft. Constants are
// evaluated at once; what panics when it is, is left to cel-go too.
func grow(r *runner, a *cel.Ast) (_ *tree, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errLeft
		}
	}()
	checked := a.NativeRep()
	if !checked.IsChecked() {
		return nil, errLeft
	}
	b := &builder{runner: r, refs: checked.ReferenceMap(), types: checked.TypeMap()}
	root, err := b.node(checked.Expr())
	if err != nil {
		return nil, err
	}
	return &tree{root, b.slots}, nil
}

// eval runs the expression. A function that panics gives the error that
// cel-go makes of it.
func (t *tree) eval(input cel.Activation) (v ref.Val, err error) {
	f := frames.Get().(*frame)
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("internal error: %v", r)
		}
		clear(f.slots)
		f.input = nil
		frames.Put(f)
	}()
	f.input = input
	if cap(f.slots) < t.slots {
		f.slots = make([]slot, t.slots)
	}
	f.slots = f.slots[:t.slots]
	v = t.root.eval(f)
	if e, ok := v.(*types.Err); ok {
		return v, e
	}
	return v, nil
}

// builder makes nodes of an expression's parts.
type builder struct {
	*runner
	refs   map[int64]*ast.ReferenceInfo
	types  map[int64]*types.Type
	locals []local
	slots  int
}

// A local is a comprehension's variable where it can be seen.
type local struct {
	name string
	node node
	uses int
}

func (b *builder) node(e ast.Expr) (node, error) {
	switch e.Kind() {
	case ast.LiteralKind:
		return constant{e.AsLiteral()}, nil
	case ast.IdentKind:
		return b.ident(e)
	case ast.SelectKind:
		return b.selection(e)
	case ast.CallKind:
		return b.call(e)
	case ast.ListKind:
		return b.list(e)
	case ast.MapKind:
		return b.mapping(e)
	case ast.ComprehensionKind:
		return b.comprehension(e)
	default:
		return nil, errLeft
	}
}

func (b *builder) nodes(list []ast.Expr) ([]node, error) {
	nodes := make([]node, len(list))
	for i, e := range list {
		var err error
		if nodes[i], err = b.node(e); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// ident is a variable, or the name of a type or of an enumeration's value.
func (b *builder) ident(e ast.Expr) (node, error) {
	to := b.refs[e.ID()]
	switch t := b.types[e.ID()]; {
	case to == nil || len(to.Name) == 0 || to.Name[0] == '.' || t == nil:
		return nil, errLeft
	case to.Value != nil:
		return constant{to.Value}, nil
	case t.Kind() == types.TypeKind:
		v, found := b.env.CELTypeProvider().FindIdent(to.Name)
		if !found {
			return nil, errLeft
		}
		return constant{v}, nil
	}
	for i := len(b.locals) - 1; i >= 0; i-- {
		if l := &b.locals[i]; l.name == to.Name {
			l.uses++
			return l.node, nil
		}
	}
	return &global{to.Name, b.env}, nil
}

// A constant is a value that is known beforehand.
type constant struct{ value ref.Val }

func (c constant) eval(*frame) ref.Val { return c.value }

// A global is a variable of the input.
type global struct {
	name string
	env  *cel.Env
}

func (g *global) eval(f *frame) ref.Val {
	given, found := f.input.ResolveName(g.name)
	if v, ok := given.(ref.Val); ok && found {
		return v
	}
	return g.other(given, found)
}

// other is for what is no value yet, or not there.
func (g *global) other(given any, found bool) ref.Val {
	if found {
		return g.env.CELTypeAdapter().NativeToValue(given)
	}
	if t, ok := g.env.CELTypeProvider().FindIdent(g.name); ok {
		return t
	}
	return types.NewErr("no such attribute(s): %s", g.name)
}
