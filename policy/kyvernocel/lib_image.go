package kyvernocel

import (
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// imageType is the type of parsed image references.
var imageType = celgo.OpaqueType("kyverno.image")

func imageFunctions() []celgo.EnvOption {
	var opts []celgo.EnvOption
	for _, name := range []string{"parseImageReference", "image"} {
		opts = append(opts, unary(name, celgo.StringType, imageType, textFunction(func(s string) ref.Val {
			r, err := parseReference(s)
			if err != nil {
				return types.WrapErr(err)
			}
			return r
		})))
	}
	for name, f := range map[string]func(*reference) string{
		"registry":                func(r *reference) string { return r.registry },
		"repository":              func(r *reference) string { return r.repository },
		"identifier":              (*reference).identifier,
		"identifierWithSeparator": (*reference).identifierWithSeparator,
		"tag":                     func(r *reference) string { return r.tag },
		"digest":                  func(r *reference) string { return r.digest },
	} {
		opts = append(opts, imageMethod(name, celgo.StringType, func(r *reference) ref.Val { return types.String(f(r)) }))
	}
	return append(opts, imageMethod("containsDigest", celgo.BoolType, func(r *reference) ref.Val { return types.Bool(r.digest != "") }))
}

func imageMethod(name string, result *celgo.Type, f func(*reference) ref.Val) celgo.EnvOption {
	return celgo.Function(name, celgo.MemberOverload(overload(name, "image"), []*celgo.Type{imageType}, result, celgo.UnaryBinding(func(v ref.Val) ref.Val {
		r, ok := v.(*reference)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return f(r)
	})))
}

func isImage(s string) ref.Val {
	_, err := parseReference(s)
	return types.Bool(err == nil)
}

// String returns the full image name.
func (r *reference) String() string {
	return r.registry + "/" + r.repository + r.identifierWithSeparator()
}

// ConvertToNative implements ref.Val.
func (r *reference) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeFor[*reference]().AssignableTo(t) {
		return r, nil
	}
	return nil, types.NewErr("type conversion error from image to %v", t).(error)
}

// ConvertToType implements ref.Val.
func (r *reference) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case imageType:
		return r
	case types.TypeType:
		return imageType
	}
	return types.NewErr("type conversion error from image to %s", t.TypeName())
}

// Equal implements ref.Val.
func (r *reference) Equal(other ref.Val) ref.Val {
	o, ok := other.(*reference)
	return types.Bool(ok && *o == *r)
}

// Type implements ref.Val.
func (r *reference) Type() ref.Type { return imageType }

// Value implements ref.Val.
func (r *reference) Value() any { return *r }
