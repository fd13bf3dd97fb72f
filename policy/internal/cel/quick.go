package cel

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/operators"
	stdoverloads "github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// quickUnary are the functions that are called most, for the types that they
// are called with most: without looking for an overload, or checking types
// that are known. They give nil for others.
var quickUnary = map[string]func(ref.Val) ref.Val{
	operators.LogicalNot: func(v ref.Val) ref.Val {
		if b, ok := v.(types.Bool); ok {
			return !b
		}
		return nil
	},
	stdoverloads.Size: quickSize,
}

func quickSize(v ref.Val) ref.Val {
	switch v := v.(type) {
	case types.String:
		return types.Int(utf8.RuneCountInString(string(v)))
	case *List:
		return types.Int(len(v.elems))
	case *Map:
		return types.Int(len(v.keys))
	}
	return nil
}

// quickBinary is the same for functions of two arguments.
func quickBinary(c callee) func(l, r ref.Val) ref.Val {
	if f, ok := quickOverloads[c.overload]; ok {
		return f
	}
	return quickFunctions[c.function]
}

var quickOverloads = map[string]func(l, r ref.Val) ref.Val{
	stdoverloads.StartsWithString: ofStrings(strings.HasPrefix),
	stdoverloads.EndsWithString:   ofStrings(strings.HasSuffix),
	stdoverloads.ContainsString:   ofStrings(strings.Contains),
}

var quickFunctions = map[string]func(l, r ref.Val) ref.Val{
	operators.Less:          ordered(func(c int) bool { return c < 0 }),
	operators.LessEquals:    ordered(func(c int) bool { return c <= 0 }),
	operators.Greater:       ordered(func(c int) bool { return c > 0 }),
	operators.GreaterEquals: ordered(func(c int) bool { return c >= 0 }),
	operators.In:            quickIn,
}

func ofStrings(f func(s, t string) bool) func(l, r ref.Val) ref.Val {
	return func(l, r ref.Val) ref.Val {
		if s, ok := l.(types.String); ok {
			if t, ok := r.(types.String); ok {
				return types.Bool(f(string(s), string(t)))
			}
		}
		return nil
	}
}

func ordered(holds func(int) bool) func(l, r ref.Val) ref.Val {
	return func(l, r ref.Val) ref.Val {
		switch a := l.(type) {
		case types.Int:
			if b, ok := r.(types.Int); ok {
				return types.Bool(holds(cmp.Compare(a, b)))
			}
		case types.String:
			if b, ok := r.(types.String); ok {
				return types.Bool(holds(cmp.Compare(a, b)))
			}
		}
		return nil
	}
}

// quickIn looks for a string.
func quickIn(l, r ref.Val) ref.Val {
	s, ok := l.(types.String)
	if !ok {
		return nil
	}
	switch in := r.(type) {
	case *Map:
		_, found := in.Lookup(string(s))
		return types.Bool(found)
	case *List:
		for _, e := range in.elems {
			if t, ok := e.(types.String); ok && s == t {
				return types.True
			}
		}
		return types.False
	}
	return nil
}
