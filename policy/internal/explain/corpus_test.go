package explain

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const corpora = "../../../../shared/corpora"

func corpus(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(corpora, name)
	rendertest.SkipWithout(t, dir)
	return dir
}

// TestEvaluation holds our evaluation of CEL's and Kubernetes' own conformance
// expressions against CEL's.
func TestEvaluation(t *testing.T) {
	t.Parallel()
	dir := corpus(t, "cel-expr")
	compared := 0
	for _, file := range []string{"cel-spec.jsonl", "k8s-cel.jsonl", "k8s-cel-cost.jsonl"} {
		for _, row := range rendertest.Rows[struct{ Expr string }](t, filepath.Join(dir, file)) {
			expr := row.Expr
			ast, issues := testEnv().Compile(expr)
			if issues.Err() != nil {
				continue
			}
			sameAsCEL(t, expr, ast, map[string]any{"object": nil})
			compared++
		}
	}
	t.Logf("%d expressions compared", compared)
	if compared < 500 {
		t.Error("too few")
	}
}

func sameAsCEL(t *testing.T, expr string, ast *cel.Ast, roots map[string]any) {
	t.Helper()
	want, err := evaluateAST(ast, roots, nil)
	if err != nil {
		return // does not plan
	}
	got := ours(t, ast, roots, nil)
	if types.IsError(want) || types.IsError(got) {
		if types.IsError(want) != types.IsError(got) {
			t.Errorf("%s: %v, CEL says %v", expr, got, want)
		}
		return
	}
	if !alike(got, want) {
		t.Errorf("%s: %v, CEL says %v", expr, got, want)
	}
}

func alike(got, want ref.Val) bool {
	if d, ok := want.(types.Double); ok && d != d {
		return types.IsError(got) == types.IsError(want)
	}
	if o, ok := want.(*types.Optional); ok && o.HasValue() {
		p, ok := got.(*types.Optional)
		return ok && p.HasValue() && alike(p.GetValue(), o.GetValue())
	}
	return got.Type().TypeName() == want.Type().TypeName() && (got.Equal(want) == types.True || want.Equal(want) != types.True)
}

func ours(t testing.TB, ast *cel.Ast, roots map[string]any, variables []Variable) ref.Val {
	t.Helper()
	e, err := New(testEnv(), ast, variables)
	rendertest.OK(t, err)
	return e.evaluate(t, roots)
}

func (e *Explainer) evaluate(t testing.TB, roots map[string]any) ref.Val {
	t.Helper()
	r, err := e.start(t.Context(), Input{Roots: roots, Want: true})
	rendertest.OK(t, err)
	defer e.release(r.machine)
	top := r.eval(e.programs[0].top, new(frame))
	r.explain(top)
	return top.val
}

// A corpusCase is a folder of policies and of objects that they evaluate.
type corpusCase struct {
	dir     string
	exprs   []corpusExpr
	objects []map[string]any
	params  any
}

type corpusExpr struct {
	text      string
	ast       *cel.Ast
	variables []Variable
}

func documents(t testing.TB, file string) []map[string]any {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	var docs []map[string]any
	reader := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var doc map[string]any
		if err := reader.Decode(&doc); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			return docs
		}
		if doc != nil {
			docs = append(docs, integers(doc).(map[string]any))
		}
	}
}

func loadCase(t testing.TB, dir string) *corpusCase {
	c := &corpusCase{dir: dir}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		for _, doc := range documents(t, path) {
			switch {
			case strings.Contains(path, "/policies/"):
				c.policy(doc)
			case strings.Contains(path, "/params/"):
				c.params = doc
			case strings.Contains(path, "/resources/"):
				c.objects = append(c.objects, doc)
			}
		}
		return nil
	})
	return c
}

// policy takes the expressions out of any kind of policy: lists of maps that
// have an expression, in the places where the kinds keep them.
func (c *corpusCase) policy(doc map[string]any) {
	spec, _ := doc["spec"].(map[string]any)
	c.block(spec, "validations")
	rules, _, _ := unstructured.NestedSlice(doc, "spec", "rules")
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		block, _, _ := unstructured.NestedMap(rule, "validate", "cel")
		c.block(block, "expressions")
	}
}

