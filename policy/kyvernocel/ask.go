package kyvernocel

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A question is the error of what can't be told here: `a || question` is
// decided where a is true, and else it is not.
type question struct{ text string }

func (q *question) Error() string { return q.text }

func ask(format string, args ...any) ref.Val {
	return types.WrapErr(&question{fmt.Sprintf(format, args...)})
}

// asked is the question that an error comes from.
func asked(err error) (*question, bool) {
	var q *question
	ok := errors.As(err, &q)
	return q, ok
}

// partial is a map of which only some keys are known; what else is read of it
// is a question.
type partial struct {
	known    map[string]ref.Val
	question string
}

func (p *partial) ask() ref.Val { return types.WrapErr(&question{p.question}) }

// Find implements traits.Mapper.
func (p *partial) Find(key ref.Val) (ref.Val, bool) {
	if k, ok := key.(types.String); ok && p.known[string(k)] != nil {
		return p.known[string(k)], true
	}
	return p.ask(), true
}

// Get implements traits.Indexer.
func (p *partial) Get(key ref.Val) ref.Val {
	v, _ := p.Find(key)
	return v
}

// Contains implements traits.Container.
func (p *partial) Contains(key ref.Val) ref.Val {
	if v := p.Get(key); types.IsError(v) {
		return v
	}
	return types.True
}

// Size implements traits.Sizer.
func (p *partial) Size() ref.Val { return p.ask() }

// Iterator implements traits.Iterable: its one element is the question.
func (p *partial) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{p.ask()}).Iterator()
}

// Fold implements traits.Foldable, likewise.
func (p *partial) Fold(f traits.Folder) { f.FoldEntry(p.ask(), p.ask()) }

// ConvertToNative implements ref.Val.
func (p *partial) ConvertToNative(reflect.Type) (any, error) { return nil, &question{p.question} }

// ConvertToType implements ref.Val.
func (p *partial) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return p
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from map to %s", t.TypeName())
}

// Equal implements ref.Val.
func (p *partial) Equal(other ref.Val) ref.Val {
	if other.Type() == types.NullType {
		return types.False
	}
	return p.ask()
}

// Type implements ref.Val.
func (p *partial) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (p *partial) Value() any { return p.known }
