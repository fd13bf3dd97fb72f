package policytest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/sample"
	"github.com/preadmit/preadmit/render"
)

// A gatorDraft writes a suite of gator verify.
type gatorDraft struct {
	setup     GatorSetup
	engine    GatorPolicy
	inventory []*render.Object // of the repository, if the template reads it
	beside    GatorPolicy      // engine with the inventory
}

func (d *draft) gatorDrafter(e Engines) (drafter, error) {
	w := &gatorDraft{setup: GatorSetup{Constraint: d.object, Kinds: asWritten{d.kinds}}}
	for _, t := range d.o.Policies {
		kind, _ := render.Lookup(t.Object, "/spec/crd/spec/names/kind")
		if t.GetKind() == "ConstraintTemplate" && kind == any(d.object.GetKind()) {
			w.setup.Template = t
		}
	}
	if w.setup.Template == nil {
		return nil, fmt.Errorf("there is no ConstraintTemplate of kind %s", d.object.GetKind())
	}
	var err error
	w.engine, err = e.Gator(&w.setup)
	if failures := render.Failures(err); len(failures) > 0 {
		return nil, fmt.Errorf("does not compile: %w", failures[0].Err)
	}
	if w.engine == nil {
		return nil, errors.New("does not compile")
	}
	w.inventory = d.inventory(w.setup.Template)
	w.beside = w.among(w.inventory)
	return w, nil
}

// maxInventory limits the objects that a template may compare with.
const maxInventory = 500

// inventory returns the objects that a template may read from its inventory: those
// of kinds that its code names, or any if it names none of theirs.
func (d *draft) inventory(template *render.Object) []*render.Object {
	targets, _ := render.Lookup(template.Object, "/spec/targets")
	code := fmt.Sprint(targets)
	if !strings.Contains(code, "data.inventory") {
		return nil
	}
	var objects []*render.Object
	for _, o := range slices.Concat(d.o.Others, d.o.Objects) {
		if !isReview(o) {
			objects = append(objects, sample.Prepare(o, d.kinds))
		}
	}
	objects = lastOfEach(objects)
	named := slices.DeleteFunc(slices.Clone(objects), func(o *render.Object) bool { return !strings.Contains(code, o.GetKind()) })
	if len(named) > 0 {
		objects = named
	}
	return objects[:min(len(objects), maxInventory)]
}

func (g *gatorDraft) among(inventory []*render.Object) GatorPolicy {
	if len(inventory) == 0 {
		return g.engine
	}
	return g.engine.Among(inventory)
}

// needed returns the objects of the inventory that a sample needs for its status and
// branches: none, one, or several that are all needed.
func (g *gatorDraft) needed(ctx context.Context, d *draft, x *sample.Sample) []*render.Object {
	var taken []*atomic.Int64
	for _, guard := range x.Reaches {
		if guard.Rule == "" && guard.Status == "" {
			taken = append(taken, d.coverage.Declare(guard.Branch))
		}
	}
	has := func(inventory []*render.Object) bool {
		before := make([]int64, len(taken))
		for i, hits := range taken {
			before[i] = hits.Load()
		}
		results, _ := evaluated(ctx, g.among(inventory), g.setup.Constraint.GetKind(), x.Object)
		for i, hits := range taken {
			if hits.Load() == before[i] {
				return false
			}
		}
		return len(results) > 0 && results[0].Status == x.Results[0].Status
	}
	if len(g.inventory) == 0 || has(nil) {
		return nil
	}
	for _, x := range g.inventory {
		if has([]*render.Object{x}) {
			return []*render.Object{x}
		}
	}
	kept := slices.Clone(g.inventory)
	for i := len(kept) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(kept), i, i+1); has(fewer) {
			kept = fewer
		}
	}
	return kept
}

func (g *gatorDraft) texts() []any {
	parameters, _ := render.Lookup(g.setup.Constraint.Object, "/spec/parameters")
	targets, _ := render.Lookup(g.setup.Template.Object, "/spec/targets")
	return []any{parameters, targets}
}

func (g *gatorDraft) wants() []sample.Goal { return statuses(g.setup.Constraint.GetKind(), true) }

// evaluate implements drafter.
func (g *gatorDraft) evaluate(ctx context.Context, o *render.Object) ([]sample.Result, string) {
	return evaluated(ctx, g.beside, g.setup.Constraint.GetKind(), o)
}

