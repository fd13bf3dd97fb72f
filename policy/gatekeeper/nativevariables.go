package gatekeeper

import (
	"errors"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A slot is a variable's value, evaluated when it is first read.
type slot struct {
	value ref.Val
	busy  bool
	asked []string // what it came to read that nobody knows
}

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
