package packs_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/packs"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// versions are the API servers that policies must hold for: from the first
// that serves their libraries to the newest.
var versions = []string{"1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"}

const newest = "1.37"

// kindsOf are the kinds of each version, made once.
var kindsOf = func() map[string]func() (*schema.Kinds, error) {
	all := map[string]func() (*schema.Kinds, error){}
	for _, v := range versions {
		all[v] = sync.OnceValues(func() (*schema.Kinds, error) { return schema.New(nil, schema.Options{KubeVersion: v}) })
	}
	return all
}()

// An evaluate is the engine of a pack, or of some of its policies.
type evaluate struct {
	kinds  *schema.Kinds
	engine *admission.Engine
}

func newKindValidator(t testing.TB, kubeVersion string, objects []*render.Object) evaluate {
	t.Helper()
	kinds, err := kindsOf[kubeVersion]()
	rendertest.OK(t, err)
	engine, err := admission.New(objects, admission.Options{Kinds: kinds, Cluster: policy.NewCluster(), KubeVersion: kubeVersion})
	if err != nil {
		t.Fatalf("%s: %v", kubeVersion, err)
	}
	return evaluate{kinds, engine}
}

func (e evaluate) review(t testing.TB, objects []*render.Object) []policy.Result {
	t.Helper()
	results, err := policy.Chain{Kinds: e.kinds, Validators: []policy.Validator{e.engine}}.Review(t.Context(), policy.Requests(nil, objects))
	rendertest.OK(t, err)
	return results
}

func objects(t testing.TB, kubeVersion string) []*render.Object {
	t.Helper()
	all, err := packs.Objects("best-practices", kubeVersion)
	rendertest.OK(t, err)
	return all
}

// TestExamples evaluates the examples of each policy's documentation by that
// policy: the good ones pass, each bad one fails, and together they fail by
// every validation. Which fields are blamed, in which words, is held by
// testdata/examples.txt.
func TestExamples(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, p := range pairs(t, objects(t, newest)) {
		fmt.Fprintf(&got, "# %s: %s\n", p.name, p.policy.GetAnnotations()["preadmit.dev/title"])
		p.examples(t, &got)
	}
	rendertest.Golden(t, "testdata/examples.txt", got.String())
}

// A pair is a policy and its binding.
type pair struct {
	name            string
	policy, binding *render.Object
}

func pairs(t *testing.T, all []*render.Object) []pair {
	t.Helper()
	var found []pair
	for i := 0; i+1 < len(all); i += 2 {
		p := pair{all[i].GetName(), all[i], all[i+1]}
		target, _ := render.Lookup(p.binding.Object, "/spec/policyName")
		if p.policy.GetKind() != "ValidatingAdmissionPolicy" || p.binding.GetName() != p.name || target != p.name {
			t.Fatalf("%s is not followed by its binding", p.name)
		}
		found = append(found, p)
	}
	if len(found) < 20 {
		t.Fatalf("only %d policies", len(found))
	}
	return found
}

func (p pair) examples(t *testing.T, out *bytes.Buffer) {
	t.Helper()
	j := newKindValidator(t, newest, []*render.Object{p.policy, p.binding})
	bad, good := examples(p.policy.GetAnnotations()["preadmit.dev/help"])
	if len(bad) == 0 || len(good) == 0 {
		t.Fatalf("%s has no examples", p.name)
	}
	failed := map[string]bool{}
	for i, example := range bad {
		results := j.review(t, rendertest.Parse(t, fmt.Sprintf("bad%d.yaml", i+1), example))
		n := len(failed)
		for _, r := range results {
			write(out, &r)
			if r.Outcome == policy.Fail {
				failed[r.Rule] = true
			}
		}
		if len(failed) == n && !(n > 0 && len(bad) > len(j.engine.Rules())) {
			t.Errorf("%s: a bad example fails by no validation of its own:\n%s", p.name, example)
		}
	}
	for _, rule := range j.engine.Rules() {
		if !failed[rule.Name] {
			t.Errorf("%s: no bad example fails by %s", p.name, rule.Name)
		}
	}
	for _, example := range good {
		for _, r := range j.review(t, rendertest.Parse(t, "good.yaml", example)) {
			if r.Outcome != policy.Pass {
				t.Errorf("%s: a good example does not pass: %s %s %s\n%s", p.name, r.Rule, r.Outcome, r.Message, example)
			}
		}
	}
}

