package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// unbound returns a warning for each admission policy of the tree without a binding:
// the API server never evaluates it. Policies of --policy are evaluated as if they
// were bound, and are left out.
func unbound(policies, given, context []*render.Object) []error {
	const group = "admissionregistration.k8s.io"
	bound := make(map[string]bool) // kind and name of a policy
	for _, o := range slices.Concat(policies, context) {
		kind, isBinding := strings.CutSuffix(o.GetKind(), "Binding")
		name, _ := render.Lookup(o.Object, "/spec/policyName")
		if isBinding && o.GroupVersionKind().Group == group {
			bound[kind+" "+fmt.Sprint(name)] = true
		}
	}
	var warnings []error
	for _, o := range policies {
		kind := o.GetKind()
		isPolicy := kind == "ValidatingAdmissionPolicy" || kind == "MutatingAdmissionPolicy"
		if o.GroupVersionKind().Group != group || !isPolicy || bound[kind+" "+o.GetName()] || slices.Contains(given, o) {
			continue
		}
		warnings = append(warnings, warning(o, "/metadata/name", "no-binding",
			"no binding in the tree or --with names this policy, so it has no effect",
			"a "+kind+"Binding with policyName: "+o.GetName()+" makes the API server evaluate it"))
	}
	return warnings
}
