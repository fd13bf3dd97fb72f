package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A path is a value and what is selected from it, step by step: a.b[c].?d
// (cel-go's attributes).
type path struct {
	root  node
	steps []step
}

// A step selects a field, a key or an element.
type step struct {
	name     string // of a plain field
	tag      uint32 // of the name
	plain    bool
	key      ref.Val
	index    node // computes the key; nil when it is known
	optional bool
}

// selection is a.b, and has(a.b).
func (b *builder) selection(e ast.Expr) (node, error) {
	if b.refs[e.ID()] != nil {
		return b.ident(e) // a name with a dot
	}
	sel := e.AsSelect()
	s, err := b.constantStep(sel.Operand(), types.String(sel.FieldName()), false)
	if err != nil {
		return nil, err
	}
	p, err := b.path(sel.Operand())
	if err != nil {
		return nil, err
	}
	if sel.IsTestOnly() {
		return &presence{*p, s}, nil
	}
	p.steps = append(p.steps, s)
	return p, nil
}

// path is what an operand evaluates to, ready for further steps.
func (b *builder) path(operand ast.Expr) (*path, error) {
	n, err := b.node(operand)
	if err != nil {
		return nil, err
	}
	if p, ok := n.(*path); ok {
		return p, nil
	}
	return &path{root: n}, nil
}

// constantStep is a step by a known key. Fields of objects with Go types are
// left to cel-go, and keys that no map can have.
func (b *builder) constantStep(operand ast.Expr, key ref.Val, optional bool) (step, error) {
	s := step{key: key, optional: optional}
	switch k := key.(type) {
	case types.String:
		if t := b.types[operand.ID()]; t != nil && t.Kind() == types.StructKind {
			if _, typed := b.env.CELTypeProvider().FindStructFieldType(t.TypeName(), string(k)); typed {
				return s, errLeft
			}
		}
		s.name, s.tag, s.plain = string(k), tagOf(string(k)), !optional
	case types.Int, types.Uint, types.Bool, types.Double:
	default:
		return s, errLeft
	}
	return s, nil
}

// index is a[b], a[?b] and a.?b.
func (b *builder) index(args []ast.Expr, optional bool) (node, error) {
	p, err := b.path(args[0])
	if err != nil {
		return nil, err
	}
	key, err := b.node(args[1])
	if err != nil {
		return nil, err
	}
	s := step{index: key, optional: optional}
	if c, ok := key.(constant); ok {
		if s, err = b.constantStep(args[0], c.value, optional); err != nil {
			return nil, err
		}
	}
	p.steps = append(p.steps, s)
	return p, nil
}

func (p *path) eval(f *frame) ref.Val {
	v := p.root.eval(f)
	for i := range p.steps {
		s := &p.steps[i]
		if next, ok := s.plainly(v); ok {
			if v = next; v == nil {
				return noSuchKey(s.key)
			}
			continue
		}
		v, optional, none := p.walk(f, v, i)
		switch {
		case none:
			return types.OptionalNone
		case optional && !types.IsUnknownOrError(v):
			return types.OptionalOf(v)
		}
		return v
	}
	return v
}

// Fields is a map whose values can be had by name. What Lookup finds may be an
// error.
type Fields interface {
	traits.Mapper
	Lookup(name string) (ref.Val, bool)
}

// plainly selects a field of a map, nil if there is none. ok is false where
// there is more to it.
func (s *step) plainly(v ref.Val) (found ref.Val, ok bool) {
	if !s.plain {
		return nil, false
	}
	switch m := v.(type) {
	case *Map:
		found, _ = m.find(s.name, s.tag)
	case Fields:
		found, _ = m.Lookup(s.name)
	default:
		return nil, false
	}
	return found, true
}

