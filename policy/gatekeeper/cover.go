package gatekeeper

import (
	"sync/atomic"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/rego"
)

// cover declares expressions as branches of the template's rules. nil counts nothing.
func (r *regoCompiler) cover() rego.Cover {
	if r.coverage == nil {
		return nil
	}
	return func(e rego.CoveredExpr) (held, failed *atomic.Int64) {
		text, ok := r.texts[e.Module]
		if !ok {
			return nil, nil // the hook module
		}
		at := inside(r.object, e.Module, text, e.Location.Row, e.Location.Col)
		if at.File == "" {
			at = r.object.Span(e.Module)
		}
		b := policy.Branch{
			Engine: policy.EngineGatekeeper, Policy: r.object.GetName(), Rule: e.Rule, Part: policy.Shorten(e.Text, maxCoveredText), Case: "true", Origin: at,
		}
		held = r.coverage.Declare(b)
		b.Case = "false"
		return held, r.coverage.Declare(b)
	}
}

// maxCoveredText bounds the text of an expression.
const maxCoveredText = 200

// cover counts the branches of a template's CEL expressions.
func (t *template) cover(coverage *policy.Coverage) {
	if coverage == nil || t.native == nil {
		return
	}
	t.native.each(func(e *cel.Expression) {
		e.Cover(coverage, t.object, policy.Branch{Engine: policy.EngineGatekeeper, Policy: t.object.GetName(), Rule: e.Name})
	})
}
