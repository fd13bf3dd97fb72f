package policytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/sample"
	"github.com/preadmit/preadmit/render"
)

// A kyvernoDraft writes a kyverno-test.yaml.
type kyvernoDraft struct {
	test   *kyvernoTest
	policy *kyvernoPolicy
	param  *render.Object // of a MutatingAdmissionPolicy
}

func (d *draft) kyvernoDrafter(e Engines) (drafter, error) {
	s := &suite{Suite: Suite{Notes: []string{}}, opts: &Options{FS: d.o.FS, Engines: e, Name: func(name string) string { return name }}}
	t := &kyvernoTest{suite: s, sources: map[*kyvernoPolicy][]*render.Object{}}
	t.setup.Kinds = asWritten{d.kinds}
	if strings.Contains(fmt.Sprint(d.object.Object["spec"]), "namespaceSelector") {
		t.setup.NamespaceLabels = namespaceLabels(d.o)
	}
	w := &kyvernoDraft{test: t}
	if kind, _ := render.Lookup(d.object.Object, "/spec/paramKind/kind"); kind != nil {
		if w.param = d.param(kind); w.param == nil {
			return nil, fmt.Errorf("there is no parameter of kind %v", kind)
		}
		t.setup.Params = []*render.Object{w.param}
	}
	t.compile(node{s: s}, append(d.bindings(), d.object))
	if len(t.policies) == 0 {
		return nil, errors.New("is not a policy of Kyverno")
	}
	w.policy = t.policies[0]
	if broken := w.policy.broken(); len(broken) > 0 {
		return nil, fmt.Errorf("does not compile: %s", t.text(broken...))
	}
	return w, nil
}

// bindings returns the bindings of an admission policy.
func (d *draft) bindings() []*render.Object {
	var all []*render.Object
	for _, b := range d.o.Policies {
		if called, _ := render.Lookup(b.Object, "/spec/policyName"); called == any(d.object.GetName()) && b.GetKind() == d.object.GetKind()+"Binding" {
			all = append(all, b)
		}
	}
	return all
}

// namespaceLabels returns the labels of the Namespaces among the objects.
func namespaceLabels(o *WriteOptions) map[string]map[string]string {
	all := make(map[string]map[string]string)
	for _, x := range slices.Concat(o.Others, o.Objects) {
		if x.GetKind() == "Namespace" && x.GetAPIVersion() == "v1" {
			all[x.GetName()] = x.GetLabels()
		}
	}
	return all
}

func (k *kyvernoDraft) texts() []any { return []any{k.policy.object.Object["spec"]} }

// wants implements drafter: a rule that mutates or generates does not fail.
func (k *kyvernoDraft) wants() []sample.Goal {
	spec, _ := k.policy.object.Object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	if len(k.policy.ruleNames()) == 0 {
		return statuses("", !strings.Contains(k.policy.kind, "Mutating") && !strings.HasSuffix(k.policy.kind, "GeneratingPolicy"))
	}
	var all []sample.Goal
	for _, r := range rules {
		if m, ok := r.(map[string]any); ok {
			called, _ := m["name"].(string)
			all = append(all, statuses(called, m["mutate"] == nil && m["generate"] == nil)...)
		}
	}
	return all
}

func statuses(rule string, fails bool) []sample.Goal {
	all := []sample.Goal{{Rule: rule, Status: "pass"}}
	if fails {
		all = append(all, sample.Goal{Rule: rule, Status: "fail"})
	}
	return all
}

// evaluate implements drafter. A status that a test can't expect makes it
// undecided.
func (k *kyvernoDraft) evaluate(ctx context.Context, o *render.Object) ([]sample.Result, string) {
	k.test.ctx, k.test.verdicts = ctx, map[string]*verdicts{}
	var all []sample.Result
	for _, one := range k.test.evaluate(o, "", "").ones {
		if one.err != nil {
			return nil, one.err.Error()
		}
		for _, r := range one.Rules {
			x := sample.Result{Rule: k.ruleName(r.Rule), Status: r.Status, Message: r.Message, Fields: r.Fields}
			switch {
			case r.Target != nil:
				return nil, "changes of existing objects are not written"
			case !slices.Contains([]string{"pass", "fail", "skip", "warn"}, r.Status):
				return nil, r.Message
			case one.phase == Mutating && r.Status == "pass":
				x.Made = []map[string]any{one.patched}
			case one.phase == Generating && r.Status == "pass":
				x.Made, x.Generated = r.Generated, true
			}
			if !slices.ContainsFunc(all, func(y sample.Result) bool { return y.Rule == x.Rule }) {
				all = append(all, x)
			}
		}
	}
	return all, ""
}

