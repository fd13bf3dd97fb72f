package cel

import (
	"errors"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// An Expression is one CEL expression of a policy.
type Expression struct {
	Name, Rule      string // the name of a variable or condition; the rule that results name
	Pointer, Source string // in the policy
	Index           int    // in its list in the policy
	Number          int    // among all expressions of the policy
	Want            []*cel.Type
	Origin          render.Span
	AST             *cel.Ast                  // nil if it does not compile
	Program         *Program                  // nil if it is not planned
	Err             error                     // why it does not compile, in a policy that is evaluated all the same
	Explainer       func() *explain.Explainer // returns nil if the expression can't be explained
}

// Compile checks the expression, and sets its AST.
func (e *Expression) Compile(env *cel.Env) (err error) {
	if strings.TrimSpace(e.Source) == "" {
		return errors.New("expression is not specified")
	}
	e.AST, err = Compile(env, e.Source, e.Want...)
	return err
}

// Broken returns an error of the expression, at its place in o, with the rule's name.
func (e *Expression) Broken(o *render.Object, rule string, err error) *render.Error {
	f := policy.ErrorAt(o, e.Pointer, rule, PlainError(err))
	f.Span = PlaceOf(err, o, e.Pointer, e.Source)
	return f
}

// Evaluation returns an evaluation that describes the expression, without a value.
func (e *Expression) Evaluation() policy.Evaluation {
	return policy.Evaluation{Name: e.Rule, Expression: e.Source, Origin: e.Origin}
}

// FirstFalse evaluates match conditions and returns the first false one, in which
// case errors of others do not count. It calls failed for each error, and ends with
// ErrBudget.
func FirstFalse(conditions []*Expression, eval func(*Expression) (ref.Val, error), failed func(*Expression, error)) (*Expression, error) {
	for _, e := range conditions {
		v, err := eval(e)
		switch {
		case errors.Is(err, ErrBudget):
			return nil, err
		case err != nil:
			failed(e, err)
		case v == types.False:
			return e, nil
		}
	}
	return nil, nil
}

// Evaluations describes variables with their values; say describes a value. asked are
// the questions of the variable's evaluation.
func (v *Variables) Evaluations(list []*Expression, say func(ev *policy.Evaluation, e *Expression, value ref.Val, asked []string)) []policy.Evaluation {
	var all []policy.Evaluation
	for i, e := range list {
		ev := e.Evaluation()
		if value := v.slots[i].value; value == nil {
			ev.NotRun = "nothing read it"
		} else {
			say(&ev, e, value, v.slots[i].asked)
		}
		all = append(all, ev)
	}
	return all
}
