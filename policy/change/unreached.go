package change

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// ExemptingUnreached returns the objects in units that nothing deploys that may let
// others pass the policies: those that Exempting returns for a change, Gatekeeper's
// Configs, and policies that mutate. permissions adds those that the authorizer reads.
// The returned function selects these objects.
func ExemptingUnreached(s *Side, permissions bool) (exempting []policy.Request, is func(*render.Object) bool) {
	all := slices.Concat(render.Objects(s.Units), render.Objects(s.Given))
	parameters := parameterKinds(all)
	if slices.ContainsFunc(all, func(o *render.Object) bool { return o.GroupVersionKind().Group == "policies.kyverno.io" }) {
		parameters[schema.GroupKind{Kind: "ConfigMap"}] = true
	}
	may := exempts(parameters)
	is = func(o *render.Object) bool {
		switch {
		case !isUnreached(o):
			return false
		case o.GroupVersionKind().Group == "rbac.authorization.k8s.io":
			return permissions
		}
		return may(o) || mutates(o) || o.GroupVersionKind().Group == gatekeeperConfig
	}
	for _, o := range slices.Concat(render.Objects(s.Units), render.Objects(s.Anywhere)) {
		if is(o) {
			exempting = append(exempting, policy.Request{Operation: policy.Create, Object: o})
		}
	}
	return exempting, is
}

func isUnreached(o *render.Object) bool { return o.Unit != nil && o.Unit.State == render.Unreached }

// gatekeeperConfig is the group of Gatekeeper's Config, which exempts Namespaces.
const gatekeeperConfig = "config.gatekeeper.sh"

// mutates reports whether an object is a policy that mutates others.
func mutates(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	switch gvk.Group {
	case "mutations.gatekeeper.sh":
		return true
	case "admissionregistration.k8s.io":
		return gvk.Kind == "MutatingAdmissionPolicy"
	case "policies.kyverno.io":
		return gvk.Kind == "MutatingPolicy" || gvk.Kind == "NamespacedMutatingPolicy"
	case "kyverno.io":
		rules, _ := render.Lookup(o.Object, "/spec/rules")
		list, _ := rules.([]any)
		return slices.ContainsFunc(list, func(rule any) bool {
			r, _ := rule.(map[string]any)
			return r["mutate"] != nil
		})
	}
	return false
}

// Deployed returns the requests about deployed objects that exempting objects, as
// returned by ExemptingUnreached, may concern.
func Deployed(reqs, exempting []policy.Request) []policy.Request {
	named := make(map[string]bool) // the exempting Namespaces
	for _, x := range exempting {
		if x.Object.GetKind() == "Namespace" {
			named[x.Object.GetName()] = true
		}
	}
	only := !slices.ContainsFunc(exempting, func(x policy.Request) bool { return x.Object.GetKind() != "Namespace" })
	return slices.DeleteFunc(slices.Clone(reqs), func(r policy.Request) bool {
		o := r.Object
		return o == nil || isUnreached(o) || only && !named[o.Key().Namespace]
	})
}

// Unsupported returns an Unknown result for each failed or undecided result, found without
// the exempting objects of ExemptingUnreached, if found, with them, has no such result of
// that policy about the object: what nothing deploys decides it.
func Unsupported(results []policy.Result, exempting []policy.Request, found ...iter.Seq[*policy.Result]) []policy.Result {
	type verdict struct {
		engine, policy string
		object         render.Key
	}
	of := func(r *policy.Result) verdict { return verdict{r.Engine, r.Policy, r.Object} }
	counts := func(r *policy.Result) bool { return r.Outcome == policy.Fail || r.Undecided() }
	known := make(map[verdict]policy.Action) // the strongest
	for _, list := range found {
		for r := range list {
			if !counts(r) {
				continue
			}
			if action, is := known[of(r)]; !is || r.Action.AtLeast(action) {
				known[of(r)] = r.Action
			}
		}
	}
	results = slices.DeleteFunc(results, func(r policy.Result) bool {
		action, is := known[of(&r)]
		return !counts(&r) || is && action.AtLeast(r.Action)
	})
	for i := range results {
		r := &results[i]
		r.Outcome = policy.Unknown
		by := supporting(r, exempting)
		explainExemption(r, by[0], len(by)-1, "passes only because of %s, which nothing found here deploys; otherwise: %s")
		given := "--with"
		if slices.ContainsFunc(by, func(x policy.Request) bool { return mutates(x.Object) }) {
			given = "--with, or in --policy for a policy"
		}
		r.Hint = "if it is on the cluster, name its file in " + given + "; if not, leave it out with --exclude"
	}
	return results
}

// supporting returns those of the exempting objects that may be why a result's object
// passes.
func supporting(r *policy.Result, exempting []policy.Request) []policy.Request {
	var named, may []policy.Request
	for _, x := range exempting {
		switch o := x.Object; {
		case o.GetKind() == "PolicyException":
			if excepts(o, r.Policy) {
				named = append(named, x)
			}
		case o.GetKind() == "Namespace":
			if o.GetName() != r.Object.Namespace {
				continue
			}
			if strings.Contains(r.Message, "namespace "+o.GetName()) {
				return []policy.Request{x}
			}
			may = append(may, x)
		case o.GroupVersionKind().Group != gatekeeperConfig || r.Engine == policy.EngineGatekeeper:
			may = append(may, x)
		}
	}
	for _, list := range [][]policy.Request{named, may} {
		if len(list) > 0 {
			return list
		}
	}
	return exempting
}

// excepts reports whether an object is a PolicyException that names a policy.
func excepts(o *render.Object, policy string) bool {
	if o.GetKind() != "PolicyException" {
		return false
	}
	for _, list := range []struct{ pointer, key string }{{"/spec/exceptions", "policyName"}, {"/spec/policyRefs", "name"}} {
		value, _ := render.Lookup(o.Object, list.pointer)
		entries, _ := value.([]any)
		for _, e := range entries {
			if entry, _ := e.(map[string]any); entry[list.key] == policy {
				return true
			}
		}
	}
	return false
}
