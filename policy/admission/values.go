package admission

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// activation binds the variables of a policy's expressions.
type activation struct {
	review                             *review
	object, oldObject, params, request ref.Val
	namespace, authorizer              bool // whether these are bound; they are made when first read
	variables                          *cel.Variables
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
		return a.variables, true
	}
	if !a.authorizer {
		return nil, false
	}
	authorizer, resource := a.review.authorizers()
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
	return a.review.namespaceVar()
}

// Parent implements cel.Activation.
func (a *activation) Parent() celgo.Activation { return nil }
