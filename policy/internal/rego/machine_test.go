package rego

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/test/cases"
	"github.com/open-policy-agent/opa/v1/test/cases/testdata"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/preadmit/preadmit/render/rendertest"
)

// besideOPA holds that a query's plan gives the answer of OPA's evaluator, and the
// same causes. It says whether the plan was evaluated and traced.
func besideOPA(t testing.TB, q *Query, in Question) (planned, traced bool) {
	t.Helper()
	got, planned := q.evaluate(t.Context(), &in)
	b, want, swallowed, err := q.once(t.Context(), in, true)
	if b.err != nil {
		return false, false
	}
	if planned && (err != nil || len(swallowed) > 0 || len(b.unknown) > 0 || b.opened || !sameValue(got, want)) {
		t.Errorf("%v: planned %v, OPA has %v; %v %v %v", q.ref, got, want, err, swallowed, b.unknown)
	}
	if err != nil || len(in.Open) > 0 {
		return planned, false
	}
	var values []ast.Value
	if want != nil {
		each(want, func(e *ast.Term) { values = append(values, e.Value) })
	}
	return planned, tracesLikeOPA(t, q, in, values)
}

func tracesLikeOPA(t testing.TB, q *Query, in Question, values []ast.Value) bool {
	t.Helper()
	o := in.origins()
	in.Input = o.input
	ours, theirs := q.tracer(o, values), q.tracer(o, values)
	if !q.trace(t.Context(), &in, ours) {
		return false
	}
	if _, _, err := q.run(t.Context(), in, newBound(t.Context(), q.program.time), setup{cache: noCache{}, tracer: theirs}); err != nil {
		return false
	}
	if !reflect.DeepEqual(ours.found, theirs.found) || !reflect.DeepEqual(ours.from, theirs.from) {
		t.Errorf("%v: for %v the plan read\n%v\nOPA\n%v", q.ref, values, ours.found, theirs.found)
	}
	return true
}

func sameValue(a, b ast.Value) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Compare(b) == 0
}

// TestPlansConform asks the questions of OPA's own conformance tests.
func TestPlansConform(t *testing.T) {
	t.Parallel()
	asked, planned, traced := 0, 0, 0
	for _, c := range conformanceCases(t) {
		q, in := conformanceCase(c)
		if q == nil {
			continue
		}
		p, tr := besideOPA(t, q, in)
		if t.Failed() {
			t.Fatalf("%s\n%s", c.Note, strings.Join(c.Modules, "\n"))
		}
		asked, planned, traced = asked+1, planned+count(p), traced+count(tr)
	}
	t.Logf("%d questions: %d planned, %d traced", asked, planned, traced)
	if planned*2 < asked {
		t.Errorf("of %d questions %d were planned", asked, planned)
	}
}

func conformanceCases(t *testing.T) []cases.TestCase {
	var all []cases.TestCase
	err := fs.WalkDir(testdata.V1, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := testdata.V1.ReadFile(path)
		var set cases.Set
		if err == nil {
			err = util.Unmarshal(text, &set)
		}
		all = append(all, set.Cases...)
		return err
	})
	rendertest.OK(t, err)
	return all
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// conformanceCase is the question of a case that asks for one rule; nil for others.
func conformanceCase(c cases.TestCase) (*Query, Question) {
	var in Question
	ref, ok := strings.CutSuffix(c.Query, " = x")
	if !ok || !strings.HasPrefix(ref, "data.") {
		return nil, in
	}
	modules := map[string]*ast.Module{}
	for i, text := range c.Modules {
		name := string(rune('a'+i)) + ".rego"
		m, err := Parse(Source{Name: name, Text: text})
		if err != nil {
			return nil, in
		}
		modules[name] = m
	}
	p, err := Compile(modules, Options{})
	if err != nil {
		return nil, in
	}
	path, err := ast.ParseRef(ref)
	if err != nil || len(p.Rules(path)) == 0 {
		return nil, in
	}
	q, err := p.Prepare(path)
	if err != nil {
		return nil, in
	}
	if c.Input != nil {
		in.Input = Value(*c.Input)
	}
	if c.InputTerm != nil {
		in.Input = ast.MustParseTerm(*c.InputTerm)
	}
	if c.Data != nil {
		in.Data = NewData(Value(*c.Data).Value.(ast.Object))
	}
	return q, in
}

// TestPlansOfLibrary asks the published policies of Gatekeeper's library.
func TestPlansOfLibrary(t *testing.T) {
	t.Parallel()
	files := rendertest.GlobOrSkip(t, corpora+"/gatekeeper*/*/case.json")
	asked, planned, traced := 0, 0, 0
	for _, file := range files {
		eachLibraryQuestion(t, filepath.Dir(file), func(q *Query, in Question) {
			p, tr := besideOPA(t, q, in)
			asked, planned, traced = asked+1, planned+count(p), traced+count(tr)
			in.Open = []Open{{Path: []string{"review", "userInfo"}, Needs: "user"}, {Path: []string{"review", "namespaceObject"}, Needs: "namespace"}}
			besideOPA(t, q, in)
		})
	}
	t.Logf("%d questions: %d planned, %d traced", asked, planned, traced)
	if planned*10 < asked*8 || traced*10 < asked*8 {
		t.Errorf("of %d questions %d were planned and %d traced", asked, planned, traced)
	}
}

// eachLibraryQuestion gives the questions of a case.
func eachLibraryQuestion(t *testing.T, dir string, ask func(*Query, Question)) {
	queries := map[string]*Query{}
	var constraints []map[string]any
	for _, d := range documents(t, dir+"/policies") {
		if d["kind"] != "ConstraintTemplate" {
			constraints = append(constraints, d)
		} else if kind, q := libraryTemplate(t, d); q != nil {
			queries[kind] = q
		}
	}
	data := libraryData(documents(t, dir+"/inventory"))
	for _, c := range constraints {
		for _, o := range documents(t, dir+"/resources") {
			if q := queries[c["kind"].(string)]; q != nil && o["kind"] != "AdmissionReview" {
				ask(q, libraryQuestion(data, c, o))
			}
		}
	}
}
