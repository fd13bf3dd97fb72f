package kyvernocel

import (
	"maps"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
)

// A flavour selects the environment of a policy's expressions.
type flavour struct {
	kind       string // of policies; "" for exceptions
	namespaced bool   // the policies' lookups are in their own namespace
	strict     bool   // orValue accepts only optionals, as explanations need
}

// evaluationLimit bounds the cost of one evaluation, in the API server's units.
// Kyverno has no limit; this one takes about four seconds.
const evaluationLimit = 20_000_000

// dialects holds the environments by flavour, each made on first use. They
// never change.
var dialects sync.Map // flavour to func() (*cel.Dialect, error)

func (f flavour) dialect() (*cel.Dialect, error) {
	made, ok := dialects.Load(f)
	if !ok {
		made, _ = dialects.LoadOrStore(f, sync.OnceValues(func() (*cel.Dialect, error) {
			env, err := celgo.NewEnv(f.options(apiservercel.DynType)...)
			if err != nil {
				return nil, err
			}
			return cel.NewDialect(env, evaluationLimit, costOf)
		}))
	}
	return made.(func() (*cel.Dialect, error))()
}

// Internal variables, which expressions can't name.
const (
	nowName        = "kyverno_now"
	variablesName  = "variables"
	orValueName    = "kyverno_orValue"
	exceptionsName = "exceptions"
)

// options returns the options of Kyverno's environments (pkg/cel/compiler of
// Kyverno, cel/libs of kyverno/sdk), where objects are of a type.
func (f flavour) options(object *apiservercel.DeclType) []celgo.EnvOption {
	opts := []celgo.EnvOption{
		celgo.EnableMacroCallTracking(), // for the texts of explanations
		celgo.EagerlyValidateDeclarations(true), celgo.DefaultUTCTimeZone(true), celgo.CrossTypeNumericComparisons(true),
		celgo.OptionalTypes(), ext.Bindings(), ext.Encoders(), ext.Lists(ext.ListsVersion(3)), ext.Math(), ext.Protos(),
		ext.Sets(), ext.Strings(ext.StringsVersion(2)), ext.Regex(), ext.TwoVarComprehensions(),
		library.CIDR(), library.Format(), library.IP(), library.Lists(), library.Regex(), library.URLs(), library.Quantity(),
		library.SemverLib(library.SemverVersion(1)),
		celgo.Macros(celgo.ReceiverMacro("now", 0, expandNow)),
		celgo.Variable(nowName, celgo.TimestampType),
	}
	if f.kind != Generating {
		opts = append(opts, celgo.HomogeneousAggregateLiterals())
	}
	if !f.strict {
		opts = append(opts, orValue()...)
	}
	opts = append(opts, kyvernolib.PureFunctions()...)
	opts = append(opts, lookupFunctions(f)...)
	return append(opts, f.variables(object)...)
}

// variables declares the variables of the flavour.
func (f flavour) variables(object *apiservercel.DeclType) []celgo.EnvOption {
	opts := []celgo.EnvOption{declared(append(objectTypes(), object)...), celgo.Variable("object", object.CelType())}
	switch f.kind {
	case Deleting:
		return opts
	case Mutating:
		opts = append(opts, common.ResolverEnvOption(&patch.Resolver{}), library.JSONPatch())
	case ImageValidating:
		opts = append(opts, signatureFunctions()...)
		opts = append(opts, celgo.Variable("ref", celgo.StringType), celgo.Variable("images", celgo.MapType(celgo.StringType, celgo.ListType(celgo.StringType))),
			celgo.Variable("attestors", celgo.MapType(celgo.StringType, celgo.DynType)),
			celgo.Variable("attestations", celgo.MapType(celgo.StringType, celgo.DynType)))
	}
	return append(opts, celgo.Variable("oldObject", object.CelType()))
}

// objectTypes returns the types of request, namespaceObject and exceptions.
func objectTypes() []*apiservercel.DeclType {
	request := plugincel.BuildRequestType()
	for _, name := range []string{"object", "oldObject"} { // which are missing in the API server's type
		request.Fields[name] = apiservercel.NewDeclField(name, apiservercel.DynType, false, nil, nil)
	}
	list := apiservercel.NewListType(apiservercel.StringType, -1)
	return []*apiservercel.DeclType{request, plugincel.BuildNamespaceType(), apiservercel.NewObjectType("kyverno.exceptions", map[string]*apiservercel.DeclField{
		"allowedImages": apiservercel.NewDeclField("allowedImages", list, true, nil, nil),
		"allowedValues": apiservercel.NewDeclField("allowedValues", list, true, nil, nil),
	})}
}

