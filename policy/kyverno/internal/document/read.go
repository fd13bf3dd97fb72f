package document

import (
	"cmp"
	"errors"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

const group = "kyverno.io"

// versions are the versions in which Kyverno's kinds were ever served, by kind.
var versions = map[string][]string{
	"ClusterPolicy":   {"v1", "v2beta1"},
	"Policy":          {"v1", "v2beta1"},
	"PolicyException": {"v2", "v2beta1", "v2alpha1"},
}

// Options choose how policies are read. The zero value reads them as Kyverno's
// webhooks do.
type Options struct {
	CLI bool // as Kyverno's command line does, without a cluster's kinds
}

// Read returns the policies and exceptions among objects, in order, without
// those that Kyverno would refuse. The error joins a *[render.Error] for each
// reason to refuse one, at its line. Kyverno's other kinds are ignored: cleanup
// policies act later, and a GlobalContextEntry is looked up where a context
// names it.
func Read(objects []*render.Object, opts Options) (policies []*Policy, exceptions []*Exception, err error) {
	var errs []error
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		known := versions[gvk.Kind]
		if gvk.Group != group || known == nil {
			continue
		}
		var f faults
		switch {
		case !slices.Contains(known, gvk.Version):
			f.add("/apiVersion", "Kyverno has no %s in version %s", gvk.Kind, gvk.Version)
		case gvk.Kind == "PolicyException":
			if e := readException(o, &f); !f.refuse() {
				exceptions = append(exceptions, e)
			}
		default:
			if p := readPolicy(o, opts, &f); !f.refuse() {
				policies = append(policies, p)
			}
		}
		errs = append(errs, f.err(o))
	}
	return policies, exceptions, errors.Join(errs...)
}

// readPolicy decodes and checks a policy. The policy must not be used if there are
// faults.
func readPolicy(o *render.Object, opts Options, f *faults) *Policy {
	s := shapes()["policy"]
	if o.GroupVersionKind().Version == "v2beta1" {
		s = shapes()["policyV2beta1"]
	}
	s.check(o.Object, "", f)
	if f.refuse() {
		return nil
	}
	r := reader{faults: f, form: formOf(o)}
	p := r.policy(o)
	check(p, opts, f)
	if f.refuse() {
		return nil
	}
	p.controllers = r.autogen(p)
	p.forAll = p.rulesForAll()
	return p
}

// formOf returns the form of conditions in the version of a policy.
func formOf(o *render.Object) conditions.Form {
	if o.GroupVersionKind().Version == "v1" {
		return conditions.Legacy
	}
	return conditions.AnyAll
}

// A reader decodes values after check has accepted their shape.
type reader struct {
	*faults
	form conditions.Form
}

func (r reader) policy(o *render.Object) *Policy {
	root := field{o.Object, ""}
	spec := root.at("spec")
	p := &Policy{
		Object: o, Name: o.GetName(), Namespace: o.GetNamespace(), Cluster: o.GetKind() == "ClusterPolicy",
		ApplyOne: spec.text("applyRules") == "One",
	}
	r.decode(spec, p)
	p.defaults(spec)
	for _, x := range spec.at("rules").list() {
		p.Rules = append(p.Rules, r.rule(x))
	}
	return p
}

func (p *Policy) defaults(spec field) {
	p.Action = cmp.Or(p.Action, "Audit")
	p.FailurePolicy = cmp.Or(p.FailurePolicy, spec.text("failurePolicy"), "Fail")
	if p.Cluster {
		p.Namespace = ""
	} else if p.Namespace == "" {
		p.Namespace = "default"
	}
}

func (r reader) rule(x field) *Rule {
	rule := &Rule{}
	r.decode(x, rule)
	if v := rule.Validate; v != nil && v.Manifests != nil && len(v.Manifests.Attestors) == 0 {
		v.Manifests = nil
	}
	for i, x := range x.at("verifyImages").list() {
		rule.VerifyImages[i].formerFields(x)
	}
	return rule
}

