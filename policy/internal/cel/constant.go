package cel

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// An Inspected is a policy whose expressions are looked at without any object.
type Inspected struct {
	Policy      string
	Variables   map[string]*cel.Ast
	Conditions  []InspectedExpression // that all have to hold before the validations run
	Validations []InspectedExpression
}

// An InspectedExpression is a boolean expression of a policy. Without an AST, which it
// has if it compiled, it is left out.
type InspectedExpression struct {
	Rule   string
	Source string
	Origin render.Span
	AST    *cel.Ast
}

// Findings returns what is constant: conditions that can't hold, and validations that
// can't fail, can't pass, or only fail where an earlier one does.
func (i *Inspected) Findings() []policy.Result {
	var all []policy.Result
	find := func(kind string, e *InspectedExpression, format string, args ...any) {
		all = append(all, policy.NewFinding(kind, i.Policy, e.Origin, "%s", i.Policy+"/"+e.Rule+" "+fmt.Sprintf(format, args...)))
	}
	alone := NewFolder(func(name string) *cel.Ast { return i.Variables[name] })
	given := alone
	for n := range i.Conditions {
		e := &i.Conditions[n]
		if e.AST == nil || len(e.Source) > maxFolded {
			continue
		}
		if v, ok := given.Truth(e.AST); ok && !v {
			find(policy.NeverApplies, e, "can't hold%s, so the policy decides on nothing", given.because(alone, e, "given the conditions before it"))
			return all // the rest never runs
		}
		given = given.Assume(e.AST, true)
	}
	before := given
	for n := range i.Validations {
		e := &i.Validations[n]
		if e.AST == nil || len(e.Source) > maxFolded {
			continue
		}
		v, ok := given.Truth(e.AST)
		switch {
		case ok && v:
			find(policy.NeverFails, e, "can't fail%s", given.because(alone, e, "given the match conditions"))
		case ok && strings.TrimSpace(e.Source) != "false": // which is how one writes that nothing passes
			find(policy.NeverPasses, e, "can't pass%s", given.because(alone, e, "given the match conditions"))
		case !ok:
			if v, ok := before.Truth(e.AST); ok && v {
				find(policy.Shadowed, e, "only fails where an earlier validation fails too")
			}
			before = before.Assume(e.AST, true)
		}
	}
	return all
}

// because says why an expression is constant: by itself, or for what is assumed.
func (f *Folder) because(alone *Folder, e *InspectedExpression, given string) string {
	if _, ok := alone.Truth(e.AST); ok {
		return ", whatever the object is"
	}
	return " " + given
}
