package gatekeeper

import (
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/rego"
)

// cover declares expressions as branches of the template's rules. nil counts nothing.
func (r *regoCompiler) cover() rego.Cover {
	return rego.NewCover(r.coverage, func(e rego.CoveredExpr) (b policy.Branch, ok bool) {
		text, ok := r.texts[e.Module]
		if !ok {
			return b, false // the hook module
		}
		at := inside(r.object, e.Module, text, e.Location.Row, e.Location.Col)
		if at.File == "" {
			at = r.object.Span(e.Module)
		}
		return policy.Branch{Engine: policy.EngineGatekeeper, Policy: r.object.GetName(), Origin: at}, true
	})
}

// cover counts the branches of a template's CEL expressions.
func (t *template) cover(coverage *policy.Coverage) {
	if coverage == nil || t.native == nil {
		return
	}
	t.native.each(func(e *cel.Expression) {
		e.Cover(coverage, t.object, policy.Branch{Engine: policy.EngineGatekeeper, Policy: t.object.GetName(), Rule: e.Name})
	})
}