// TestTemplates holds that a policy says the same of a pod and of the template of a workload that it
// matches, since it is not asked again about the pods that the workload's controller creates.
func TestTemplates(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, p := range pairs(t, objects(t, newest)) {
		j := newKindValidator(t, newest, []*render.Object{p.policy, p.binding})
		bad, good := examples(p.policy.GetAnnotations()["preadmit.dev/help"])
		for _, example := range append(bad, good...) {
			for _, o := range rendertest.Parse(t, "pod.yaml", example) {
				if o.GetKind() != "Pod" {
					continue
				}
				for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"} {
					w := workload(t, kind, o)
					of := worst(j.review(t, []*render.Object{w}))
					if of == "" {
						continue // the policy does not match the workload
					}
					template, _ := render.Lookup(w.Object, "/spec/template/spec")
					pod := *o
					pod.Unstructured = o.DeepCopy()
					pod.Object["spec"] = template
					if want := worst(j.review(t, []*render.Object{&pod})); of != want {
						t.Errorf("%s: %s of a %s, and %s of its pod\n%s", p.name, of, kind, want, example)
					}
					compared++
				}
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d templates were compared", compared)
	}
}

// workload returns an object of a kind whose template is a pod.
func workload(t *testing.T, kind string, pod *render.Object) *render.Object {
	t.Helper()
	group, more := "apps/v1", "  selector: {matchLabels: {app: a}}\n"
	if kind == "Job" {
		group, more = "batch/v1", ""
	}
	o := rendertest.Parse(t, "workload.yaml", fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: a}\nspec:\n  replicas: 2\n%s  template: {metadata: {labels: {app: a}}}\n", group, kind, more))[0]
	o.SetNamespace(pod.GetNamespace())
	spec := o.Object["spec"].(map[string]any)
	if kind == "Job" || kind == "DaemonSet" {
		delete(spec, "replicas")
	}
	template := spec["template"].(map[string]any)
	template["spec"] = pod.DeepCopy().Object["spec"]
	meta := template["metadata"].(map[string]any)
	if all := pod.GetAnnotations(); len(all) > 0 {
		meta["annotations"], _ = render.Lookup(pod.Object, "/metadata/annotations")
	}
	if kind == "Job" {
		template["spec"].(map[string]any)["restartPolicy"] = "Never"
	}
	return o
}

// write writes what is not a pass, one line a result.
func write(out *bytes.Buffer, r *policy.Result) {
	if r.Outcome == policy.Pass {
		return
	}
	fmt.Fprintf(out, "%s %s: %s: %s", r.Outcome, r.Action, r.Rule, r.Message)
	for i, f := range r.Fields {
		fmt.Fprintf(out, "\n  %s", f)
		if i < len(r.Origins) {
			fmt.Fprintf(out, " (%d:%d)", r.Origins[i].Line, r.Origins[i].Column)
		}
	}
	out.WriteString("\n")
}

// examples are the YAML blocks of a help text, by the word before them.
func examples(help string) (bad, good []string) {
	word := ""
	blocks := strings.Split(help, "```")
	for i, block := range blocks {
		if i%2 == 0 {
			word = strings.TrimSpace(block[strings.LastIndex(strings.TrimSpace(block), "\n")+1:])
			continue
		}
		text := strings.TrimPrefix(block, "yaml\n")
		switch word {
		case "Bad:":
			bad = append(bad, text)
		case "Good:":
			good = append(good, text)
		}
	}
	return bad, good
}
