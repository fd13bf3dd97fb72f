package document

import (
	"cmp"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

func readException(o *render.Object, f *faults) *Exception {
	shapes()["exception"].check(o.Object, "", f)
	if f.refuse() {
		return nil
	}
	r := reader{faults: f, form: conditions.AnyAll}
	e := &Exception{Object: o, Name: o.GetName(), Namespace: cmp.Or(o.GetNamespace(), "default")}
	r.decode(field{o.Object, ""}.at("spec"), e)
	checkException(e, f)
	for _, x := range e.Match.Filters() {
		x.Exempts = true
	}
	return e
}

func checkException(e *Exception, f *faults) {
	checkMatch(e.Match, "/spec/match", f)
	if e.Background {
		checkNoUser(e.Match, f)
	}
	f.excludes(field{e.Object.Object, ""}.at("spec", "podSecurity"), "")
	for i, x := range e.Exceptions {
		at := "/spec/exceptions" + render.Pointer(i)
		if x.PolicyName == "" {
			f.add(at+"/policyName", "an exception names a policy")
		}
	}
}

// Covers reports whether the exception names the policy and the rule. A rule
// that autogen generated is named by its generated name.
func (e *Exception) Covers(p *Policy, rule string) bool {
	return slices.ContainsFunc(e.Exceptions, func(x ExceptionOf) bool { return x.PolicyName == p.key() && pattern.AnyWildcard(x.RuleNames, rule) })
}

// key returns the name by which exceptions name the policy.
func (p *Policy) key() string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// Concerns reports whether the exception's match selects the request, like
// [Rule.Matches]. The engine evaluates the exception's conditions.
func (e *Exception) Concerns(t *Target) (matched, assumed bool) { return e.Match.matches(t) }
