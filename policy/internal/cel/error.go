package cel

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// A CompileError is an error of an expression.
type CompileError struct {
	Issues []Issue
	text   string // all issues in the API server's words, with their lines
}

// An Issue is one error in an expression. Line and Column count from 1, columns in
// code points.
type Issue struct {
	Message      string
	Plain        string // in a user's words
	Line, Column int
}

// String returns the issue in the API server's words, in one line.
func (i Issue) String() string {
	return fmt.Sprintf("ERROR: <input>:%d:%d: %s", i.Line, i.Column, i.Message)
}

func newCompileError(env *cel.Env, issues *cel.Issues) *CompileError {
	e := &CompileError{text: "compilation failed: " + issues.String()}
	for _, x := range issues.Errors() {
		i := Issue{
			Message: strings.ReplaceAll(x.Message, "\n", " "),
			Line:    max(1, x.Location.Line()), Column: max(0, x.Location.Column()) + 1,
		}
		if i.Plain = i.Message; len(e.Issues) < mostPlain {
			i.Plain = plain(env, i)
		}
		e.Issues = append(e.Issues, i)
	}
	return e
}

// mostPlain is the number of issues of an expression that get a suggestion.
const mostPlain = 3

// Error has the API server's words.
func (c *CompileError) Error() string { return c.text }

// Offset returns where the issue begins in the expression, in code points.
func (i Issue) Offset(expression string) int {
	n := 0
	for line := range strings.Lines(expression) {
		if i.Line--; i.Line == 0 {
			break
		}
		n += len([]rune(line))
	}
	return n + i.Column - 1
}

// Parse parses an expression that is to be checked in environments of the same
// version. The error is a *CompileError.
func Parse(env *cel.Env, expression string) (*cel.Ast, error) {
	ast, issues := env.Parse(expression)
	if issues != nil && issues.Err() != nil {
		return nil, newCompileError(env, issues)
	}
	return ast, nil
}

// Check checks a parsed expression and returns its type. It writes to the expression,
// so concurrent calls must not share it. The error is a *CompileError.
func Check(env *cel.Env, parsed *cel.Ast) (_ *cel.Type, err error) {
	defer caught(&err)
	ast, issues := env.Check(parsed)
	if issues != nil && issues.Err() != nil {
		return nil, newCompileError(env, issues)
	}
	return ast.OutputType(), nil
}
