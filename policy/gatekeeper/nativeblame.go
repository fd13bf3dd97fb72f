package gatekeeper

import (
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// maxFields is how many fields of one violation are named.
const maxFields = 16

// blame names the fields of the object that made a validation fail, and the
// texts that what failed compares them with.
func (n *nativeRun) blame(e *expression) (fields, literals []string) {
	root := "object"
	if n.celObject() == nil {
		root = "oldObject"
	}
	fields, literals = n.failure(e).Fields(n.ctx, e.explainer(), n.roots(), root)
	return fields[:min(len(fields), maxFields)], literals
}

func (n *nativeRun) failure(e *expression) cel.Failure {
	return cel.Failure{Source: e.source, Secret: n.secret()}
}

// roots are the values that expressions start from.
func (n *nativeRun) roots() map[string]any {
	roots := map[string]any{"object": orEmpty(n.celObject()), "oldObject": orEmpty(n.old)}
	for _, name := range []string{"request", "namespaceObject", paramsName} {
		roots[name], _ = n.ResolveName(name)
	}
	return roots
}

// orEmpty is a tree as a root, null where there is none.
func orEmpty(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return tree
}