// formerFields reads the fields of an entry's former form.
func (v *VerifyImages) formerFields(x field) {
	if image := x.text("image"); image != "" {
		v.ImageReferences = append([]string{image}, v.ImageReferences...)
	}
	for _, key := range []string{"key", "roots", "subject", "issuer"} { // attestors
		if x.text(key) != "" {
			v.Attestors++
			break
		}
	}
}

// conditions reads a block, and adds its problems to the policy's.
func (r reader) conditions(x field, form conditions.Form) *conditions.Block {
	if !x.isSet() {
		return nil
	}
	block, problems := conditions.Parse(x.value, x.pointer, form)
	for _, p := range problems {
		r.add(p.Pointer, "%s: %s", Dotted(p.Pointer), p.Message)
	}
	for _, p := range block.Unknown {
		r.addOnce(fault{pointer: p.Pointer, rule: ruleUnknownField, message: Dotted(p.Pointer) + ": " + p.Message, ignored: true})
	}
	return block
}

func attestorSets(x field, depth int) []*AttestorSet {
	var all []*AttestorSet
	for _, set := range x.list() {
		all = append(all, attestorSetOf(set, depth))
	}
	return all
}

func attestorSetOf(x field, depth int) *AttestorSet {
	n, _ := wholeNumber(x.at("count").value)
	set := &AttestorSet{Count: int(n)}
	for _, e := range x.at("entries").list() {
		set.Entries = append(set.Entries, attestorOf(e, depth))
	}
	return set
}

func attestorOf(x field, depth int) *Attestor {
	a := &Attestor{}
	reader{}.decode(x, a)
	for _, form := range []string{"attestor", "keys", "certificates", "keyless"} {
		if x.at(form).isSet() {
			a.Form = form
			break
		}
	}
	if a.Form == "attestor" && depth > 0 {
		a.Nested = attestorSetOf(x.at("attestor"), depth-1)
	}
	return a
}

// match reads a match or exclude block. Fields outside any and all form one
// filter.
func match(x field) *Match {
	m := &Match{}
	for _, x := range x.at("any").list() {
		m.Any = append(m.Any, filter(x))
	}
	for _, x := range x.at("all").list() {
		m.All = append(m.All, filter(x))
	}
	if len(m.Any) == 0 && len(m.All) == 0 {
		if f := filter(x); f.NamesObjects() || f.listsUsers {
			m.All = []*Filter{f}
		}
	}
	return m
}

func filter(x field) *Filter {
	f := &Filter{}
	reader{}.decode(x, f)
	f.sort()
	f.listsUsers = x.at("roles").isSet() || x.at("clusterRoles").isSet() || x.at("subjects").isSet()
	if name := x.at("resources").text("name"); name != "" {
		f.both = len(f.Names) > 0
		f.Names = append(f.Names, name)
	}
	return f
}

// SelectorOf reads a label selector from a JSON value. It returns nil for nil.
func SelectorOf(value any) *Selector { return selector(field{value: value}) }

func selector(x field) *Selector {
	if !x.isSet() {
		return nil
	}
	s := &Selector{}
	reader{}.decode(x, s)
	return s
}

// manyKinds is the number of selectors from which on they are looked up by kind.
const manyKinds = 16

// sort groups the selectors of a filter that has many by the kind that they
// name, and those with wildcards under "".
func (f *Filter) sort() {
	if len(f.Kinds) < manyKinds {
		return
	}
	f.byKind = make(map[string][]KindSelector)
	for _, k := range f.Kinds {
		key := k.Kind
		if pattern.HasWildcard(key) {
			key = ""
		}
		f.byKind[key] = append(f.byKind[key], k)
	}
}

func readException(o *render.Object, f *faults) *Exception {
	shapes()["exception"].check(o.Object, "", f)
	if f.refuse() {
		return nil
	}
	r := reader{faults: f, form: conditions.AnyAll}
	e := &Exception{Object: o, Name: o.GetName(), Namespace: cmp.Or(o.GetNamespace(), "default")}
	r.decode(field{o.Object, ""}.at("spec"), e)
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
	for _, x := range e.Match.Filters() {
		x.Exempts = true
	}
	return e
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
