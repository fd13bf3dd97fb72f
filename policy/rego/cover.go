package rego

import (
	"sync/atomic"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
)

// cover declares expressions as branches of their rules. nil counts nothing.
func (s *sources) cover(c *policy.Coverage) opa.Cover {
	if c == nil {
		return nil
	}
	packages := make(map[string]string, len(s.all))
	for _, src := range s.all {
		packages[src.file] = src.pkg
	}
	return func(e opa.CoveredExpr) (held, failed *atomic.Int64) {
		b := policy.Branch{
			Engine: policy.EngineRego, Policy: packages[e.Module], Rule: e.Rule, Part: policy.Shorten(e.Text, maxCoveredText),
			Case: "true", Origin: locationSpan(e.Location),
		}
		held = c.Declare(b)
		b.Case = "false"
		return held, c.Declare(b)
	}
}

// maxCoveredText bounds the text of an expression.
const maxCoveredText = 200
