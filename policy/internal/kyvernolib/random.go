package kyvernolib

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
)

// defaultPattern is the pattern of random() without an argument.
const defaultPattern = "[0-9a-z]{8}"

const maxRandom = 4 << 10 // bytes

// randomString returns a string that a regular expression matches. It is always
// the same one, and results that depend on it have an assumption.
func randomString(pattern string) ref.Val {
	switch text, err := jmespath.Example(pattern); {
	case err != nil:
		return types.NewErr("invalid regular expression")
	case len(text) > maxRandom:
		return types.NewErr("a random string of more than %d bytes refused", maxRandom)
	default:
		return types.String(text)
	}
}