func (c *corpusCase) block(block map[string]any, key string) {
	var variables []Variable
	for _, v := range items(block["variables"]) {
		name, _ := v["name"].(string)
		text, _ := v["expression"].(string)
		if ast, issues := testEnv().Compile(text); issues.Err() == nil {
			variables = append(variables, Variable{name, ast})
		}
	}
	for _, v := range items(block[key]) {
		text, _ := v["expression"].(string)
		if ast, issues := testEnv().Compile(text); issues.Err() == nil {
			c.exprs = append(c.exprs, corpusExpr{text, ast, variables})
		}
	}
}

func items(list any) []map[string]any {
	var maps []map[string]any
	l, _ := list.([]any)
	for _, v := range l {
		if m, ok := v.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}

func (c *corpusCase) roots(object map[string]any) map[string]any {
	f := newFixture()
	f.roots["object"], f.roots["params"] = object, c.params
	f.roots["request"] = map[string]any{"operation": "CREATE", "namespace": "default"}
	f.roots["namespaceObject"] = map[string]any{"metadata": map[string]any{"name": "default"}}
	return f.roots
}

// A tally counts what became of failures when their culprits were changed.
type tally struct {
	failures, explained, fixed, moved  int
	culprits, telling                  int
	errors, errorsExplained, disagreed int
}

// TestCorpus explains every failure of published policies on their objects:
// our verdict is CEL's, and changing what is blamed changes the verdict or at
// least what is blamed next.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kubescape-vap", "kyverno-policies", "kaptest"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs, err := os.ReadDir(corpus(t, name))
			rendertest.OK(t, err)
			var sum tally
			for _, d := range dirs {
				c := loadCase(t, filepath.Join(corpora, name, d.Name()))
				for _, x := range c.exprs {
					for _, o := range c.objects {
						sum.dispatch(t, c, x, o)
					}
				}
			}
			sum.report(t)
		})
	}
}

func (t *tally) report(tb *testing.T) {
	tb.Helper()
	tb.Logf("%d failures, %d explained; changing the culprits fixes %d and moves %d; %d of %d culprits tell on their own; %d errors, %d explained",
		t.failures, t.explained, t.fixed, t.moved, t.telling, t.culprits, t.errors, t.errorsExplained)
	if t.failures == 0 || t.disagreed > 0 {
		tb.Errorf("%d failures, %d verdicts that are not CEL's", t.failures, t.disagreed)
	}
	if changed := t.fixed + t.moved; changed*100 < t.explained*95 {
		tb.Errorf("changing what is blamed changes only %d of %d", changed, t.explained)
	}
}

func (t *tally) dispatch(tb *testing.T, c *corpusCase, x corpusExpr, object map[string]any) {
	roots := c.roots(object)
	want, err := evaluateAST(x.ast, roots, x.variables)
	rendertest.OK(tb, err)
	if got := ours(tb, x.ast, roots, x.variables); types.IsError(got) != types.IsError(want) || !types.IsError(got) && got.Equal(want) != types.True {
		tb.Errorf("%s: %s: %v, CEL says %v", c.dir, x.text, got, want)
		t.disagreed++
		return
	}
	if want == types.True {
		return
	}
	e, err := New(testEnv(), x.ast, x.variables)
	rendertest.OK(tb, err)
	ex, err := e.Explain(tb.Context(), Input{Roots: roots, Want: true, Steps: 50})
	rendertest.OK(tb, err)
	if types.IsError(want) {
		t.errors++
		if len(ex.Culprits) > 0 {
			t.errorsExplained++
		} else {
			tb.Logf("%s: error not explained: %s %v", c.dir, x.text, want)
		}
		return
	}
	t.failures++
	if len(ex.Culprits) == 0 {
		tb.Logf("%s: not explained: %s", c.dir, x.text)
		return
	}
	t.explained++
	if ex.Summary == "" {
		tb.Errorf("%s: no summary: %s", c.dir, x.text)
	}
	p := perturbation{t: tb, e: e, roots: roots, before: ex}
	switch p.try(ex.Culprits) {
	case fixed:
		t.fixed++
	case moved:
		t.moved++
	default:
		tb.Logf("%s: changing %v does not tell: %s", c.dir, pointers(ex), x.text)
	}
	for _, k := range ex.Culprits {
		t.culprits++
		if p.try([]Culprit{k}) != unmoved {
			t.telling++
		} else {
			tb.Logf("NOTTELLING %v in %v: %s", k, pointers(ex), x.text)
		}
	}
}

func pointers(ex Explanation) []string {
	var ps []string
	for _, c := range ex.Culprits {
		ps = append(ps, c.Root+"#"+c.Pointer)
	}
	return ps
}
