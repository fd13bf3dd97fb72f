package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// comprehension plans a loop. Those of the macros all, exists, map and filter,
// which most are, are run by what knows what they do.
func (b *builder) comprehension(e ast.Expr) (node, error) {
	c := e.AsComprehension()
	over, err := b.node(c.IterRange())
	if err != nil {
		return nil, err
	}
	if n, err := b.macro(c, over); n != nil || err != nil {
		return n, err
	}
	return b.fold(c, e.ID(), over)
}

// A variable is an element of what a comprehension goes over.
type variable struct{ slot int }

func (v *variable) eval(f *frame) ref.Val { return f.slots[v.slot].value }

// An accumulator is what a comprehension makes, so far. Its first value is
// evaluated when it is first read.
type accumulator struct {
	slot  int
	first node
	env   types.Adapter
}

func (a *accumulator) eval(f *frame) ref.Val {
	if v := f.slots[a.slot].value; v != nil {
		return v
	}
	v := a.first.eval(f)
	s := &f.slots[a.slot]
	if l, ok := v.(traits.Lister); ok && l.Size() == types.IntZero {
		v, s.mutable = types.NewMutableList(a.env), true
	}
	if m, ok := v.(traits.Mapper); ok && m.Size() == types.IntZero {
		v, s.mutable = types.NewMutableMap(a.env, map[ref.Val]ref.Val{}), true
	}
	s.value = v
	return v
}

// newSlot is a place of a frame that no other variable has.
func (b *builder) newSlot() int {
	b.slots++
	return b.slots - 1
}

// A fold is a comprehension of any form, as cel-go's planner runs it.
type fold struct {
	id                         int64
	over, while, step, result  node
	accu, variable1, variable2 int // slots
	two                        bool
	env                        types.Adapter
}

func (b *builder) fold(c ast.ComprehensionExpr, id int64, over node) (_ node, err error) {
	n := &fold{id: id, over: over, accu: b.newSlot(), variable1: b.newSlot(), variable2: b.newSlot(), two: c.HasIterVar2(), env: b.env.CELTypeAdapter()}
	accu := &accumulator{slot: n.accu, env: n.env}
	if accu.first, err = b.node(c.AccuInit()); err != nil {
		return nil, err
	}
	outside := len(b.locals)
	defer func() { b.locals = b.locals[:outside] }()
	if n.two {
		b.locals = append(b.locals, local{name: c.IterVar2(), node: &variable{n.variable2}})
	}
	b.locals = append(b.locals, local{name: c.IterVar(), node: &variable{n.variable1}}, local{name: c.AccuVar(), node: accu})
	if n.while, err = b.node(c.LoopCondition()); err != nil {
		return nil, err
	}
	if n.step, err = b.node(c.LoopStep()); err != nil {
		return nil, err
	}
	b.locals = append(b.locals[:outside], local{name: c.AccuVar(), node: accu})
	n.result, err = b.node(c.Result())
	return n, err
}

func (n *fold) eval(f *frame) ref.Val {
	over := n.over.eval(f)
	if types.IsUnknownOrError(over) {
		return over
	}
	f.slots[n.accu] = slot{}
	if n.two {
		if err := n.entries(f, over); err != nil {
			return err
		}
		return n.outcome(f)
	}
	elems, err := iterated(over)
	if err != nil {
		return err
	}
	for _, e := range elems {
		f.slots[n.variable1].value = e
		if !n.turn(f) {
			break
		}
	}
	return n.outcome(f)
}

// turn is one time around. It says whether there may be another one.
func (n *fold) turn(f *frame) bool {
	if more, ok := n.while.eval(f).(types.Bool); ok && !bool(more) {
		return false
	}
	v := n.step.eval(f)
	f.slots[n.accu].value = v
	return true
}

// outcome is the result of the loop, no longer to be changed.
func (n *fold) outcome(f *frame) ref.Val {
	v := n.result.eval(f)
	if !f.slots[n.accu].mutable {
		return v
	}
	switch m := v.(type) {
	case traits.MutableLister:
		return m.ToImmutableList()
	case traits.MutableMapper:
		return m.ToImmutableMap()
	}
	return v
}

// entries goes over keys and values, or indexes and elements.
func (n *fold) entries(f *frame, over ref.Val) ref.Val {
	e := &entering{n, f}
	switch of := over.(type) {
	case traits.Mapper:
		types.ToFoldableMap(of).Fold(e)
	case traits.Lister:
		types.ToFoldableList(of).Fold(e)
	default:
		return types.NewErrWithNodeID(n.id, "unsupported comprehension range type: %T", over)
	}
	return nil
}

// entering is a fold while it goes over entries.
type entering struct {
	*fold
	frame *frame
}

// FoldEntry implements traits.Folder.
func (e *entering) FoldEntry(key, value any) bool {
	e.frame.slots[e.variable1].value = e.env.NativeToValue(key)
	e.frame.slots[e.variable2].value = e.env.NativeToValue(value)
	return e.turn(e.frame)
}

// iterated are the values that a loop with one variable goes over.
func iterated(over ref.Val) (elems []ref.Val, err ref.Val) {
	if l, ok := over.(*List); ok {
		return l.elems, nil
	}
	if types.IsUnknownOrError(over) {
		return nil, over
	}
	if !over.Type().HasTrait(traits.IterableType) {
		return nil, types.ValOrErr(over, "got '%T', expected iterable type", over)
	}
	return elements(over.(traits.Iterable)), nil
}

func elements(of traits.Iterable) []ref.Val {
	var elems []ref.Val
	for it := of.Iterator(); it.HasNext() == types.True; {
		elems = append(elems, it.Next())
	}
	return elems
}
