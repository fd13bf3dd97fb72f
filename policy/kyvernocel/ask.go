package kyvernocel

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// A question is the error of an expression that reads something unknown. Its
// text names the missing data. `a || question` is true if a is true, and otherwise
// undecided.
type question struct{ text string }

func (q *question) Error() string { return q.text }

func ask(format string, args ...any) ref.Val {
	return types.WrapErr(&question{fmt.Sprintf(format, args...)})
}

// asked returns the question that err wraps.
func asked(err error) (*question, bool) {
	var q *question
	ok := errors.As(err, &q)
	return q, ok
}

// partial returns a map with unknown contents.
func partial(what string) *cel.Partial { return &cel.Partial{Ask: asking(what)} }

// asking returns a function that always returns a question.
func asking(what string) func() ref.Val {
	return func() ref.Val { return types.WrapErr(&question{what}) }
}
