package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/cmd/preadmit/suites"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A published test is a template with a constraint and the objects of its cases.
type gatorSample struct {
	name                 string
	template, constraint *render.Object
	expansions           []*render.Object
	objects, inventory   []*render.Object
	refers               bool // it looks at other objects
}

// TestGatorPerturbed asks gator and the engine about every object of the
// published suites, and about thousands that differ from one in a place, and
// holds violations against violations: their messages and actions. gator test
// takes all of them at once, and has all of them in its inventory.
func TestGatorPerturbed(t *testing.T) {
	t.Parallel()
	gator := needProgram(t, "PREADMIT_GATOR", "gator")
	total, same := 0, 0
	for _, s := range gatorSamples(t) {
		most := 3000
		if s.refers {
			most = 150
		}
		n, differences := s.compare(t, gator, s.perturbed(most))
		total += n + len(differences)
		same += n
		for i, d := range differences {
			if i < 5 {
				t.Errorf("difference: %s: %s", s.name, d)
			}
		}
		if len(differences) > 5 {
			t.Errorf("difference: %s: and %d more of %d", s.name, len(differences)-5, n+len(differences))
		}
	}
	t.Logf("table gator test beside it: %d / %d", same, total)
	if total < 20_000 {
		t.Errorf("only %d objects were compared", total)
	}
}

// gatorSamples are the tests of the published suites, each once.
func gatorSamples(t *testing.T) []*gatorSample {
	t.Helper()
	var samples []*gatorSample
	seen := make(map[string]bool)
	for _, pattern := range []string{"gatekeeper/test/gator/verify/suite*.yaml", "gatekeeper-library/library/*/*/suite*.yaml"} {
		files, _ := filepath.Glob(gatekeeperCorpora + pattern)
		for _, f := range files {
			samples = append(samples, readSamples(t, f, seen)...)
		}
	}
	if len(samples) == 0 {
		t.Skip("../shared/corpora is absent")
	}
	return samples
}

func readSamples(t *testing.T, file string, seen map[string]bool) (samples []*gatorSample) {
	t.Helper()
	dir := filepath.Dir(file)
	var suite struct {
		Tests []struct {
			Name, Template, Constraint, Expansion string
			Cases                                 []struct {
				Object    string
				Inventory []string
			}
		}
	}
	data, err := json.Marshal(readDocuments(t, file)[0].Value)
	if err == nil {
		err = json.Unmarshal(data, &suite)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, test := range suite.Tests {
		s := &gatorSample{name: filepath.Base(dir) + "/" + test.Name}
		s.template, s.constraint = readObjects(t, dir, test.Template)[0], withoutNamespaces(readObjects(t, dir, test.Constraint)[0])
		if key := toJSON(s.template.Object) + toJSON(s.constraint.Object) + test.Expansion; seen[key] {
			continue
		} else {
			seen[key] = true
		}
		if test.Expansion != "" {
			s.expansions = readObjects(t, dir, test.Expansion)
		}
		for _, c := range test.Cases {
			for _, o := range readObjects(t, dir, c.Object) {
				if o.GetKind() != "AdmissionReview" {
					s.objects = append(s.objects, o)
				}
			}
			for _, f := range c.Inventory {
				s.inventory = append(s.inventory, readObjects(t, dir, f)...)
			}
		}
		s.refers = strings.Contains(toJSON(s.template.Object), "data.inventory")
		samples = append(samples, s)
	}
	return samples
}

func readDocuments(t *testing.T, file string) []render.Document {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	docs, err := render.Documents(file, data, render.YAML12)
	if len(docs) == 0 {
		t.Fatalf("%s: %v", file, err)
	}
	return docs
}

// readObjects reads a file as gator verify does.
func readObjects(t *testing.T, dir, name string) (objects []*render.Object) {
	t.Helper()
	for _, d := range readDocuments(t, filepath.Join(dir, name)) {
		if m, ok := d.Value.(map[string]any); ok {
			objects = append(objects, objectOf(m))
		}
	}
	return objects
}

func objectOf(tree map[string]any) *render.Object {
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}}
}

// perturbed are the sample's objects and their likes, some of the many.
func (g *gatorSample) perturbed(most int) []*render.Object {
	var all []*render.Object
	seen := make(map[string]bool)
	each := max(most/max(len(g.objects), 1), 20)
	for _, o := range g.objects {
		for _, tree := range perturbed(o.Object, each) {
			if key := toJSON(tree); !seen[key] {
				seen[key] = true
				all = append(all, objectOf(tree))
			}
		}
	}
	return all
}

