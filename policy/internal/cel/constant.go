package cel

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
)

// Constants returns a policy's conditions that can't hold, and validations that can't
// fail, can't pass, or only fail where an earlier one does, whatever the object is.
// Expressions that did not compile are left out.
func (n *Names) Constants(name string, variables, conditions, validations []*Expression) []policy.Result {
	var all []policy.Result
	find := func(kind string, e *Expression, format string, args ...any) {
		all = append(all, policy.NewFinding(kind, name, e.Origin, "%s", name+"/"+e.Rule+" "+fmt.Sprintf(format, args...)))
	}
	alone := NewFolder(func(variable string) *cel.Ast {
		if i, ok := n.index[variable]; ok {
			return variables[i].AST
		}
		return nil
	})
	given := alone
	for _, e := range conditions {
		if e.AST == nil || len(e.Source) > maxFolded {
			continue
		}
		if v, ok := given.Truth(e.AST); ok && !v {
			find(policy.NeverApplies, e, "can't hold%s, so the policy never applies", given.because(alone, e, "given the conditions before it"))
			return all // the rest never runs
		}
		given = given.Assume(e.AST, true)
	}
	before := given
	for _, e := range validations {
		if e.AST == nil || len(e.Source) > maxFolded {
			continue
		}
		v, ok := given.Truth(e.AST)
		switch {
		case ok && v:
			find(policy.NeverFails, e, "can't fail%s", given.because(alone, e, "given the match conditions"))
		case ok && strings.TrimSpace(e.Source) != "false": // which policies use to deny everything
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

// because returns why an expression is constant: by itself, or under the assumptions.
func (f *Folder) because(alone *Folder, e *Expression, given string) string {
	if _, ok := alone.Truth(e.AST); ok {
		return ", whatever the object is"
	}
	return " " + given
}
