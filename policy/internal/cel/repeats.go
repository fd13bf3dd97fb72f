package cel

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/reads"
)

// Repeats holds a policy's verdicts, each of type V, by the parts of objects that its
// expressions read. It is safe for concurrent use. Without a call of Reading it finds
// nothing.
type Repeats[V any] struct {
	reads.Repeats[V]
	parts func() objectParts
}

// objectParts are the parts of an object that a policy's expressions read; nil if they
// read anything else. Messages are evaluated for failures only.
type objectParts struct{ rules, messages *Reads }

// Reading sets the expressions that the verdicts depend on, and the messages that
// those of failures depend on. names are those of the variables. It must be called
// before Verdicts.
func (r *Repeats[V]) Reading(names *Names, variables, messages []*Expression, rules ...[]*Expression) {
	variable := func(i int) *cel.Ast { return variables[i].AST }
	r.parts = sync.OnceValue(func() objectParts {
		return objectParts{ReadsOf(asts(rules...), names, variable), ReadsOf(asts(messages), names, variable)}
	})
}

// Verdicts is [reads.Repeats.Verdicts] of an object.
func (r *Repeats[V]) Verdicts(room *[]byte, object ref.Val, outcome func(*V) policy.Outcome, evaluate func() (vs []V, keep bool)) []V {
	return r.Repeats.Verdicts(room, objectKey{r.parts, object}, outcome, evaluate)
}

// An objectKey is the key of an object.
type objectKey struct {
	parts  func() objectParts
	object ref.Val
}

func (k objectKey) Known() bool { return k.parts != nil && k.parts().rules != nil }

func (k objectKey) Append(b []byte, messages bool) ([]byte, bool) {
	parts := k.parts()
	if messages {
		return parts.messages.Key(b, k.object)
	}
	return parts.rules.Key(b, k.object)
}
