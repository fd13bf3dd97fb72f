package cel

import (
	"errors"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// ErrBudget is the API server's error when a group of expressions costs too
// much.
var ErrBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// ErrHidden replaces errors that may quote a Secret.
var ErrHidden = errors.New("not shown, since it may quote a Secret")

// ShownError returns the error of an expression. If the expression sees a Secret the
// error is replaced, since functions quote values that they can't use; but a missing
// key is shown if the expression itself names it.
func ShownError(source string, err error, secret bool) error {
	if !secret {
		return err
	}
	if key, ok := strings.CutPrefix(err.Error(), "no such key: "); ok && strings.Contains(source, key) {
		return err
	}
	return ErrHidden
}

// Message returns the text of a messageExpression. ok is false where the API
// server uses the fixed message instead: after an error, and for a text that is
// empty, too long or longer than a line.
func Message(v ref.Val, err error) (text string, ok bool) {
	s, isText := v.(types.String)
	if err != nil || !isText || len(strings.TrimSpace(string(s))) > celconfig.MaxEvaluatedMessageExpressionSizeBytes {
		return "", false
	}
	text = strings.TrimSpace(string(s))
	return text, text != "" && !strings.Contains(text, "\n")
}

// FailedMessage returns the message of a failed validation without a
// messageExpression: the first of the fixed messages that is not empty, else the
// expression.
func FailedMessage(source string, fixed ...string) string {
	for _, m := range fixed {
		if m = strings.TrimSpace(m); m != "" {
			return m
		}
	}
	return "failed expression: " + strings.TrimSpace(source)
}
