package suites

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const shouldBe = "# SHOULD BE: "

// A plantedFault is a line of a policy that is wrong.
type plantedFault struct {
	file string
	line int // from 1
}

// planted returns the files of testdata/planted.txtar as they are and put right, and
// the faults in them.
func planted(t *testing.T) (wrong, right fstest.MapFS, faults []plantedFault) {
	t.Helper()
	data := rendertest.ReadFile(t, "testdata/planted.txtar")
	wrong, right = fstest.MapFS{}, fstest.MapFS{}
	for _, f := range txtar.Parse(data).Files {
		lines := strings.Split(string(f.Data), "\n")
		for i, line := range lines {
			if blanks, text, ok := strings.Cut(line, shouldBe); ok {
				lines[i+1] = blanks + text
				faults = append(faults, plantedFault{f.Name, i + 2})
			}
		}
		wrong[f.Name] = &fstest.MapFile{Data: f.Data}
		right[f.Name] = &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))}
	}
	return wrong, right, faults
}

// regoTests are the unit tests of the Rego modules among files.
func regoTests(files fstest.MapFS) *policytest.ModuleTests {
	m := &policytest.ModuleTests{}
	for name := range files {
		if path.Ext(name) == ".rego" {
			m.Files = append(m.Files, name)
		}
	}
	m.Run = func(ctx context.Context, file string, text []byte, coverage *policy.Coverage) ([]policytest.Suite, error) {
		var modules []rego.Module
		for _, name := range m.Files {
			module := rego.Module{File: name, Text: string(files[name].Data)}
			if name == file {
				module.Text = string(text)
			}
			modules = append(modules, module)
		}
		tests, err := rego.RunTests(ctx, modules, rego.Options{Coverage: coverage})
		s := policytest.Suite{File: "rego", Kind: "rego"}
		for _, x := range tests {
			s.Cases = append(s.Cases, policytest.Case{
				Policy: x.Package, Rule: x.Name, Want: "pass", Got: string(x.Outcome), OK: x.Outcome == policy.Pass, Line: x.Origin.Line, Reason: x.Message,
			})
		}
		if err != nil {
			s.Error = err.Error()
		}
		return []policytest.Suite{s}, nil
	}
	return m
}

// passing runs all tests and fails for each that does not pass.
func passing(t *testing.T, files fstest.MapFS, what string) {
	t.Helper()
	r, err := policytest.Run(t.Context(), policytest.Options{FS: files, Engines: Engines(Options{})}, ".")
	rendertest.OK(t, err)
	unit, err := regoTests(files).Run(t.Context(), "", nil, nil)
	rendertest.OK(t, err)
	r.Add(unit...)
	for _, s := range r.Suites {
		if s.Error != "" {
			t.Errorf("%s: %s: %s", what, s.File, s.Error)
		}
		for _, c := range s.Cases {
			if !c.OK || c.Vacuous {
				t.Errorf("%s: %s:%d: %s %s %s: want %s, got %s: %s", what, s.File, c.Line, c.Policy, c.Rule, c.Resource, c.Want, c.Got, c.Reason)
			}
		}
	}
}

// TestPlantedFaults holds that a mutant of each line that is wrong is not noticed by
// the tests, which pass with it as well as with the right line.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	wrong, right, faults := planted(t)
	passing(t, wrong, "as it is")
	passing(t, right, "put right")
	mutants, err := policytest.Mutate(t.Context(), policytest.MutateOptions{
		Options:    policytest.Options{FS: wrong},
		NewEngines: func(c *policy.Coverage) policytest.Engines { return Engines(Options{Coverage: c}) },
		Modules:    regoTests(wrong), Time: time.Hour, MutantTime: time.Minute,
	}, ".")
	rendertest.OK(t, err)
	unnoticed := func(f plantedFault) bool {
		for i := range mutants {
			m := &mutants[i]
			missed := m.Status == policy.MutantSurvived || m.Status == policy.MutantNotCovered
			if missed && m.Origin.File == f.file && m.Origin.Line <= f.line && f.line <= m.Origin.EndLine {
				return true
			}
		}
		return false
	}
	for _, f := range faults {
		if !unnoticed(f) {
			t.Errorf("%s:%d: no mutant of the line survives", f.file, f.line)
		}
	}
	if len(faults) < 50 {
		t.Errorf("%d faults only", len(faults))
	}
	t.Logf("%d faults, %d mutants", len(faults), len(mutants))
}

// TestMutantsLeaveOthersAlone holds that a mutant compiles no policy whose verdicts
// it can't change, and that a policy which changes objects is evaluated with those
// that see them.
func TestMutantsLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: %s}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [ConfigMap]}}]}\n    "
	suite := "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [a.yaml, b.yaml, m.yaml]\nresources: [r.yaml]\nresults:\n"
	for _, name := range []string{"a", "b"} {
		suite += "- {policy: " + name + ", rule: r, kind: ConfigMap, resources: [c], result: pass}\n"
	}
	file := func(name, rule string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.Replace(head, "%s", name, 1) + rule + "\n")}
	}
	files := fstest.MapFS{
		"kyverno-test.yaml": {Data: []byte(suite)},
		"r.yaml":            {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: '1', k: '2'}\n")},
		"a.yaml":            file("a", "validate: {pattern: {data: {x: '<3'}}}"),
		"b.yaml":            file("b", "validate: {pattern: {data: {z: '>4', k: '>1'}}}"),
		"m.yaml":            file("m", "preconditions: {all: [{key: '{{ request.object.data.x }}', operator: Equals, value: '1'}]}\n    mutate: {patchStrategicMerge: {data: {z: '5'}}}"),
	}
	var mu sync.Mutex
	compiled := map[string]int{}
	engines := func(c *policy.Coverage) policytest.Engines {
		e := Engines(Options{Coverage: c})
		made := e.Kyverno
		e.Kyverno = func(o *render.Object, s *policytest.KyvernoSetup) (policytest.KyvernoPolicy, error) {
			mu.Lock()
			compiled[o.GetName()]++
			mu.Unlock()
			return made(o, s)
		}
		return e
	}
	mutants, err := policytest.Mutate(t.Context(), policytest.MutateOptions{
		Options: policytest.Options{FS: files}, NewEngines: engines, Time: time.Minute, MutantTime: time.Minute,
	}, ".")
	rendertest.OK(t, err)
	tried := map[string]int{}
	for _, m := range mutants {
		if len(m.Tests) > 0 {
			tried[m.Policy]++
		}
	}
	all := tried["a"] + tried["b"] + tried["m"] + 1
	if want := map[string]int{"a": all - tried["b"], "b": all - tried["a"], "m": all}; tried["a"] == 0 || tried["m"] == 0 || !maps.Equal(compiled, want) {
		t.Errorf("compiled %v, want %v, with mutants %v", compiled, want, tried)
	}
	if !slices.ContainsFunc(mutants, func(m policy.Mutant) bool { return m.Policy == "m" && m.Status == policy.MutantKilled }) {
		t.Error("no result about b notices that m does not add z")
	}
}
