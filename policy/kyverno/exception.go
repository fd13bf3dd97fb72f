package kyverno

import (
	"github.com/preadmit/preadmit/policy/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

func readException(o *render.Object, f *faults) *Exception {
	exceptionShape.check(o.Object, "", f)
	if len(f.all) > 0 {
		return nil
	}
	r := reader{faults: f, form: conditions.AnyAll}
	spec := field{o.Object, ""}.at("spec")
	e := &Exception{
		Object: o, Name: o.GetName(), Namespace: o.GetNamespace(),
		Background:  spec.flag("background", true),
		Match:       match(spec.at("match")),
		Conditions:  r.conditions(spec.at("conditions"), r.form),
		PodSecurity: podSecurityExcludes(spec.at("podSecurity")),
	}
	if e.Namespace == "" {
		e.Namespace = "default"
	}
	for _, x := range spec.at("exceptions").list() {
		e.Exceptions = append(e.Exceptions, ExceptionOf{PolicyName: x.text("policyName"), RuleNames: x.texts("ruleNames")})
	}
	checkException(e, f)
	return e
}

func checkException(e *Exception, f *faults) {
	checkMatch(e.Match, "/spec/match", f)
	if e.Background {
		checkNoUser(e.Match, f)
	}
	for i, x := range e.Exceptions {
		at := "/spec/exceptions" + render.Pointer(i)
		if x.PolicyName == "" {
			f.add(at+"/policyName", "an exception names a policy")
		}
	}
}

// covers says whether the exception names the policy and the rule, which for
// one that autogen made goes by its own name.
func (e *Exception) covers(p *Policy, rule string) bool {
	for _, x := range e.Exceptions {
		if x.PolicyName == p.key() && anyWildcard(x.RuleNames, rule) {
			return true
		}
	}
	return false
}

// key is the name that exceptions know the policy by.
func (p *Policy) key() string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// concerns says whether the object and the user are those of the exception,
// and whether that rests on the user not being known. Conditions are the
// engine's.
func (e *Exception) concerns(t *target) (matched, assumed bool) { return e.Match.matches(t) }
