package gatekeeper

import (
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// maxFields is how many fields of one violation are named.
const maxFields = 16

// blame names the fields of the object that made a validation fail, and the
// texts that what failed compares them with.
func (x *nativeRun) blame(e *expression) (fields, telling []string) {
	why, ok := x.why(e, explain.Input{Places: true})
	if !ok {
		return nil, nil
	}
	root := "object"
	if x.celObject() == nil {
		root = "oldObject"
	}
	fields, telling = x.failure(e).Fields(&why, root)
	return fields[:min(len(fields), maxFields)], telling
}

func (x *nativeRun) failure(e *expression) cel.Failure {
	return cel.Failure{Source: e.source, Secret: x.secret()}
}

// why explains a validation that is not true.
func (x *nativeRun) why(e *expression, in explain.Input) (why explain.Explanation, ok bool) {
	explainer := e.explainer()
	if explainer == nil {
		return why, false
	}
	in.Roots, in.Want = map[string]any{"object": orEmpty(x.celObject()), "oldObject": orEmpty(x.old)}, true
	for _, name := range []string{"request", "namespaceObject", paramsName} {
		in.Roots[name], _ = x.ResolveName(name)
	}
	why, err := explainer.Explain(x.ctx, in)
	return why, err == nil
}

// orEmpty is a tree as a root, null where there is none.
func orEmpty(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return tree
}
