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

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/sample"
	"github.com/preadmit/preadmit/render"
)

// A gatorDraft writes a suite of gator verify.
type gatorDraft struct {
	setup  GatorSetup
	engine GatorPolicy
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
	return w, nil
}

func (w *gatorDraft) texts() []any {
	parameters, _ := render.Lookup(w.setup.Constraint.Object, "/spec/parameters")
	targets, _ := render.Lookup(w.setup.Template.Object, "/spec/targets")
	return []any{parameters, targets}
}

func (w *gatorDraft) wants() []sample.Goal { return statuses(w.setup.Constraint.GetKind(), true) }

// evaluate implements drafter.
func (w *gatorDraft) evaluate(ctx context.Context, o *render.Object) ([]sample.Result, string) {
	results, err := w.engine.Evaluate(ctx, o)
	switch {
	case err != nil:
		return nil, err.Error()
	case len(results) == 0:
		return nil, ""
	}
	x := sample.Result{Rule: w.setup.Constraint.GetKind(), Status: "pass"}
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
		Assertions []gatorAssertionText `yaml:"assertions"`
	}
	gatorAssertionText struct {
		Violations string `yaml:"violations"`
		Message    string `yaml:"message,omitempty"`
	}
)

// files implements drafter: gator reads an object a file.
func (w *gatorDraft) files(d *draft, samples []*sample.Sample) []File {
	files := []File{{}}
	test := gatorTestText{
		Name:       d.object.GetName(),
		Template:   d.reference(w.setup.Template, begins(w.setup.Template), &files, "template.yaml"),
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
		test.Cases = append(test.Cases, gatorCaseText{called, called + ".yaml", []gatorAssertionText{a}})
	}
	slices.SortStableFunc(test.Cases, func(a, b gatorCaseText) int {
		return cmp.Compare(a.Assertions[0].Violations, b.Assertions[0].Violations)
	})
	files[0] = File{path.Join(d.dir, "suite.yaml"), encoded(gatorSuiteText{
		"test.gatekeeper.sh/v1alpha1", "Suite", map[string]string{"name": path.Base(d.dir)}, []gatorTestText{test},
	})}
	return files
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
