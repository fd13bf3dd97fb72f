package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// VariablesType is an object type without fields, to which composited
// variables are added by AddVariable as they are compiled.
func VariablesType() *apiservercel.DeclType {
	return apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
}

// AddVariable declares a variable with the type of its expression; nil if that does
// not compile, which may be any type.
func AddVariable(variables *apiservercel.DeclType, name string, t *cel.Type) {
	variables.Fields[name] = apiservercel.NewDeclField(name, declType(t), true, nil, nil)
}

// declType returns t if a declaration can express it. The API server forgets other
// types, such as optional values.
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if simple, ok := simpleTypes()[t]; ok {
		return simple
	}
	switch p := t.Parameters(); {
	case t.Kind() == types.ListKind && len(p) == 1:
		return apiservercel.NewListType(declType(p[0]), -1)
	case t.Kind() == types.MapKind && len(p) == 2:
		return apiservercel.NewMapType(declType(p[0]), declType(p[1]), -1)
	default:
		return apiservercel.DynType
	}
}

func simpleTypes() map[*cel.Type]*apiservercel.DeclType {
	return map[*cel.Type]*apiservercel.DeclType{
		cel.AnyType: apiservercel.AnyType, cel.BoolType: apiservercel.BoolType, cel.BytesType: apiservercel.BytesType,
		cel.DoubleType: apiservercel.DoubleType, cel.DurationType: apiservercel.DurationType, cel.IntType: apiservercel.IntType,
		cel.NullType: apiservercel.NullType, cel.StringType: apiservercel.StringType,
		cel.TimestampType: apiservercel.TimestampType, cel.UintType: apiservercel.UintType,
	}
}