// compare asks both about the objects. Where gator refuses them together it
// asks about halves: one object that gator can't evaluate ends its run.
func (g *gatorSample) compare(t *testing.T, gator string, objects []*render.Object) (same int, differences []string) {
	theirs, refused := g.askTest(t, gator, objects)
	if refused != "" && len(objects) > 1 {
		half := len(objects) / 2
		same, differences = g.compare(t, gator, objects[:half])
		n, more := g.compare(t, gator, objects[half:])
		return same + n, append(differences, more...)
	}
	ours, undecided := g.evaluate(t, objects)
	for _, o := range objects {
		key := toJSON(o.Object)
		switch a, b := ours[key], theirs[key]; {
		case refused != "":
			if len(undecided[key]) == 0 {
				differences = append(differences, fmt.Sprintf("gator refuses %s: %s; here %q", key, refused, a))
				continue
			}
		case len(undecided[key]) > 0:
			differences = append(differences, fmt.Sprintf("undecided here: %s of %s; of gator %q", undecided[key], key, b))
			continue
		case !slices.Equal(a, b):
			differences = append(differences, fmt.Sprintf("%s:\n  here  %q\n  gator %q", key, a, b))
			continue
		}
		same++
	}
	return same, differences
}

// askTest returns gator's violations of each object, in order.
func (g *gatorSample) askTest(t *testing.T, gator string, objects []*render.Object) (said map[string][]string, refused string) {
	t.Helper()
	var b strings.Builder
	for _, o := range slices.Concat([]*render.Object{g.template, g.constraint}, g.expansions, g.inventory, objects) {
		fmt.Fprintf(&b, "---\n%s\n", toJSON(o.Object))
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	rendertest.WriteFile(t, file, b.String())
	out, errOut := runProgram(t, "", gator, "test", "-f", file, "-o", "json")
	var results []struct {
		Msg               string
		EnforcementAction string
		ScopedActions     []string
		ViolatingObject   map[string]any
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	d.UseNumber()
	if err := d.Decode(&results); err != nil {
		return nil, string(errOut)
	}
	said = make(map[string][]string)
	for _, r := range results {
		key := toJSON(r.ViolatingObject)
		actions := r.ScopedActions
		if len(actions) == 0 {
			actions = []string{r.EnforcementAction}
		}
		said[key] = append(said[key], actionOf(actions)+": "+r.Msg)
	}
	for _, texts := range said {
		slices.Sort(texts)
	}
	return said, ""
}

// actionOf is the strongest of actions, in this project's words.
func actionOf(actions []string) string {
	switch {
	case slices.Contains(actions, "deny"):
		return string(policy.Deny)
	case slices.Contains(actions, "warn"):
		return string(policy.Warn)
	}
	return string(policy.Audit)
}

// evaluate returns the engine's violations of each object, in order, and why it
// could not tell.
func (g *gatorSample) evaluate(t *testing.T, objects []*render.Object) (said, undecided map[string][]string) {
	t.Helper()
	engine, err := gatekeeper.New(append([]*render.Object{g.template, g.constraint}, g.expansions...), gatekeeper.Options{
		EnforcementPoint: gatekeeper.PointGator, Written: true,
	})
	for _, e := range render.Errors(err) {
		if !e.Warning {
			t.Fatalf("%s: %v", g.name, e)
		}
	}
	all := lastOfEach(slices.Concat([]*render.Object{g.template, g.constraint}, g.expansions, g.inventory, objects))
	engine = engine.With(policy.NewCluster(all...))
	said, undecided = make(map[string][]string), make(map[string][]string)
	for _, o := range objects {
		key := toJSON(o.Object)
		responses, err := engine.Review(context.Background(), gatekeeper.Review{Object: o})
		if err != nil {
			undecided[key] = append(undecided[key], err.Error())
		}
		for i := range responses {
			switch r := suites.GatorResult(&responses[i]); r.Outcome {
			case policy.Fail:
				said[key] = append(said[key], string(r.Action)+": "+r.Message)
			case policy.Error, policy.Unknown:
				undecided[key] = append(undecided[key], r.Message)
			}
		}
		slices.Sort(said[key])
	}
	return said, undecided
}

// withoutNamespaces is a constraint that is about objects of every namespace:
// gator test has a namespace without a name for what is in none, and goes by
// that. gator verify and Gatekeeper don't, and TestGatorGenerated holds that.
func withoutNamespaces(o *render.Object) *render.Object {
	tree := runtime.DeepCopyJSON(o.Object)
	for _, field := range []string{"namespaces", "excludedNamespaces", "namespaceSelector", "scope"} {
		unstructured.RemoveNestedField(tree, "spec", "match", field)
	}
	return objectOf(tree)
}

// lastOfEach keeps the last of the objects of one identity, as gator does.
func lastOfEach(objects []*render.Object) []*render.Object {
	last := make(map[render.Key]*render.Object)
	order := make(map[render.Key]int)
	for i, o := range objects {
		last[o.Key()] = o
		if _, ok := order[o.Key()]; !ok {
			order[o.Key()] = i
		}
	}
	keys := slices.SortedFunc(maps.Keys(last), func(a, b render.Key) int { return order[a] - order[b] })
	all := make([]*render.Object, len(keys))
	for i, k := range keys {
		all[i] = last[k]
	}
	return all
}
