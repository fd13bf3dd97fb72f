package kyvernocel

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// A question is the error of what is not known here: `a || question` is
// decided where a is true, and else it is not.
type question struct{ text string }

func (q *question) Error() string { return q.text }

func ask(format string, args ...any) ref.Val {
	return types.WrapErr(&question{fmt.Sprintf(format, args...)})
}

// asked is the question that an error comes from.
func asked(err error) (*question, bool) {
	var q *question
	ok := errors.As(err, &q)
	return q, ok
}

// partial returns a map with unknown contents.
func partial(what string) *cel.Partial { return &cel.Partial{Ask: asking(what)} }

// asking asks a question whenever it is called.
func asking(what string) func() ref.Val {
	return func() ref.Val { return types.WrapErr(&question{what}) }
}
