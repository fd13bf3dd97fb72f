package engines

import (
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/render"
)

// Types returns the kinds that the clusters of an input serve.
func Types(in *load.Input, kubeVersion string) (admission.Types, error) {
	_, types, err := new(Served).kinds(render.Objects(slices.Concat(in.Head, in.Given, in.Context, in.Anywhere)), kubeVersion)
	return types, err
}

// Complete returns what may be written at the end of before, the beginning of an expression at a pointer of a
// policy or a definition. It returns nothing if there is no expression. It changes the object.
func Complete(types admission.Types, kubeVersion string, o *render.Object, pointer, before string) []policy.Completion {
	path := render.Path(pointer)
	if len(path) == 0 {
		return nil
	}
	parent, _ := render.Lookup(o.Object, render.PathPointer(path[:len(path)-1]))
	if fields, ok := parent.(map[string]any); ok {
		fields[path[len(path)-1]] = "true" // engines leave out an expression that is empty
	}
	return slices.Concat(admission.Complete(types, kubeVersion, o, pointer, before), kyvernocel.Complete(types, o, pointer, before), crd.Complete(kubeVersion, o, pointer, before))
}
