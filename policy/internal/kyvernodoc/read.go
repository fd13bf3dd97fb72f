package kyvernodoc

import (
	"cmp"
	"errors"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

const group = "kyverno.io"

// versions are those in which Kyverno's kinds were ever served, by kind.
var versions = map[string][]string{
	"ClusterPolicy":   {"v1", "v2beta1"},
	"Policy":          {"v1", "v2beta1"},
	"PolicyException": {"v2", "v2beta1", "v2alpha1"},
}

// Options choose how policies are read. The zero value reads them as Kyverno's
// webhooks do.
type Options struct {
	CLI bool // as Kyverno's command line does, which does not know a cluster's kinds
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
			if e := readException(o, &f); len(f.all) == 0 {
				exceptions = append(exceptions, e)
			}
		default:
			if p := readPolicy(o, opts, &f); len(f.all) == 0 {
				policies = append(policies, p)
			}
		}
		errs = append(errs, f.err(o))
	}
	return policies, exceptions, errors.Join(errs...)
}

// readPolicy decodes and checks a policy; with faults it is of no use.
func readPolicy(o *render.Object, opts Options, f *faults) *Policy {
	s := clusterPolicyShape
	if o.GroupVersionKind().Version == "v2beta1" {
		s = policyV2Beta1Shape
	}
	s.check(o.Object, "", f)
	if len(f.all) > 0 {
		return nil
	}
	r := reader{faults: f, form: formOf(o)}
	p := r.policy(o)
	check(p, opts, f)
	if len(f.all) > 0 {
		return nil
	}
	p.controllers = r.autogen(p)
	return p
}

// formOf returns the form of conditions in the version of a policy.
func formOf(o *render.Object) conditions.Form {
	if o.GroupVersionKind().Version == "v1" {
		return conditions.Legacy
	}
	return conditions.AnyAll
}

// A reader decodes values whose shape is checked.
type reader struct {
	*faults
	form conditions.Form
}

func (r reader) policy(o *render.Object) *Policy {
	root := field{o.Object, ""}
	spec := root.at("spec")
	p := &Policy{
		Object: o, Name: o.GetName(), Namespace: o.GetNamespace(), Cluster: o.GetKind() == "ClusterPolicy",
		ApplyOne:        spec.text("applyRules") == "One",
		Action:          actionOf(spec.text("validationFailureAction")),
		Overrides:       overrides(spec.at("validationFailureActionOverrides")),
		Admission:       spec.flag("admission", true),
		Background:      spec.flag("background", true),
		FailurePolicy:   spec.at("webhookConfiguration").text("failurePolicy"),
		MatchConditions: expressions(spec.at("webhookConfiguration", "matchConditions")),
	}
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
	rule := &Rule{
		Name: x.text("name"), Pointer: x.pointer, Source: x.keys(),
		Match:            match(x.at("match")),
		Context:          r.context(x.at("context")),
		Preconditions:    r.conditions(x.at("preconditions"), r.form),
		CELPreconditions: expressions(x.at("celPreconditions")),
		ImageExtractors:  extractors(x.at("imageExtractors")),
		ReportProperties: x.textMap("reportProperties"),
	}
	if exclude := x.at("exclude"); exclude.there() {
		rule.Exclude = match(exclude)
	}
	rule.Validate = r.validate(x.at("validate"))
	rule.Mutate = r.mutate(x.at("mutate"))
	rule.Generate = r.generate(x.at("generate"))
	for _, x := range x.at("verifyImages").list() {
		rule.VerifyImages = append(rule.VerifyImages, verifyImages(x))
	}
	return rule
}

// conditions reads a block, whose problems are the policy's.
func (r reader) conditions(x field, form conditions.Form) *conditions.Block {
	if !x.there() {
		return nil
	}
	block, problems := conditions.Parse(x.value, x.pointer, form)
	for _, p := range problems {
		r.add(p.Pointer, "%s: %s", Dotted(p.Pointer), p.Message)
	}
	return block
}

func (r reader) context(x field) []*ContextEntry {
	var all []*ContextEntry
	for _, x := range x.list() {
		e := &ContextEntry{Name: x.text("name"), Pointer: x.pointer}
		if v := x.at("variable"); v.there() {
			e.Variable = &VariableEntry{
				Value: v.at("value").value, HasValue: v.at("value").there(), JMESPath: v.text("jmesPath"),
				Default: v.at("default").value, HasDefault: v.at("default").there(),
			}
		}
		if v := x.at("configMap"); v.there() {
			e.ConfigMap = &ConfigMapEntry{Name: v.text("name"), Namespace: v.text("namespace")}
		}
		if v := x.at("apiCall"); v.there() {
			e.APICall = apiCall(v)
		}
		if v := x.at("imageRegistry"); v.there() {
			e.ImageRegistry = &ImageRegistryEntry{Reference: v.text("reference"), JMESPath: v.text("jmesPath")}
		}
		if v := x.at("globalReference"); v.there() {
			e.GlobalReference = &GlobalReferenceEntry{Name: v.text("name"), JMESPath: v.text("jmesPath")}
		}
		all = append(all, e)
	}
	return all
}

func apiCall(x field) *APICallEntry {
	call := &APICallEntry{
		Method: x.text("method"), URLPath: x.text("urlPath"), JMESPath: x.text("jmesPath"), ServiceURL: x.at("service").text("url"),
		Default: x.at("default").value, HasDefault: x.at("default").there(),
	}
	call.Method = cmp.Or(call.Method, "GET")
	call.Data = keyValuesOf(x.at("data"), "value")
	return call
}

func keyValuesOf(x field, value string) []KeyValue {
	var all []KeyValue
	for _, x := range x.list() {
		all = append(all, KeyValue{Key: x.text("key"), Value: x.at(value).value})
	}
	return all
}

func expressions(x field) []Expression {
	var all []Expression
	for _, x := range x.list() {
		all = append(all, Expression{Name: x.text("name"), Expression: x.text("expression")})
	}
	return all
}

func extractors(x field) map[string][]ImageExtractor {
	if !x.there() {
		return nil
	}
	all := make(map[string][]ImageExtractor)
	for kind := range x.keys() {
		for _, x := range x.at(kind).list() {
			all[kind] = append(all[kind], ImageExtractor{
				Path: x.text("path"), Value: x.text("value"), Name: x.text("name"), Key: x.text("key"), JMESPath: x.text("jmesPath"),
			})
		}
	}
	return all
}
