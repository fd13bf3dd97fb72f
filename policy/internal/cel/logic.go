package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// undecided is what && and || and the loops made of them go by while no term
// has decided: the unknowns among the terms, or else the first error.
type undecided struct {
	unknown *types.Unknown
	err     ref.Val
}

// add takes a term that is no boolean.
func (u *undecided) add(v ref.Val) {
	var unknown bool
	if u.unknown, unknown = types.MaybeMergeUnknowns(v, u.unknown); !unknown && u.err == nil {
		u.err = types.MaybeNoSuchOverloadErr(v)
	}
}

// or is what is undecided, or the value when nothing is.
func (u *undecided) or(v ref.Val) ref.Val {
	switch {
	case u.unknown != nil:
		return u.unknown
	case u.err != nil:
		return u.err
	}
	return v
}

// A junction is && (decided by false) or || (decided by true).
type junction struct {
	terms   []node
	decides types.Bool
}

func (j *junction) eval(f *frame) ref.Val {
	var u undecided
	for _, term := range j.terms {
		v := term.eval(f)
		switch b, ok := v.(types.Bool); {
		case !ok:
			u.add(v)
		case b == j.decides:
			return j.decides
		}
	}
	return u.or(!j.decides)
}

// A conditional is a ? b : c.
type conditional struct{ condition, yes, no node }

func (c *conditional) eval(f *frame) ref.Val {
	switch v := c.condition.eval(f); v {
	case types.True:
		return c.yes.eval(f)
	case types.False:
		return c.no.eval(f)
	default:
		return types.MaybeNoSuchOverloadErr(v)
	}
}

// An equality is == or !=.
type equality struct {
	left, right node
	negated     bool
}

func (e *equality) eval(f *frame) ref.Val {
	l := e.left.eval(f)
	if types.IsError(l) {
		return l
	}
	r := e.right.eval(f)
	if types.IsError(r) {
		return r
	}
	if a, ok := l.(types.String); ok {
		if b, ok := r.(types.String); ok {
			return types.Bool((a == b) != e.negated)
		}
	}
	unknown, _ := types.MaybeMergeUnknowns(l, nil)
	if unknown, _ = types.MaybeMergeUnknowns(r, unknown); unknown != nil {
		return unknown
	}
	same := types.Equal(l, r)
	if e.negated {
		return types.Bool(same != types.True)
	}
	return same
}

// An alternative is a.or(b) or a.orValue(b), of an optional a.
type alternative struct {
	optional, otherwise node
	value               bool
}

func (a *alternative) eval(f *frame) ref.Val {
	v := a.optional.eval(f)
	switch o := v.(type) {
	case *types.Err, *types.Unknown:
		return v
	case *types.Optional:
		if !o.HasValue() {
			return a.otherwise.eval(f)
		}
		if a.value {
			return o.GetValue()
		}
		return v
	default:
		return types.NoSuchOverloadErr()
	}
}

// A member is a in [b, c] with a list of constants.
type member struct {
	elem node
	set  map[ref.Val]struct{}
	text map[string]struct{} // the strings in it
}

func (m *member) eval(f *frame) ref.Val {
	v := m.elem.eval(f)
	if s, ok := v.(types.String); ok {
		_, found := m.text[string(s)]
		return types.Bool(found)
	}
	if types.IsUnknownOrError(v) {
		return v
	}
	_, found := m.set[v]
	return types.Bool(found)
}

// members makes a set of a constant list's elements, with the numbers of
// other types that equal them (cel-go's maybeOptimizeSetMembership). ok is
// false where an element can't be in a set.
func members(elem node, l traits.Lister) (_ *member, ok bool) {
	m := &member{elem: elem, set: map[ref.Val]struct{}{}, text: map[string]struct{}{}}
	for _, e := range elements(l) {
		if !types.IsPrimitiveType(e) || e.Type() == types.BytesType {
			return nil, false
		}
		m.set[e] = struct{}{}
		if s, ok := e.(types.String); ok {
			m.text[string(s)] = struct{}{}
		}
		m.addEquals(e)
	}
	return m, true
}

func (m *member) addEquals(e ref.Val) {
	var others []ref.Type
	switch e.(type) {
	case types.Double:
		others = []ref.Type{types.IntType, types.UintType}
	case types.Int:
		others = []ref.Type{types.DoubleType, types.UintType}
	case types.Uint:
		others = []ref.Type{types.DoubleType, types.IntType}
	}
	for _, t := range others {
		v := e.ConvertToType(t)
		if _, lossy := e.(types.Double); types.IsError(v) || lossy && types.Equal(v, e) != types.True {
			continue
		}
		m.set[v] = struct{}{}
	}
}
