package kyvernocel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/kyvernolib"
)

// signatureFunctions returns the functions of ImageValidatingPolicies. Their
// answers come from registries.
func signatureFunctions() []celgo.EnvOption {
	text, list := celgo.StringType, celgo.ListType(celgo.DynType)
	ask := func(name, question string, args []*celgo.Type, result *celgo.Type) celgo.EnvOption {
		return celgo.Function(name, celgo.Overload(kyvernolib.Overload(name, "image"), args, result, celgo.FunctionBinding(func(args ...ref.Val) ref.Val {
			image, ok := args[0].(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			return ask(question, string(image))
		})))
	}
	return []celgo.EnvOption{
		ask("verifyImageSignatures", "needs the signatures of image %q from its registry", []*celgo.Type{text, list}, celgo.IntType),
		ask("verifyAttestationSignatures", "needs the attestations of image %q from its registry", []*celgo.Type{text, text, list}, celgo.IntType),
		ask("getImageData", "needs the metadata of image %q from its registry", []*celgo.Type{text}, celgo.DynType),
		ask("extractPayload", "needs the attestations of image %q from its registry", []*celgo.Type{text, text}, celgo.DynType),
	}
}
