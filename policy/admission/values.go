package admission

import (
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// activation binds the variables of a policy's expressions.
type activation struct {
	object, oldObject, params, request ref.Val
	namespace, authorizer              bool // are bound; made when they are read
	variables                          variables
}

// ResolveName implements cel.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return a.object, true
	case "oldObject":
		return a.oldObject, true
	case "params":
		return a.params, true
	case "request":
		return a.request, true
	case "namespaceObject":
		return a.namespaceObject(), true
	case "variables":
		return &a.variables, true
	}
	if !a.authorizer {
		return nil, false
	}
	authorizer, resource := a.variables.run.review.authorizers()
	switch name {
	case "authorizer":
		return authorizer, true
	case "authorizer.requestResource":
		return resource, true
	}
	return nil, false
}

func (a *activation) namespaceObject() ref.Val {
	if !a.namespace {
		return types.NullValue
	}
	return a.variables.run.review.namespaceVar()
}

// Parent implements cel.Activation.
func (a *activation) Parent() celgo.Activation { return nil }

// variables is the map of composited variables, each evaluated when it is
// first read, and then kept with its error if it has one
// (k8s.io/apiserver/pkg/cel/lazy).
type variables struct {
	run   *run
	slots []slot
}

// A slot is one variable's value.
type slot struct {
	value ref.Val
	busy  bool
	asked []string // what its value hangs on
}

func (v *variables) reset(r *run, n int) {
	v.run = r
	if cap(v.slots) < n {
		v.slots = make([]slot, n)
		return
	}
	v.slots = v.slots[:n]
	clear(v.slots)
}

// Find implements traits.Mapper.
func (v *variables) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	return v.Lookup(string(name))
}

// Lookup implements cel.Fields.
func (v *variables) Lookup(name string) (ref.Val, bool) {
	i, ok := v.run.policy.slots[name]
	if !ok {
		unescaped, valid := apiservercel.Unescape(name)
		if !valid {
			return nil, false
		}
		if i, ok = v.run.policy.slots[unescaped]; !ok {
			return nil, false
		}
	}
	return v.slot(i), true
}

func (v *variables) slot(i int) ref.Val {
	s := &v.slots[i]
	switch {
	case s.busy:
		return types.NewErr("variable %q reads itself", v.run.policy.policy.Spec.Variables[i].Name)
	case s.value == nil:
		s.busy = true
		before := len(v.run.review.asked)
		s.value = v.run.variable(i)
		s.asked = append([]string(nil), v.run.review.asked[before:]...)
		s.busy = false
	default:
		v.run.review.record(s.asked...)
	}
	return s.value
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
	if val != nil && types.IsUnknownOrError(val) {
		return val
	}
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (v *variables) Size() ref.Val { return types.Int(len(v.slots)) }

// Iterator implements traits.Iterable.
func (v *variables) Iterator() traits.Iterator {
	names := make([]ref.Val, len(v.slots))
	for i, variable := range v.run.policy.policy.Spec.Variables {
		names[i] = types.String(variable.Name)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

var variablesType = types.NewTypeValue("kubernetes.variables", traits.IndexerType|traits.FieldTesterType|traits.IterableType)

// ConvertToNative implements ref.Val.
func (v *variables) ConvertToNative(reflect.Type) (any, error) {
	return nil, types.NewErr("variables can't be converted").(error)
}

// ConvertToType implements ref.Val.
func (v *variables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesType:
		return v
	case types.TypeType:
		return variablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesType.TypeName(), t.TypeName())
}

// Equal implements ref.Val.
func (v *variables) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(v)) }

// Type implements ref.Val.
func (v *variables) Type() ref.Type { return variablesType }

// Value implements ref.Val.
func (v *variables) Value() any { return v }

// partial is a map of which only some keys are known. What else is read of it
// asks a question that only the live cluster, or the user, can answer.
type partial struct {
	known map[string]ref.Val
	ask   func(key string) ref.Val // records the question; an error value
}

// Find implements traits.Mapper.
func (p *partial) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	if v, ok := p.known[string(k)]; ok {
		return v, true
	}
	return p.ask(string(k)), false
}

// Get implements traits.Indexer.
func (p *partial) Get(key ref.Val) ref.Val {
	if v, _ := p.Find(key); v != nil {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (p *partial) Contains(key ref.Val) ref.Val {
	v, ok := p.Find(key)
	if v != nil && types.IsError(v) {
		return v
	}
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (p *partial) Size() ref.Val { return p.ask("") }

// Iterator implements traits.Iterable: its one element is the question.
func (p *partial) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{p.ask("")}).Iterator()
}

// Fold implements traits.Foldable, likewise.
func (p *partial) Fold(f traits.Folder) { f.FoldEntry(p.ask(""), p.ask("")) }

// ConvertToNative implements ref.Val.
func (p *partial) ConvertToNative(reflect.Type) (any, error) { return nil, p.ask("").(*types.Err) }

// ConvertToType implements ref.Val.
func (p *partial) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return p
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.MapType, t)
}

// Equal implements ref.Val.
func (p *partial) Equal(ref.Val) ref.Val { return p.ask("") }

// Type implements ref.Val.
func (p *partial) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (p *partial) Value() any { return p.known }