// ruleName returns the rule's name as it is written, for one that Kyverno generated.
func (k *kyvernoDraft) ruleName(reported string) string {
	names := k.policy.ruleNames()
	for _, n := range names {
		if n == reported {
			return n
		}
	}
	for _, n := range names {
		if sameRule(n, reported) {
			return n
		}
	}
	return ""
}

// files implements drafter.
func (k *kyvernoDraft) files(d *draft, samples []*sample.Sample) []File {
	files := []File{{}}
	test := map[string]any{
		"apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Test", "metadata": map[string]any{"name": path.Base(d.dir)},
		"resources": []any{"resources.yaml"},
	}
	bindings := d.bindings()
	// Other policies in the file would be run, too.
	fits := func(all []*render.Object) bool {
		return len(all) == 1 || len(all) <= 1+len(bindings) && d.areOf(all, bindings)
	}
	policies := []any{d.reference(d.object, fits, &files, "policy.yaml")}
	for i, b := range bindings {
		if file := d.reference(b, fits, &files, fmt.Sprintf("binding-%d.yaml", i+1)); !slices.Contains(policies, any(file)) {
			policies = append(policies, file)
		}
	}
	test["policies"] = policies
	if k.param != nil {
		single := func(all []*render.Object) bool { return len(all) == 1 }
		test["paramResources"] = []any{d.reference(k.param, single, &files, "param.yaml")}
	}
	files = append(files, d.samplesFile("resources.yaml", samples))
	var results []map[string]any
	for _, x := range samples {
		for _, r := range x.Results {
			results = k.result(d, results, x, r, &files)
		}
	}
	test["results"] = results
	if values := k.namespaceValues(samples); values != nil {
		test["variables"] = "values.yaml"
		files = append(files, File{path.Join(d.dir, "values.yaml"), d.document("", values)})
	}
	files[0] = File{path.Join(d.dir, "kyverno-test.yaml"), d.document(suiteHead, test)}
	return files
}

// areOf reports whether objects are the policy and its bindings.
func (d *draft) areOf(all, bindings []*render.Object) bool {
	return !slices.ContainsFunc(all, func(o *render.Object) bool {
		return !slices.ContainsFunc(append(bindings, d.object), func(x *render.Object) bool {
			return x.GetKind() == o.GetKind() && x.GetName() == o.GetName()
		})
	})
}

// result adds the outcome of a rule for a sample to the results. If one has the
// same rule, kind and status, it gets the sample.
func (k *kyvernoDraft) result(d *draft, results []map[string]any, x *sample.Sample, r sample.Result, files *[]File) []map[string]any {
	one := map[string]any{"policy": d.object.GetName(), "kind": x.Object.GetKind(), "result": r.Status}
	if r.Rule != "" {
		one["rule"] = r.Rule
	}
	for flag, kind := range kyvernoFlags {
		if kind == strings.TrimPrefix(d.object.GetKind(), "Namespaced") && d.object.GroupVersionKind().Group != "kyverno.io" {
			one[flag] = true
		}
	}
	if len(r.Made) > 0 {
		key, word := "patchedResources", "patched"
		if r.Generated {
			key, word = "generatedResource", strings.ToLower(r.Rule)+"-generated"
		}
		called := fmt.Sprintf("%s-%s-%s.yaml", unusedName(x.Object.GetName(), map[string]bool{}), strings.ToLower(x.Object.GetKind()), word)
		called = unusedName(called, map[string]bool{})
		var docs []string
		for _, made := range r.Made {
			if !r.Generated {
				made = x.Renamed(made)
			}
			docs = append(docs, string(d.document("", made)))
		}
		one[key] = called
		f := File{path.Join(d.dir, called), []byte(strings.Join(docs, "---\n"))}
		if !slices.ContainsFunc(*files, func(g File) bool { return g.Name == f.Name }) {
			*files = append(*files, f)
		}
	}
	for _, was := range results {
		same := maps.Clone(was)
		delete(same, "resources")
		if maps.Equal(same, one) {
			was["resources"] = append(was["resources"].([]string), x.Name())
			return results
		}
	}
	one["resources"] = []string{x.Name()}
	return append(results, one)
}

// namespaceValues returns the labels of the samples' namespaces, if the policy asks
// for them.
func (k *kyvernoDraft) namespaceValues(samples []*sample.Sample) map[string]any {
	var all []any
	seen := make(map[string]bool)
	for _, x := range samples {
		ns := cmp.Or(x.Object.GetNamespace(), "default")
		if labels := k.test.setup.NamespaceLabels[ns]; len(labels) > 0 && !seen[ns] {
			seen[ns] = true
			all = append(all, map[string]any{"name": ns, "labels": labels})
		}
	}
	if all == nil {
		return nil
	}
	return map[string]any{
		"apiVersion": "cli.kyverno.io/v1alpha1", "kind": "Values", "metadata": map[string]any{"name": "values"}, "namespaceSelector": all,
	}
}
