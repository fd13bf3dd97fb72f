package kyvernocel

import (
	"reflect"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Types of the variables whose methods look something up.
var (
	resourceType  = celgo.OpaqueType("kyverno.resource")
	httpType      = celgo.OpaqueType("kyverno.http")
	globalType    = celgo.OpaqueType("kyverno.globalContext")
	imageDataType = celgo.OpaqueType("kyverno.imageData")
	generatorType = celgo.OpaqueType("kyverno.generator")
	gvrType       = celgo.OpaqueType("kyverno.gvr")

	objectMap = celgo.MapType(celgo.StringType, types.AnyType)
	stringMap = celgo.MapType(celgo.StringType, celgo.StringType)
)

// A handle is the value of a variable whose methods look something up during
// one review: resource, http, globalContext, image or generator.
type handle struct {
	t      *types.Type
	review *review
}

// lookupFunctions declares the variables and their methods, each in Kyverno's
// older spelling (Get) and the newer one (get).
func lookupFunctions(f flavour) []celgo.EnvOption {
	opts := []celgo.EnvOption{
		celgo.Variable("resource", resourceType), celgo.Variable("http", httpType),
		celgo.Variable("globalContext", globalType), celgo.Variable("image", imageDataType),
	}
	methods := append(httpMethods(),
		method{"Get", globalType, []*celgo.Type{celgo.StringType}, celgo.DynType, (*review).global},
		method{"Get", globalType, []*celgo.Type{celgo.StringType, celgo.StringType}, celgo.DynType, (*review).global},
		method{"GetMetadata", imageDataType, []*celgo.Type{celgo.StringType}, celgo.DynType, (*review).imageMetadata},
		method{"ToGVR", resourceType, []*celgo.Type{celgo.StringType, celgo.StringType}, gvrType, (*review).toGVR},
	)
	methods = append(methods, resourceMethods(f.namespaced)...)
	if f.kind == Generating {
		opts = append(opts, celgo.Variable("generator", generatorType))
		list := celgo.ListType(celgo.MapType(celgo.StringType, types.AnyType))
		methods = append(methods, method{"Apply", generatorType, []*celgo.Type{celgo.StringType, list}, celgo.BoolType, (*review).apply})
		if f.namespaced {
			methods = append(methods, method{"Apply", generatorType, []*celgo.Type{list}, celgo.BoolType, (*review).apply})
		}
	}
	for _, m := range methods {
		opts = append(opts, m.options()...)
	}
	return opts
}

// A method is one overload of a method of a handle.
type method struct {
	name   string
	of     *celgo.Type
	args   []*celgo.Type
	result *celgo.Type
	call   func(*review, []ref.Val) ref.Val
}

func (m method) options() []celgo.EnvOption {
	var id strings.Builder
	id.WriteString(m.of.TypeName() + "_" + m.name)
	for _, a := range m.args {
		id.WriteString("_" + strings.NewReplacer("(", "_", ")", "", ", ", "_").Replace(a.String()))
	}
	binding := celgo.FunctionBinding(func(args ...ref.Val) ref.Val {
		h, ok := args[0].(*handle)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		return m.call(h.review, args[1:])
	})
	args := append([]*celgo.Type{m.of}, m.args...)
	var opts []celgo.EnvOption
	for _, name := range []string{m.name, strings.ToLower(m.name[:1]) + m.name[1:]} {
		opts = append(opts, celgo.Function(name, celgo.MemberOverload(id.String()+"_"+name, args, m.result, binding)))
	}
	return opts
}

func httpMethods() []method {
	text := celgo.StringType
	all := []method{
		{"Get", httpType, []*celgo.Type{text}, types.AnyType, (*review).httpGet},
		{"Get", httpType, []*celgo.Type{text, stringMap}, types.AnyType, (*review).httpGet},
		{"Client", httpType, []*celgo.Type{text}, httpType, func(r *review, _ []ref.Val) ref.Val { return &handle{httpType, r} }},
	}
	for name, call := range map[string]func(*review, []ref.Val) ref.Val{
		"Post": (*review).httpPost, "Put": (*review).httpPut, "Patch": (*review).httpPatch,
	} {
		all = append(all, method{name, httpType, []*celgo.Type{text, types.AnyType}, types.AnyType, call},
			method{name, httpType, []*celgo.Type{text, types.AnyType, stringMap}, types.AnyType, call})
	}
	return all
}

// resourceMethods returns the methods of resource. For a namespaced policy they
// have no namespace argument; the policy's namespace is used.
func resourceMethods(namespaced bool) []method {
	text := celgo.StringType
	where := []*celgo.Type{text}
	if namespaced {
		where = nil
	}
	list := celgo.ListType(text)
	args := func(parts ...[]*celgo.Type) (all []*celgo.Type) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	var all []method
	for _, what := range [][]*celgo.Type{{text, text}, {gvrType}} {
		get := args(what, where, []*celgo.Type{text})
		all = append(all,
			method{"Get", resourceType, get, objectMap, (*review).resourceGet},
			method{"Get", resourceType, args(get, []*celgo.Type{list}), objectMap, (*review).resourceGet},
			method{"List", resourceType, args(what, where), objectMap, (*review).resourceList},
			method{"List", resourceType, args(what, where, []*celgo.Type{stringMap}), objectMap, (*review).resourceList})
	}
	all = append(all, method{"Post", resourceType, args([]*celgo.Type{text, text, objectMap}), objectMap, (*review).resourcePost})
	if !namespaced {
		all = append(all, method{"Post", resourceType, args([]*celgo.Type{text, text, text, objectMap}), objectMap, (*review).resourcePost})
	}
	return all
}

// texts returns the string arguments in order. A gvr counts as its parts.
func texts(args []ref.Val) []string {
	var all []string
	for _, a := range args {
		switch v := a.(type) {
		case types.String:
			all = append(all, string(v))
		case *gvr:
			all = append(all, v.GroupVersion().String(), v.Resource)
		}
	}
	return all
}

// selector returns the labels in the last argument, if there are any.
func selector(args []ref.Val) map[string]string {
	m, ok := args[len(args)-1].(traits.Mapper)
	if !ok {
		return nil
	}
	labels := map[string]string{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		k, ok := key.(types.String)
		v, ok2 := m.Get(key).(types.String)
		if ok && ok2 {
			labels[string(k)] = string(v)
		}
	}
	return labels
}

// ConvertToNative implements ref.Val.
func (h *handle) ConvertToNative(reflect.Type) (any, error) {
	return nil, types.NewErr("%s can't be converted", h.t.TypeName()).(error)
}

// ConvertToType implements ref.Val.
func (h *handle) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return h.t
	}
	return types.NewErr("%s can't be converted", h.t.TypeName())
}

// Equal implements ref.Val.
func (h *handle) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(h) == other) }

// Type implements ref.Val.
func (h *handle) Type() ref.Type { return h.t }

// Value implements ref.Val.
func (h *handle) Value() any { return h }
