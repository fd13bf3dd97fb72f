package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// The cost limit counts the arguments of an operation at their top only: a list of
// two lists costs two, and may hold the same list twice, and so on. Comparing,
// printing or searching such a value takes as long as if it were written out. So
// values that expressions make have a weight, which counts shared parts each time
// they occur, and a limit.
const (
	maxWeight   = 1 << 18 // of a value made by an expression
	maxElements = 1 << 18 // of the sum of two lists
	knownWeight = 1 << 10 // values at least so heavy store their weight
	stringUnit  = 32      // bytes of a string that weigh 1
)

// weighed is the option by which lists and maps that a program makes are weighed.
func weighed() cel.ProgramOption {
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		c, ok := i.(interpreter.InterpretableConstructor)
		if !ok || isConstant(c) {
			return i, nil
		}
		return weighedConstructor{c}, nil
	})
}

// isConstant reports whether all elements of a constructor are constants, so that
// they are no more than written.
func isConstant(c interpreter.InterpretableConstructor) bool {
	for _, v := range c.InitVals() {
		if _, ok := v.(interpreter.InterpretableConst); !ok {
			return false
		}
	}
	return true
}

// A weighedConstructor makes lists or maps that are not too heavy.
type weighedConstructor struct {
	interpreter.InterpretableConstructor
}

// Exec implements interpreter.InterpretableV2.
func (w weighedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return held(w.InterpretableConstructor.Exec(frame))
}

// Eval implements interpreter.Interpretable.
func (w weighedConstructor) Eval(in interpreter.Activation) ref.Val {
	return held(w.InterpretableConstructor.Eval(in))
}

// held returns the value, with its weight if it is heavy, or an error if it is too
// heavy.
func held(v ref.Val) ref.Val {
	w := weigher{left: maxWeight}
	w.add(v)
	if w.left < 0 {
		return types.NewErr("a value of more than %d parts refused", maxWeight)
	}
	if weight := maxWeight - w.left; weight > knownWeight {
		switch x := v.(type) {
		case traits.Lister:
			return &heavyList{x, weight}
		case traits.Mapper:
			return &heavyMap{x, weight}
		}
	}
	return v
}

// heavyList and heavyMap store the weight of a value, so that it is not weighed again
// in each value that contains it.
type heavyList struct {
	traits.Lister
	weight int
}

type heavyMap struct {
	traits.Mapper
	weight int
}

// A weigher adds up weights until nothing is left.
type weigher struct{ left int }

func (w *weigher) add(v ref.Val) {
	if w.left--; w.left < 0 {
		return
	}
	switch x := v.(type) {
	case *heavyList:
		w.left -= x.weight
	case *heavyMap:
		w.left -= x.weight
	case types.String:
		w.left -= len(x) / stringUnit
	case types.Bytes:
		w.left -= len(x) / stringUnit
	case *types.Optional:
		if x.HasValue() {
			w.add(x.GetValue())
		}
	case *List: // of the input, which shares nothing
		w.left -= len(x.elems)
	case *Map:
		w.left -= len(x.keys)
	case traits.Lister:
		n, _ := x.Size().(types.Int)
		for i := types.Int(0); i < n && w.left >= 0; i++ {
			w.add(x.Get(i))
		}
	default:
		w.addMap(v)
	}
}

// addMap adds the contents of a map that an expression made.
func (w *weigher) addMap(v ref.Val) {
	m, ok := v.(traits.Mapper)
	if !ok {
		return
	}
	made, _ := m.Value().(map[ref.Val]ref.Val)
	for _, e := range made {
		if w.left < 0 {
			return
		}
		w.add(e)
	}
}

// guardAdd limits the growth of lists that are added to themselves.
func guardAdd(args []ref.Val) ref.Val {
	if len(args) < 2 {
		return nil
	}
	x, ok := args[0].(traits.Lister)
	y, ok2 := args[1].(traits.Lister)
	if !ok || !ok2 {
		return nil
	}
	n, _ := x.Size().(types.Int)
	m, _ := y.Size().(types.Int)
	if n+m > maxElements {
		return types.NewErr("a list of %d elements refused", n+m)
	}
	return nil
}
