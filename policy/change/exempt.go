package change

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Exempting returns the objects that the change adds or changes and that may exempt
// others from policies, and a function that selects them: by their labels, as an
// exception, by what they permit, or as a parameter of policies of the base.
func Exempting(base, head *Side) (changed []policy.Request, is func(*render.Object) bool) {
	parameters := parameterKinds(slices.Concat(render.Objects(base.Units), render.Objects(base.Given)))
	is = func(o *render.Object) bool {
		gk := o.GroupVersionKind().GroupKind()
		switch {
		case gk == schema.GroupKind{Kind: "Namespace"}, gk.Kind == "PolicyException", gk.Group == "rbac.authorization.k8s.io":
			return true
		}
		return parameters[gk]
	}
	not := func(o *render.Object) bool { return !is(o) }
	for _, r := range policy.Requests(slices.DeleteFunc(render.Objects(base.Units), not), slices.DeleteFunc(render.Objects(head.Units), not)) {
		if r.Object != nil && !r.Unchanged() {
			changed = append(changed, r)
		}
	}
	return changed, is
}

// Exempted returns the failures, and what is undecided, that a change alone makes
// pass: those of results, which go by what the base exempts, that are not among found,
// which go by the head's. Each names the object of the change that exempts.
func Exempted(results, found []policy.Result, changed []policy.Request) []policy.Result {
	counts := func(r *policy.Result) bool { return r.Outcome == policy.Fail || r.Undecided() }
	known := make(map[string]bool)
	for i := range found {
		if r := &found[i]; counts(r) {
			known[r.Fingerprint] = true
		}
	}
	results = slices.DeleteFunc(results, func(r policy.Result) bool {
		return !counts(&r) || r.Operation == policy.Delete || known[r.Fingerprint]
	})
	for i := range results {
		explainExemption(&results[i], changed)
	}
	return results
}

// explainExemption says which object of the change exempts a result's object.
func explainExemption(r *policy.Result, changed []policy.Request) {
	by := changed[0]
	for _, c := range changed {
		if c.Object.GetKind() == "Namespace" && c.Object.GetName() == r.Object.Namespace {
			by = c
		}
	}
	pointer := ""
	for key, value := range by.Object.GetLabels() {
		if by.OldObject == nil || by.OldObject.GetLabels()[key] != value {
			if p := render.Pointer("metadata", "labels", key); pointer == "" || p < pointer {
				pointer = p
			}
		}
	}
	if account := "/spec/serviceAccountName"; pointer == "" {
		if _, ok := render.Lookup(by.Object.Object, account); ok {
			pointer = account
		}
	}
	at := by.Object.At(pointer)
	what := by.Object.GetKind() + " " + by.Object.GetName()
	if len(at) > 0 {
		what += fmt.Sprintf(" at %s:%d", at[0].File, at[0].Line)
		o := at[0]
		o.Role = render.Reference
		r.Origins = append(slices.Clone(r.Origins), o)
	}
	r.Message = fmt.Sprintf("exempted by what this change sets in %s: %s", what, r.Message)
}

// SamePolicies reports whether both sides have the same policies, whatever their
// lines, with the parameters that these read.
func SamePolicies(basePolicies, headPolicies []*render.Object, base, head *Side) bool {
	parameters := parameterKinds(slices.Concat(basePolicies, headPolicies))
	of := func(s *Side) []*render.Object {
		return slices.DeleteFunc(render.Objects(s.Units), func(x *render.Object) bool { return !parameters[x.GroupVersionKind().GroupKind()] })
	}
	for _, reqs := range [][]policy.Request{policy.Requests(basePolicies, headPolicies), policy.Requests(of(base), of(head))} {
		if slices.ContainsFunc(reqs, func(r policy.Request) bool { return !r.Unchanged() }) {
			return false
		}
	}
	return true
}

// parameterKinds are the kinds that policies take parameters from: those that
// they name, and ConfigMaps, which Kyverno's read.
func parameterKinds(policies []*render.Object) map[schema.GroupKind]bool {
	kinds := make(map[schema.GroupKind]bool)
	for _, p := range policies {
		if p.GroupVersionKind().Group == "kyverno.io" {
			kinds[schema.GroupKind{Kind: "ConfigMap"}] = true
		}
		if kind, ok := render.Lookup(p.Object, "/spec/paramKind/kind"); ok {
			version, _ := render.Lookup(p.Object, "/spec/paramKind/apiVersion")
			gv := policy.ParseGroupVersion(fmt.Sprint(version))
			kinds[schema.GroupKind{Group: gv.Group, Kind: fmt.Sprint(kind)}] = true
		}
	}
	return kinds
}
