package change

import (
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Exempting returns the objects that the change adds or changes and that may exempt
// others from policies, and a function that selects such objects: by their labels, as
// exceptions, as permissions, or as parameters of the base's policies (a ConfigMap
// only if policies looked up that kind). The objects include changed definitions of
// kinds that the base has.
func Exempting(base, head *Side, lookedUp []schema.GroupKind) (changed []policy.Request, is func(*render.Object) bool) {
	was := render.Objects(base.Units)
	parameters := parameterKinds(slices.Concat(was, render.Objects(base.Given)))
	if slices.Contains(lookedUp, configMap) {
		parameters[configMap] = true
	}
	is = exempts(parameters)
	defined := make(map[string]bool)
	for _, o := range was {
		if isDefinition(o) {
			defined[o.GetName()] = true
		}
	}
	return changes(base, head, func(o *render.Object) bool {
		return is(o) || isDefinition(o) && defined[o.GetName()]
	}), is
}

var configMap = schema.GroupKind{Kind: "ConfigMap"}

// MayExempt returns a function that selects the objects of a base that may exempt others from its
// policies.
func MayExempt(base *Side) func(*render.Object) bool {
	return exempts(parameterKinds(slices.Concat(render.Objects(base.Units), render.Objects(base.Given))))
}

// exempts returns a function that selects objects that may exempt others from policies
// with parameters of the given kinds.
func exempts(parameters map[schema.GroupKind]bool) func(*render.Object) bool {
	return func(o *render.Object) bool {
		gk := o.GroupVersionKind().GroupKind()
		switch {
		case gk == schema.GroupKind{Kind: "Namespace"}, gk.Kind == "PolicyException", gk.Group == "rbac.authorization.k8s.io":
			return true
		}
		return parameters[gk]
	}
}

// LookedUp is Exempting for other objects that policies looked up, such as in
// Gatekeeper's data.inventory.
func LookedUp(base, head *Side, lookedUp []schema.GroupKind) (changed []policy.Request, is func(*render.Object) bool) {
	_, exempts := Exempting(base, head, lookedUp)
	is = func(o *render.Object) bool {
		return !exempts(o) && slices.Contains(lookedUp, o.GroupVersionKind().GroupKind())
	}
	return changes(base, head, is), is
}

// changes returns the objects of a kind that the change adds or changes.
func changes(base, head *Side, is func(*render.Object) bool) []policy.Request {
	not := func(o *render.Object) bool { return !is(o) }
	reqs := policy.Requests(slices.DeleteFunc(render.Objects(base.Units), not), slices.DeleteFunc(render.Objects(head.Units), not))
	return slices.DeleteFunc(reqs, func(r policy.Request) bool { return r.Object == nil || r.Unchanged() })
}

func isDefinition(o *render.Object) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// Concerned returns the requests that changed objects may exempt. If these are all
// definitions, it returns the requests about the kinds that they define.
func Concerned(reqs, changed []policy.Request) []policy.Request {
	defined := make(map[schema.GroupKind]bool)
	for _, c := range changed {
		if !isDefinition(c.Object) {
			return reqs
		}
		group, _ := render.Lookup(c.Object.Object, "/spec/group")
		kind, _ := render.Lookup(c.Object.Object, "/spec/names/kind")
		defined[schema.GroupKind{Group: fmt.Sprint(group), Kind: fmt.Sprint(kind)}] = true
	}
	return slices.DeleteFunc(slices.Clone(reqs), func(r policy.Request) bool {
		return !defined[r.Subject().GroupVersionKind().GroupKind()]
	})
}

// Exempted returns the failed and undecided results that a change alone makes pass, or
// makes weaker, such as a warning: those of results, which use the base's exemptions, that
// are not among found, which use the head's. Each names the object that exempts. Fields that only the head's
// definition of a kind has exempt from nothing. If only that serves a version, this is a warning.
func Exempted(results []policy.Result, changed []policy.Request, found ...iter.Seq[*policy.Result]) []policy.Result {
	counts := func(r *policy.Result) bool { return r.Outcome == policy.Fail || r.Undecided() }
	known := make(map[string]policy.Action) // the strongest
	for _, list := range found {
		for r := range list {
			if !counts(r) {
				continue
			}
			if action, is := known[r.Fingerprint]; !is || r.Action.AtLeast(action) {
				known[r.Fingerprint] = r.Action
			}
		}
	}
	results = slices.DeleteFunc(results, func(r policy.Result) bool {
		action, is := known[r.Fingerprint]
		return !counts(&r) || r.Operation == policy.Delete || is && action.AtLeast(r.Action) || r.Engine == policy.EngineCRD && r.Rule == "unknown-fields"
	})
	for i := range results {
		r, text := &results[i], "exempted by this change of %s: %s"
		if r.Engine == policy.EngineCRD && r.Outcome == policy.Error && slices.Contains(r.Fields, "/apiVersion") {
			r.Outcome, r.Action, text = policy.Fail, policy.Warn, "checked only by what this change adds to %s; at the base there are %s"
		}
		by, others := exemptedBy(r, changed)
		explainExemption(r, by, others, text)
	}
	return results
}

// explainExemption adds the object that exempts a result's object, or one of several, to
// the result. Its message becomes text, with these objects and the message before.
func explainExemption(r *policy.Result, by policy.Request, others int, text string) {
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
	if others > 0 {
		what += " or " + policy.Plural(others, "other object")
	}
	r.Message = fmt.Sprintf(text, what, r.Message)
}

// exemptedBy returns the object that exempts a result's object, as far as that is
// known, and how many other objects may do so.
func exemptedBy(r *policy.Result, changed []policy.Request) (by policy.Request, others int) {
	may := slices.DeleteFunc(slices.Clone(changed), func(c policy.Request) bool {
		return c.Object.Key() == r.Object || isDefinition(c.Object) != (r.Engine == policy.EngineCRD)
	})
	if len(may) == 0 {
		return changed[0], len(changed) - 1
	}
	for _, c := range may {
		switch name := c.Object.GetName(); {
		case isDefinition(c.Object) && name == r.Policy, c.Object.GetKind() == "Namespace" && name == r.Object.Namespace:
			return c, 0
		}
	}
	return may[0], len(may) - 1
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

// parameterKinds returns the kinds of policies' parameters: those that policies
// name, and ConfigMaps, which Kyverno's policies read.
func parameterKinds(policies []*render.Object) map[schema.GroupKind]bool {
	kinds := make(map[schema.GroupKind]bool)
	for _, p := range policies {
		if p.GroupVersionKind().Group == "kyverno.io" {
			kinds[configMap] = true
		}
		if kind, ok := render.Lookup(p.Object, "/spec/paramKind/kind"); ok {
			version, _ := render.Lookup(p.Object, "/spec/paramKind/apiVersion")
			gv := policy.ParseGroupVersion(fmt.Sprint(version))
			kinds[schema.GroupKind{Group: gv.Group, Kind: fmt.Sprint(kind)}] = true
		}
	}
	return kinds
}
