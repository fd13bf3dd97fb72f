package gatekeeper

import (
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// maxFields is the most fields that are named for one violation.
const maxFields = 16

// blame returns the fields of the object that made a validation fail, and the
// literals that the failed part compares them with.
func (n *nativeRun) blame(e *cel.Expression) (fields, literals []string) {
	root := "object"
	if n.celObject() == nil {
		root = "oldObject"
	}
	fields, literals = n.failure(e).Fields(n.ctx, e.Explainer(), n.roots(), root)
	return fields[:min(len(fields), maxFields)], literals
}

func (n *nativeRun) failure(e *cel.Expression) cel.Failure {
	return cel.Failure{Source: e.Source, Secret: n.secret()}
}

// roots returns the variables of expressions.
func (n *nativeRun) roots() map[string]any {
	return cel.RootsOf(n.celObject(), n.old, n, "request", "namespaceObject", paramsName)
}
