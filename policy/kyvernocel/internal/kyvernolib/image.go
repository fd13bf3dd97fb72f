package kyvernolib

import (
	"errors"
	"reflect"
	"strings"

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

// A Reference names an image, as registries do.
type Reference struct{ Registry, Repository, Tag, Digest string }

const (
	defaultRegistry = "index.docker.io"
	defaultTag      = "latest"
)

// ParseReference parses an image reference as container registry clients do:
// the default registry is Docker's, and the default tag is latest unless there
// is a digest.
func ParseReference(s string) (*Reference, error) {
	r := &Reference{}
	name, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest {
		if err := checkDigest(digest); err != nil {
			return nil, err
		}
		r.Digest = digest
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.Contains(name[i:], "/") {
		name, r.Tag = name[:i], name[i+1:]
	}
	if r.Tag == "" && !hasDigest {
		r.Tag = defaultTag
	}
	if len(r.Tag) > 127 || has(r.Tag, tagCharacters) {
		return nil, errors.New("could not parse reference: invalid tag")
	}
	r.Registry, r.Repository = defaultRegistry, name
	if host, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		r.Registry, r.Repository = host, rest
	}
	if r.Registry == "docker.io" {
		r.Registry = defaultRegistry
	}
	return r, r.check()
}

const (
	lower                = "abcdefghijklmnopqrstuvwxyz"
	upper                = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits               = "0123456789"
	repositoryCharacters = lower + digits + "_-./"
	tagCharacters        = lower + upper + digits + "_-."
	hostCharacters       = lower + upper + digits + "-.:[]_"
)

func (r *Reference) check() error {
	switch n := len(r.Repository); {
	case n < 2 || n > 255:
		return errors.New("could not parse reference: a repository has 2 to 255 characters")
	case has(r.Repository, repositoryCharacters):
		return errors.New("could not parse reference: invalid repository")
	case r.Registry == "" || has(r.Registry, hostCharacters):
		return errors.New("could not parse reference: invalid registry")
	}
	if r.Registry == defaultRegistry && !strings.Contains(r.Repository, "/") {
		r.Repository = "library/" + r.Repository
	}
	return nil
}

// has reports whether s contains characters that are not in allowed.
func has(s, allowed string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return !strings.ContainsRune(allowed, c) })
}

func checkDigest(digest string) error {
	algorithm, sum, ok := strings.Cut(digest, ":")
	length := map[string]int{"sha256": 64, "sha512": 128}[algorithm]
	if !ok || len(sum) != length || length == 0 || has(sum, digits+"abcdef") {
		return errors.New("could not parse reference: invalid digest")
	}
	return nil
}

// Identifier returns the tag and the digest, or the one that is set.
func (r *Reference) Identifier() string {
	switch {
	case r.Digest == "":
		return r.Tag
	case r.Tag == "":
		return r.Digest
	default:
		return r.Tag + "@" + r.Digest
	}
}

// IdentifierWithSeparator returns the identifier with the @ or colon before it.
func (r *Reference) IdentifierWithSeparator() string {
	if r.Tag == "" {
		return "@" + r.Identifier()
	}
	return ":" + r.Identifier()
}