// walk takes the steps from the given one. optional says that one of them was,
// or the value at the root: then what is not there is none instead of an error.
func (p *path) walk(f *frame, v ref.Val, from int) (_ ref.Val, optional, none bool) {
	if types.IsUnknownOrError(v) {
		return v, false, false
	}
	if o, ok := v.(*types.Optional); ok && from == 0 {
		if !o.HasValue() {
			return nil, true, true
		}
		v, optional = o.GetValue(), true
	}
	for i := from; i < len(p.steps); i++ {
		s := &p.steps[i]
		optional = optional || s.optional
		found, ok, err := s.in(f, v, optional, false)
		switch {
		case err != nil:
			return err, false, false
		case !ok:
			return nil, true, true
		}
		v = found
	}
	return v, optional, false
}

// in takes the step. When test is set, ok says whether there is something;
// otherwise err does.
func (s *step) in(f *frame, v ref.Val, test, only bool) (found ref.Val, ok bool, err ref.Val) {
	key := s.key
	if s.index != nil {
		key = s.index.eval(f)
		switch key.(type) {
		case types.String, types.Int, types.Uint, types.Bool, types.Double:
		case *types.Err:
			return nil, false, key
		case *types.Unknown:
			return key, true, nil
		default:
			return nil, false, types.NewErr("invalid qualifier type: %T", key)
		}
	}
	return lookUp(v, key, test, only)
}

// lookUp finds what a container has at a key; only says that it does not
// matter what that is (cel-go's refQualify).
func lookUp(v, key ref.Val, test, only bool) (found ref.Val, ok bool, err ref.Val) {
	switch c := v.(type) {
	case *types.Unknown:
		return v, true, nil
	case *types.Err:
		return nil, false, v
	case traits.Mapper:
		found, ok = c.Find(key)
		if types.IsError(found) {
			return nil, false, found
		}
		if ok || test {
			return found, ok, nil
		}
		return nil, false, noSuchKey(key)
	case traits.Lister:
		return element(c, key, test)
	case traits.Indexer:
		return indexed(c, key, test, only)
	default:
		if test {
			return nil, false, nil
		}
		return nil, false, noSuchKey(key)
	}
}

func element(l traits.Lister, index ref.Val, test bool) (found ref.Val, ok bool, err ref.Val) {
	i, failed := types.IndexOrError(index)
	switch {
	case failed != nil:
		return nil, false, types.WrapErr(failed)
	case i >= 0 && types.Int(i) < l.Size().(types.Int):
		return l.Get(index), true, nil
	case test:
		return nil, false, nil
	}
	return nil, false, types.NewErr("index out of bounds: %v", index)
}

func indexed(v traits.Indexer, key ref.Val, test, only bool) (found ref.Val, ok bool, err ref.Val) {
	if tester, can := v.(traits.FieldTester); test && can {
		set := tester.IsSet(key)
		if types.IsError(set) {
			return nil, false, set
		}
		if only || set == types.False {
			return nil, set == types.True, nil
		}
	}
	found = v.Get(key)
	if types.IsError(found) {
		return nil, false, found
	}
	return found, true, nil
}

func noSuchKey(key ref.Val) ref.Val { return types.NewErr("no such key: %v", key) }

// presence is has(a.b).
type presence struct {
	path
	last step
}

func (p *presence) eval(f *frame) ref.Val {
	v := p.root.eval(f)
	i := 0
	for ; i < len(p.steps); i++ {
		s := &p.steps[i]
		next, ok := s.plainly(v)
		if !ok {
			break
		}
		if v = next; v == nil {
			return noSuchKey(s.key)
		}
	}
	if m, frozen := v.(*Map); frozen && i == len(p.steps) {
		found, ok := m.find(p.last.name, p.last.tag)
		if types.IsError(found) {
			return found
		}
		return types.Bool(ok)
	}
	return p.slow(f, v, i)
}

func (p *presence) slow(f *frame, v ref.Val, from int) ref.Val {
	v, _, none := p.walk(f, v, from)
	switch {
	case none:
		return types.False
	case types.IsUnknownOrError(v):
		return v
	}
	found, ok, err := lookUp(v, p.last.key, true, true)
	switch {
	case err != nil:
		return err
	case types.IsUnknown(found):
		return found
	}
	return types.Bool(ok)
}
