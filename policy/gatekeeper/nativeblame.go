package gatekeeper

import (
	"strings"

	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
)

// maxFields is how many fields of one violation are named.
const maxFields = 16

// blame names the fields of the object that made a validation fail, and the
// texts that what failed compares them with.
func (x *nativeRun) blame(e *expression) (fields, telling []string) {
	why, ok := x.why(e, explain.Input{})
	if !ok {
		return nil, nil
	}
	root := "object"
	if x.celObject() == nil {
		root = "oldObject"
	}
	for _, c := range why.Culprits {
		if c.Root == root && len(fields) < maxFields {
			fields = append(fields, x.pointer(e, &c))
			telling = append(telling, c.Literals()...)
		}
	}
	return fields, telling
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

// pointer is where a culprit stands. The name of a missing field that the
// expression does not have may come from a Secret's values.
func (x *nativeRun) pointer(e *expression, c *explain.Culprit) string {
	path := render.Path(c.Pointer)
	if n := len(path); c.Missing && n > 0 && x.secret() && !strings.Contains(e.source, path[n-1]) {
		return strings.TrimSuffix(c.Pointer, render.Pointer(path[n-1]))
	}
	return c.Pointer
}