// declared declares types, the first of which are those of objectTypes, and the variables of these.
func declared(all ...*apiservercel.DeclType) celgo.EnvOption {
	return func(env *celgo.Env) (*celgo.Env, error) {
		provider := apiservercel.NewDeclTypeProvider(all...)
		provider.SetRecognizeKeywordAsFieldName(true)
		opts, err := provider.EnvOptions(env.CELTypeProvider())
		if err != nil {
			return nil, err
		}
		opts = append(opts, celgo.Variable("request", all[0].CelType()), celgo.Variable("namespaceObject", all[1].CelType()),
			celgo.Variable(exceptionsName, all[2].CelType()))
		for _, opt := range opts {
			if env, err = opt(env); err != nil {
				return nil, err
			}
		}
		return env, nil
	}
}

// expandNow expands time.now() to a variable, whose value is Engine.now.
func expandNow(f celgo.MacroExprFactory, target celast.Expr, _ []celast.Expr) (celast.Expr, *celgo.Error) {
	if target.Kind() != celast.IdentKind || target.AsIdent() != "time" {
		return nil, nil // another method
	}
	return f.NewIdent(nowName), nil
}

// orValue declares x.orValue(y) for any x. It returns x if x is not an
// optional. Older versions of CEL allowed this, and policies use it.
func orValue() []celgo.EnvOption {
	return []celgo.EnvOption{
		celgo.Macros(celgo.ReceiverMacro("orValue", 1, func(f celgo.MacroExprFactory, target celast.Expr, args []celast.Expr) (celast.Expr, *celgo.Error) {
			return f.NewCall(orValueName, target, args[0]), nil
		})),
		celgo.Function(orValueName, celgo.Overload(orValueName+"_dyn_dyn", []*celgo.Type{celgo.DynType, celgo.DynType}, celgo.DynType,
			celgo.BinaryBinding(func(x, otherwise ref.Val) ref.Val {
				optional, ok := x.(*types.Optional)
				switch {
				case !ok:
					return x
				case optional.HasValue():
					return optional.GetValue()
				default:
					return otherwise
				}
			}))),
	}
}

// A scope compiles the expressions of one policy. A variable gets the type of
// its expression. It is not safe for concurrent use.
type scope struct {
	env    *celgo.Env // with variables
	before *celgo.Env // without
	types.Provider
	fields map[string]*types.Type
}

const variablesType = "kyverno.variables"

func newScope(d *cel.Dialect) (*scope, error) {
	s := &scope{before: d.Env(), Provider: d.Env().CELTypeProvider(), fields: map[string]*types.Type{}}
	var err error
	s.env, err = d.Env().Extend(celgo.CustomTypeProvider(s), celgo.Variable(variablesName, celgo.ObjectType(variablesType)))
	return s, err
}

// FindStructType implements types.Provider.
func (s *scope) FindStructType(name string) (*types.Type, bool) {
	if name == variablesType {
		return types.NewTypeTypeWithParam(celgo.ObjectType(variablesType)), true
	}
	return s.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (s *scope) FindStructFieldNames(name string) ([]string, bool) {
	if name == variablesType {
		return slices.Sorted(maps.Keys(s.fields)), true
	}
	return s.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (s *scope) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != variablesType {
		return s.Provider.FindStructFieldType(name, field)
	}
	t, ok := s.fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: t}, true
}

// Costs of Kyverno's functions, in the API server's units: 0.1 for reading a
// byte once.
const (
	lookupCost         = 1000
	bytesReadPerUnit   = 10
	bytesParsedPerUnit = 1 // or hashed or packed
)

// costOf returns the cost of a call, or nil if overload is not one of Kyverno's
// functions.
func costOf(overload string, args []ref.Val) *uint64 {
	if !costly(overload) {
		return nil
	}
	bytes := uint64(0)
	for _, a := range args {
		switch v := a.(type) {
		case types.String:
			bytes += uint64(len(v))
		case types.Bytes:
			bytes += uint64(len(v))
		}
	}
	cost := 1 + bytes/bytesParsedPerUnit
	switch {
	case strings.HasPrefix(overload, "kyverno."):
		cost = lookupCost + bytes
	case strings.Contains(overload, "image"):
		cost = 1 + bytes/bytesReadPerUnit
	}
	return &cost
}

// costly reports whether overload is a function of Kyverno with a cost.
func costly(overload string) bool {
	return strings.HasPrefix(overload, "kyverno") && !strings.HasPrefix(overload, orValueName) ||
		strings.HasPrefix(overload, "base64") || strings.HasPrefix(overload, "regex_")
}
