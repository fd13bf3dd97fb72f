package policytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/sample"
	"github.com/preadmit/preadmit/render"
)

// A kaptestDraft writes a kaptest manifest for a ValidatingAdmissionPolicy.
type kaptestDraft struct {
	suite *kaptestSuite
	name  string
	rules []sample.Goal
	param *render.Object
}

func (d *draft) kaptestDrafter(e Engines) (drafter, error) {
	s := &suite{Suite: Suite{Notes: []string{}}, opts: &Options{FS: d.o.FS, Engines: e, Name: func(name string) string { return name }}}
	k := &kaptestSuite{suite: s, policies: map[string]*kaptestPolicy{}, mutating: map[string]*kaptestPolicy{}, kinds: asWritten{d.kinds}}
	var namespaces []*render.Object
	for _, o := range slices.Concat(d.o.Others, d.o.Objects) {
		if o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1" {
			namespaces = append(namespaces, o)
		}
	}
	k.cluster = policy.NewCluster(namespaces...)
	k.compile(d.object)
	switch p := k.policies[d.object.GetName()]; {
	case p == nil:
		return nil, fmt.Errorf("does not compile: %s", s.text(append(s.errs, errors.New("the policy is not evaluated"))...))
	case len(p.faults) > 0:
		return nil, fmt.Errorf("does not compile: %s", s.text(append(s.errs, errorsOf(p.faults)...)...))
	}
	w := &kaptestDraft{suite: k, name: d.object.GetName()}
	validations, _ := render.Lookup(d.object.Object, "/spec/validations")
	list, _ := validations.([]any)
	for i := range list {
		rule := fmt.Sprintf("validations[%d]", i)
		w.rules = append(w.rules, sample.Goal{Rule: rule, Status: admit}, sample.Goal{Rule: rule, Status: deny})
	}
	if kind, _ := render.Lookup(d.object.Object, "/spec/paramKind/kind"); kind != nil {
		if w.param = d.param(kind); w.param == nil {
			return nil, fmt.Errorf("there is no parameter of kind %v", kind)
		}
	}
	return w, nil
}

// param returns a parameter for the policy: the one that a binding names, else the
// first of its kind.
func (d *draft) param(kind any) *render.Object {
	var found *render.Object
	for _, o := range slices.Concat(d.o.Policies, d.o.Others, d.o.Objects) {
		if any(o.GetKind()) != kind {
			continue
		}
		if found == nil || d.binds(o) && !d.binds(found) {
			found = o
		}
	}
	return found
}

// binds reports whether a binding of the policy names a parameter.
func (d *draft) binds(param *render.Object) bool {
	return slices.ContainsFunc(d.o.Policies, func(b *render.Object) bool {
		policyName, _ := render.Lookup(b.Object, "/spec/policyName")
		called, _ := render.Lookup(b.Object, "/spec/paramRef/name")
		return policyName == any(d.object.GetName()) && called == any(param.GetName())
	})
}

func (k *kaptestDraft) texts() []any {
	texts := []any{k.suite.policies[k.name].object.Object["spec"]}
	if k.param != nil {
		texts = append(texts, k.param.Object["spec"], k.param.Object["data"])
	}
	return texts
}

func (k *kaptestDraft) wants() []sample.Goal { return k.rules }

// evaluate implements drafter. Objects that the policy does not match have no
// results, although kaptest ignores match constraints.
func (k *kaptestDraft) evaluate(ctx context.Context, o *render.Object) ([]sample.Result, string) {
	suite, p := k.suite, k.suite.policies[k.name]
	suite.ctx = ctx
	c := &kaptestCase{k: suite, Case: Case{Policy: k.name, Operation: string(policy.Create)}}
	req := &policy.Request{Operation: policy.Create, DryRun: true, Object: o, Admitted: o.Object}
	req.Kind = o.GroupVersionKind()
	req.Resource = suite.kinds.Resource(req.Kind)
	req.Namespace, req.Name = o.GetNamespace(), o.GetName()
	if c.unmatched(p, req); c.Unmatched {
		return nil, ""
	}
	results, err := p.evaluator.Evaluate(ctx, req, k.name, k.param)
	if err != nil {
		return nil, err.Error()
	}
	var all []sample.Result
	for i := range results {
		r := &results[i]
		switch r.Outcome {
		case policy.Pass:
			all = append(all, sample.Result{Rule: r.Rule, Status: admit})
		case policy.Fail:
			all = append(all, sample.Result{Rule: r.Rule, Status: deny, Message: r.Message, Fields: r.Fields})
		case policy.Skip:
			return nil, ""
		default:
			return nil, r.Message
		}
	}
	return all, ""
}

// The keys of a manifest in the order in which people write them.
type (
	kaptestText struct {
		Version   string             `yaml:"version"`
		Policies  []string           `yaml:"policies"`
		Resources []string           `yaml:"resources"`
		Suites    []kaptestSuiteText `yaml:"vapTestSuites"`
	}
	kaptestSuiteText struct {
		Policy string            `yaml:"policy"`
		Tests  []kaptestTestText `yaml:"tests"`
	}
	kaptestTestText struct {
		Object map[string]string `yaml:"object"`
		Param  map[string]string `yaml:"param,omitempty"`
		Expect string            `yaml:"expect"`
	}
)

// files implements drafter.
func (k *kaptestDraft) files(d *draft, samples []*sample.Sample) []File {
	files := []File{{}}
	text := kaptestText{Version: "v1alpha1", Policies: []string{d.reference(d.object, admissionPolicies, &files, "policy.yaml")}, Resources: []string{"resources.yaml"}}
	files = append(files, d.samplesFile("resources.yaml", samples))
	suite := kaptestSuiteText{Policy: k.name}
	for _, x := range samples {
		one := kaptestTestText{Object: identified(x.Object), Expect: admit}
		for _, r := range x.Results {
			if r.Status == deny {
				one.Expect = deny
			}
		}
		if k.param != nil {
			one.Param = identified(k.param)
			delete(one.Param, "kind")
		}
		suite.Tests = append(suite.Tests, one)
	}
	slices.SortStableFunc(suite.Tests, func(a, b kaptestTestText) int { return cmp.Compare(a.Expect, b.Expect) })
	text.Suites = []kaptestSuiteText{suite}
	if k.param != nil {
		text.Resources = append(text.Resources, d.reference(k.param, func(all []*render.Object) bool { return len(all) == 1 }, &files, "param.yaml"))
	}
	files[0] = File{path.Join(d.dir, "kaptest.yaml"), encoded(text)}
	return files
}

// admissionPolicies reports whether a file has policies and bindings alone.
func admissionPolicies(all []*render.Object) bool {
	return !slices.ContainsFunc(all, func(o *render.Object) bool {
		return o.GetKind() != validatingKind && o.GetKind() != validatingKind+"Binding"
	})
}

// identified returns the names by which a manifest refers to an object.
func identified(o *render.Object) map[string]string {
	id := map[string]string{"kind": o.GetKind(), "name": o.GetName(), "namespace": o.GetNamespace()}
	maps.DeleteFunc(id, func(_, v string) bool { return v == "" })
	return id
}
