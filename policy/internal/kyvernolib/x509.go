package kyvernolib

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
)

// decodeCertificate is JMESPath's x509_decode, with the exponent as an integer.
func decodeCertificate(text string) ref.Val {
	tree, err := jmespath.Certificate(text)
	if err != nil {
		return types.NewErr("%s", err)
	}
	key := tree["PublicKey"].(map[string]any)
	key["E"] = int64(key["E"].(float64))
	return Frozen(tree)
}
