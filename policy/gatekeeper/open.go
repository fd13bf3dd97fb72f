package gatekeeper

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/preadmit/preadmit/policy/internal/rego"
)

// What a verdict may hang on that nobody knows. It is undecided where policies
// come to read it, and only there.

// The fields of input.review that nobody may know.
const (
	userField      = "userInfo"
	namespaceField = "namespaceObject"
)

const needsUser = "to know who makes the request: give the user with --as"

// userOpen says whether nobody knows who makes the request.
func (r *review) userOpen() bool { return !r.userKnown && !r.engine.options.Written }

// namespaceOpen says whether nobody knows the object's namespace.
func (r *review) namespaceOpen() bool {
	return r.namespace != nil && !r.namespace.known && !r.engine.options.Written
}

func (r *review) needsNamespace() string {
	return fmt.Sprintf("to know namespace %s: give the Namespace with --with", r.namespace.name)
}

// openPlaces are those of the input of Rego that code may read.
func (r *review) openPlaces(code *regoCode) []rego.Open {
	var places []rego.Open
	if !code.opens {
		return nil
	}
	if r.userOpen() {
		places = append(places, rego.Open{Path: []string{"review", userField}, Needs: needsUser})
	}
	if r.namespaceOpen() {
		places = append(places, rego.Open{Path: []string{"review", namespaceField}, Needs: r.needsNamespace()})
	}
	return places
}

// An open is a value of CEL that is not known: whatever is asked of it, it tells
// the review what that needs, and is an error.
type open struct {
	review *review
	needs  string
}

func (o *open) ask() ref.Val {
	o.review.asked = append(o.review.asked, o.needs)
	return types.NewErr("needs %s", o.needs)
}

// Find implements traits.Mapper.
func (o *open) Find(ref.Val) (ref.Val, bool) { return o.ask(), false }

// Get implements traits.Indexer.
func (o *open) Get(ref.Val) ref.Val { return o.ask() }

// Contains implements traits.Container.
func (o *open) Contains(ref.Val) ref.Val { return o.ask() }

// Size implements traits.Sizer.
func (o *open) Size() ref.Val { return o.ask() }

// Iterator implements traits.Iterable: its one element is the question.
func (o *open) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{o.ask()}).Iterator()
}

// Fold implements traits.Foldable, likewise.
func (o *open) Fold(f traits.Folder) { f.FoldEntry(o.ask(), o.ask()) }

// ConvertToNative implements ref.Val.
func (o *open) ConvertToNative(reflect.Type) (any, error) { return nil, o.ask().(*types.Err) }

// ConvertToType implements ref.Val.
func (o *open) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.MapType, t)
}

// Equal implements ref.Val.
func (o *open) Equal(ref.Val) ref.Val { return o.ask() }

// Type implements ref.Val.
func (o *open) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o *open) Value() any { return map[string]any{} }
