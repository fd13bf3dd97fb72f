package cel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy/internal/patch"
)

// Declarations are the variables of an environment and their object types. One
// goroutine may add fields to a type while it uses the environment, as upstream does
// for composited variables.
type Declarations struct {
	Variables map[string]*cel.Type
	Types     []*apiservercel.DeclType
	Patches   bool // the types Object and JSONPatch, which mutations return
}

// PolicyDeclarations returns the declarations of policies' expressions, besides their
// own variables: object and oldObject are of any type
// (k8s.io/apiserver/pkg/admission/plugin/cel).
func PolicyDeclarations(params, authorizer bool) Declarations {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	d := Declarations{
		Variables: map[string]*cel.Type{
			"object": cel.DynType, "oldObject": cel.DynType, "request": request.CelType(), "namespaceObject": namespace.CelType(),
		},
		Types: []*apiservercel.DeclType{namespace, request},
	}
	if params {
		d.Variables["params"] = cel.DynType
	}
	if authorizer {
		d.Variables["authorizer"], d.Variables["authorizer.requestResource"] = library.AuthorizerType, library.ResourceCheckType
	}
	return d
}

// WithVariables adds to an environment of version v the composited variables of a
// policy, whose types are added to variables.
func (v Version) WithVariables(env *cel.Env, variables *apiservercel.DeclType) (*cel.Env, error) {
	return v.Extend(env, Declarations{
		Variables: map[string]*cel.Type{"variables": variables.CelType()}, Types: []*apiservercel.DeclType{variables},
	})
}

// fieldNamesMayBeKeywords is the environment version from which reserved words
// may be used as field names.
const fieldNamesMayBeKeywords Version = 32

// Env returns the environment in which an API server of version v checks new
// expressions, with the given declarations.
func (v Version) Env(d Declarations) (*cel.Env, error) {
	return v.Extend(v.base().NewExpressionsEnv(), d)
}

// Extend adds declarations to an environment of version v.
func (v Version) Extend(env *cel.Env, d Declarations) (*cel.Env, error) {
	opts := []cel.EnvOption{cel.EnableMacroCallTracking()} // for the texts of explanations
	for name, t := range d.Variables {
		opts = append(opts, cel.Variable(name, t))
	}
	if len(d.Types) > 0 {
		provider := apiservercel.NewDeclTypeProvider(d.Types...)
		provider.SetRecognizeKeywordAsFieldName(v >= fieldNamesMayBeKeywords)
		more, err := provider.EnvOptions(env.CELTypeProvider())
		if err != nil {
			return nil, err
		}
		opts = append(opts, more...)
	}
	if d.Patches {
		opts = append(opts, common.ResolverEnvOption(&patch.Resolver{}), library.JSONPatch())
	}
	return env.Extend(opts...)
}

// Compile checks an expression whose type must be one of the given ones, or any if
// none is given. The error has the API server's words.
func Compile(env *cel.Env, expression string, want ...*cel.Type) (_ *cel.Ast, err error) {
	defer caught(&err)
	ast, issues := env.Compile(expression)
	if issues != nil {
		return nil, newCompileError(env, issues)
	}
	if !oneOf(ast.OutputType(), want) {
		return nil, wrongType(ast.OutputType(), want)
	}
	return ast, nil
}

// caught turns a panic into an error. cel-go's checker panics for some expressions:
// [?dyn(x)].
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("compilation failed: internal error: %v", r)
	}
}

func oneOf(t *cel.Type, want []*cel.Type) bool {
	for _, w := range want {
		if t.IsExactType(w) {
			return true
		}
	}
	return len(want) == 0
}

func wrongType(got *cel.Type, want []*cel.Type) error {
	if len(want) == 1 {
		return fmt.Errorf("must evaluate to %v but got %v", want[0], got)
	}
	return fmt.Errorf("must evaluate to one of %v but got %v", want, got)
}

// NeededVersion returns the first version after v for which compiles is true. ok is
// false if there is none.
func (v Version) NeededVersion(compiles func(Version) bool) (needed Version, ok bool) {
	for w := v + 1; w <= Newest()+1; w++ {
		if compiles(w) {
			return w, true
		}
	}
	return 0, false
}

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
