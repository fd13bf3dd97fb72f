package kyvernolib

import (
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// imageType is the type of parsed image references.
var imageType = celgo.OpaqueType("kyverno.image")

// ImageFunctions returns the functions of image references.
func ImageFunctions() []celgo.EnvOption {
	var opts []celgo.EnvOption
	for _, name := range []string{"parseImageReference", "image"} {
		opts = append(opts, unary(name, celgo.StringType, imageType, TextFunction(func(s string) ref.Val {
			r, err := ParseReference(s)
			if err != nil {
				return types.WrapErr(err)
			}
			return r
		})))
	}
	for name, f := range map[string]func(*Reference) string{
		"registry":                func(r *Reference) string { return r.Registry },
		"repository":              func(r *Reference) string { return r.Repository },
		"identifier":              (*Reference).Identifier,
		"identifierWithSeparator": (*Reference).IdentifierWithSeparator,
		"tag":                     func(r *Reference) string { return r.Tag },
		"digest":                  func(r *Reference) string { return r.Digest },
	} {
		opts = append(opts, imageMethod(name, celgo.StringType, func(r *Reference) ref.Val { return types.String(f(r)) }))
	}
	return append(opts, imageMethod("containsDigest", celgo.BoolType, func(r *Reference) ref.Val { return types.Bool(r.Digest != "") }))
}

func imageMethod(name string, result *celgo.Type, f func(*Reference) ref.Val) celgo.EnvOption {
	return celgo.Function(name, celgo.MemberOverload(Overload(name, "image"), []*celgo.Type{imageType}, result, celgo.UnaryBinding(func(v ref.Val) ref.Val {
		r, ok := v.(*Reference)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return f(r)
	})))
}

func isImage(s string) ref.Val {
	_, err := ParseReference(s)
	return types.Bool(err == nil)
}

// String returns the full image name.
func (r *Reference) String() string {
	return r.Registry + "/" + r.Repository + r.IdentifierWithSeparator()
}

// ConvertToNative implements ref.Val.
func (r *Reference) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeFor[*Reference]().AssignableTo(t) {
		return r, nil
	}
	return nil, types.NewErr("type conversion error from image to %v", t).(error)
}

// ConvertToType implements ref.Val.
func (r *Reference) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case imageType:
		return r
	case types.TypeType:
		return imageType
	}
	return types.NewErr("type conversion error from image to %s", t.TypeName())
}

// Equal implements ref.Val.
func (r *Reference) Equal(other ref.Val) ref.Val {
	o, ok := other.(*Reference)
	return types.Bool(ok && *o == *r)
}

// Type implements ref.Val.
func (r *Reference) Type() ref.Type { return imageType }

// Value implements ref.Val.
func (r *Reference) Value() any { return *r }