func evaluated(ctx context.Context, engine GatorPolicy, rule string, o *render.Object) ([]sample.Result, string) {
	results, err := engine.Evaluate(ctx, o)
	switch {
	case err != nil:
		return nil, err.Error()
	case len(results) == 0:
		return nil, ""
	}
	x := sample.Result{Rule: rule, Status: "pass"}
	var messages []string
	for i := range results {
		switch r := &results[i]; r.Outcome {
		case policy.Fail:
			x.Status = "fail"
			x.Fields = append(x.Fields, r.Fields...)
			messages = append(messages, r.Message)
		case policy.Error, policy.Unknown:
			return nil, r.Message
		}
	}
	if len(messages) == 1 {
		x.Message = messages[0]
	}
	return []sample.Result{x}, ""
}

// The keys of a suite in the order in which people write them.
type (
	gatorSuiteText struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Tests      []gatorTestText   `yaml:"tests"`
	}
	gatorTestText struct {
		Name       string          `yaml:"name"`
		Template   string          `yaml:"template"`
		Constraint string          `yaml:"constraint"`
		Cases      []gatorCaseText `yaml:"cases"`
	}
	gatorCaseText struct {
		Name       string               `yaml:"name"`
		Object     string               `yaml:"object"`
		Inventory  []string             `yaml:"inventory,omitempty"`
		Assertions []gatorAssertionText `yaml:"assertions"`
	}
	gatorAssertionText struct {
		Violations string `yaml:"violations"`
		Message    string `yaml:"message,omitempty"`
	}
)

// files implements drafter. Each object is in its own file, as gator expects.
func (g *gatorDraft) files(d *draft, samples []*sample.Sample) []File {
	files := []File{{}}
	test := gatorTestText{
		Name:       d.object.GetName(),
		Template:   d.reference(g.setup.Template, begins(g.setup.Template), &files, "template.yaml"),
		Constraint: d.reference(d.object, begins(d.object), &files, "constraint.yaml"),
	}
	taken := make(map[string]bool)
	for _, x := range samples {
		r := x.Results[0]
		outcome := map[string]string{"pass": "allowed", "fail": "denied"}[r.Status]
		called := unusedName(strings.ToLower(x.Object.GetKind())+"-"+x.Object.GetName()+"-"+outcome, taken)
		files = append(files, File{path.Join(d.dir, called+".yaml"), d.sampleDocument(x)})
		a := gatorAssertionText{Violations: "no"}
		if r.Status == "fail" {
			a.Violations = "yes"
			if text := sample.OneLine(r.Message); text == r.Message && !strings.Contains(text, x.Object.GetName()) {
				a.Message = regexp.QuoteMeta(text)
			}
		}
		test.Cases = append(test.Cases, gatorCaseText{called, called + ".yaml", g.inventoryFiles(d, x, &files), []gatorAssertionText{a}})
	}
	slices.SortStableFunc(test.Cases, func(a, b gatorCaseText) int {
		return cmp.Compare(a.Assertions[0].Violations, b.Assertions[0].Violations)
	})
	files[0] = File{path.Join(d.dir, "suite.yaml"), encoded(gatorSuiteText{
		"test.gatekeeper.sh/v1alpha1", "Suite", map[string]string{"name": path.Base(d.dir)}, []gatorTestText{test},
	})}
	return files
}

// inventoryFiles returns the files of the inventory that a case needs, and adds those
// that are not there yet.
func (g *gatorDraft) inventoryFiles(d *draft, x *sample.Sample, files *[]File) []string {
	var names []string
	for _, o := range g.needed(context.Background(), d, x) {
		gvk := o.GroupVersionKind()
		called := strings.ToLower(strings.Trim(strings.Join([]string{"inventory", gvk.Kind, gvk.Group, o.GetNamespace(), o.GetName()}, "-"), "-")) + ".yaml"
		called = strings.NewReplacer("/", "-", ":", "-", "--", "-").Replace(called)
		file := path.Join(d.dir, called)
		if !slices.ContainsFunc(*files, func(f File) bool { return f.Name == file }) {
			*files = append(*files, File{file, d.document("In the cluster beside the object of a case.", o.Object)})
		}
		names = append(names, called)
	}
	return names
}

// begins reports whether an object is the first of a file: gator reads that one.
func begins(o *render.Object) func([]*render.Object) bool {
	return func(all []*render.Object) bool {
		return all[0].GroupVersionKind() == o.GroupVersionKind() && all[0].GetName() == o.GetName()
	}
}

// encoded returns a suite below a comment, with its keys in the order of the type's fields.
func encoded(suite any) []byte {
	b := bytes.NewBufferString("# " + suiteHead + "\n")
	enc := yaml.NewEncoder(b)
	enc.SetIndent(2)
	if err := enc.Encode(suite); err != nil {
		fmt.Fprintf(b, "# %s\n", sample.OneLine(err.Error()))
	}
	return b.Bytes()
}
