package change

import (
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// ExemptingUnreached returns the objects in units that nothing deploys that may let
// others pass the policies: those that Exempting returns for a change, Gatekeeper's
// Configs, and policies that mutate. permissions adds those that the authorizer reads.
// The returned function selects these objects.
func ExemptingUnreached(s *Side, permissions bool) (exempting []*render.Object, is func(*render.Object) bool) {
	all := slices.Concat(render.Objects(s.Units), render.Objects(s.Given))
	parameters := parameterKinds(all)
	if slices.ContainsFunc(all, func(o *render.Object) bool { return o.GroupVersionKind().Group == "policies.kyverno.io" }) {
		parameters[configMap] = true
	}
	may := exempts(parameters)
	is = func(o *render.Object) bool {
		if !isUnreached(o) {
			return false
		}
		group := o.GroupVersionKind().Group
		if group == "rbac.authorization.k8s.io" {
			return permissions
		}
		return may(o) || mutates(o) || group == gatekeeperConfig
	}
	for _, o := range slices.Concat(render.Objects(s.Units), render.Objects(s.Anywhere)) {
		if is(o) {
			exempting = append(exempting, o)
		}
	}
	return exempting, is
}

// NewlyExempting returns a function that selects those objects of a base that ExemptingUnreached selects
// and that the head deploys: they exempt from nothing before the change.
func NewlyExempting(base, head *Side) func(*render.Object) bool {
	some, exempting := ExemptingUnreached(base, true)
	if len(some) == 0 {
		return exempting
	}
	ids := policy.NewIdentities(render.Objects(base.Units), render.Objects(head.Units))
	deployed := make(map[policy.Identity]bool)
	for _, o := range render.Objects(head.Units) {
		deployed[ids.Of(o).Anywhere()] = true
	}
	return func(o *render.Object) bool {
		if !exempting(o) {
			return false
		}
		id := ids.Of(o).Anywhere()
		id.Unreached = false
		return deployed[id]
	}
}

// Deploys reports whether something deploys one of the side's objects.
func (s *Side) Deploys() bool {
	return slices.ContainsFunc(s.Units, func(u *render.Unit) bool { return u.State != render.Unreached && len(u.Objects) > 0 })
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

// Concerns returns the requests about deployed objects that exempting objects, as returned
// by ExemptingUnreached, may let pass: those in an exempting Namespace, those with results of
// an exempted or mutating policy, and all if policies read other exempting objects. read
// reports whether policies may have read an object; found are the results, with passes.
func Concerns(reqs []policy.Request, exempting []*render.Object, read func(*render.Object) bool, found ...iter.Seq[*policy.Result]) []policy.Request {
	reqs = slices.DeleteFunc(slices.Clone(reqs), func(r policy.Request) bool { return r.Object == nil || isUnreached(r.Object) })
	var all bool
	namespaces, policies := make(map[string]bool), make(map[string]bool)
	for _, o := range exempting {
		switch {
		case o.GetKind() == "PolicyException":
			for _, name := range excepted(o) {
				policies[path.Base(name)] = true
			}
		case mutates(o):
			policies[o.GetName()] = true
		case o.GroupVersionKind().Group == gatekeeperConfig:
			all = true
		case !read(o):
		case o.GetKind() == "Namespace":
			namespaces[o.GetName()] = true
		default:
			all = true
		}
	}
	touched := make(map[render.Key]bool) // by these policies
	if !all && len(policies) > 0 {
		for _, list := range found {
			for r := range list {
				if policies[path.Base(r.Policy)] {
					touched[r.Object] = true
				}
			}
		}
	}
	return slices.DeleteFunc(reqs, func(r policy.Request) bool {
		return !all && !namespaces[r.Object.Key().Namespace] && !touched[r.Object.Key()]
	})
}

// Unsupported returns an Unknown result for each failed or undecided one of results, found
// without the exempting objects of ExemptingUnreached, if found, with them, has no such
// result of that policy about the object: what nothing deploys decides it.
func Unsupported(results iter.Seq[*policy.Result], exempting []*render.Object, found ...iter.Seq[*policy.Result]) []policy.Result {
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
	var unsupported []policy.Result
	for r := range results {
		if action, is := known[of(r)]; counts(r) && !(is && action.AtLeast(r.Action)) {
			unsupported = append(unsupported, *r)
		}
	}
	unsupported = policy.WithoutRepeats(unsupported)
	for i := range unsupported {
		r := &unsupported[i]
		r.Outcome = policy.Unknown
		by := supporting(r, exempting)
		explainExemption(r, policy.Request{Object: by[0]}, len(by)-1, "passes only because of %s, which nothing found here deploys; otherwise: %s")
		given := "--with"
		if slices.ContainsFunc(by, mutates) {
			given = "--with, or in --policy for a policy"
		}
		r.Hint = "if it is on the cluster, name its file in " + given + "; if not, leave it out with --exclude"
	}
	return unsupported
}

// supporting returns those of the exempting objects that may be why a result's object
// passes.
func supporting(r *policy.Result, exempting []*render.Object) []*render.Object {
	var named, may []*render.Object
	for _, o := range exempting {
		switch {
		case o.GetKind() == "PolicyException":
			if slices.Contains(excepted(o), r.Policy) {
				named = append(named, o)
			}
		case o.GetKind() == "Namespace":
			if o.GetName() != r.Object.Namespace {
				continue
			}
			if strings.Contains(r.Message, "namespace "+o.GetName()) {
				return []*render.Object{o}
			}
			may = append(may, o)
		case o.GroupVersionKind().Group != gatekeeperConfig || r.Engine == policy.EngineGatekeeper:
			may = append(may, o)
		}
	}
	for _, list := range [][]*render.Object{named, may} {
		if len(list) > 0 {
			return list
		}
	}
	return exempting
}

// excepted returns the policies that a PolicyException names.
func excepted(o *render.Object) (names []string) {
	for _, list := range []struct{ pointer, key string }{{"/spec/exceptions", "policyName"}, {"/spec/policyRefs", "name"}} {
		value, _ := render.Lookup(o.Object, list.pointer)
		entries, _ := value.([]any)
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			if name, ok := entry[list.key].(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}
