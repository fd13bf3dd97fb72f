package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOracle holds our evaluation of rules against the API server's own
// validator, over objects that are changed at random: the same errors, the
// same budget left. It is not parallel, since others set the feature gates that the validator reads.
func TestOracle(t *testing.T) {
	compared, refused := 0, 0
	for name, c := range oracleCases(t) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 60 {
			object, old := c.object, c.old
			for range random.IntN(4) {
				object = mutate(random, object)
			}
			if random.IntN(2) == 0 {
				old = mutate(random, object)
			}
			got, cost := c.ours(t, object, old)
			want, wantCost := c.upstream(t, object, old)
			for range 300 { // it goes over maps in any order, and what it says depends on it
				if cmp.Equal(want, got) && cost == wantCost {
					break
				}
				again, againCost := c.upstream(t, object, old)
				if againCost != wantCost {
					cost = againCost
				}
				want, wantCost = again, againCost
			}
			if cost != wantCost {
				t.Errorf("%s: budget left %d, want %d", name, cost, wantCost)
			}
			if d := cmp.Diff(want, got); d != "" {
				data, _ := json.Marshal([]any{object, old})
				t.Fatalf("%s: %s\n-API server +ours:\n%s", name, data, d)
			}
			compared++
			if len(got) > 0 {
				refused++
			}
		}
	}
	t.Logf("%d objects, %d of them refused", compared, refused)
	if refused < compared/2 || compared < 300 {
		t.Error("too few")
	}
}

type oracleCase struct {
	structural  *schema.Structural
	validator   *schemacel.Validator
	rules       []*rule
	node        *node
	object, old any
}

func newOracleCase(s *schema.Structural, root bool, object, old any) *oracleCase {
	c := &oracleCase{structural: s, object: object, old: old}
	if c.validator = schemacel.NewValidator(s, root, celconfig.PerCallLimit); c.validator == nil {
		return nil
	}
	k := &compiler{env: storedEnv}
	c.node = k.node(s, s, root, model.SchemaDeclType(s, root), "")
	c.rules = k.rules
	return c
}

// oracleCases are the objects of the goldens, and those of the corpus.
func oracleCases(t *testing.T) map[string]*oracleCase {
	t.Helper()
	cases := map[string]*oracleCase{}
	for _, file := range []string{"testdata/cel.txtar", "testdata/update.txtar"} {
		a := rendertest.ParseArchive(t, file)
		var trees []*render.Object
		for _, f := range a.Files {
			if strings.HasSuffix(f.Name, ".yaml") {
				objects := rendertest.Parse(t, f.Name, f.Data)
				trees = append(trees, objects...)
			}
		}
		compiled, err := newDefinition(trees[0], cel.Newest()).versions[0].compile()
		rendertest.OK(t, err)
		for i, o := range trees[1:] {
			cases[fmt.Sprint(filepath.Base(file), i)] = newOracleCase(compiled.structural, true, o.Object, nil)
		}
	}
	data, _ := os.ReadFile("../../../shared/corpora/crd-cel/crd-cel.jsonl")
	for line := range bytes.Lines(data) {
		var x row
		rendertest.OK(t, json.Unmarshal(line, &x))
		if x.Kind == "compile" || x.Kind == "fieldPath" {
			continue
		}
		s := x.structural(t)
		for _, r := range x.Rules {
			s.XValidations = append(s.XValidations, v1.ValidationRule{Rule: r.Rule})
		}
		if c := newOracleCase(s, x.IsRoot, x.value(t, x.Object), x.value(t, x.OldObject)); c != nil {
			cases[x.ID] = c
		}
	}
	return cases
}

func (o *oracleCase) ours(t *testing.T, object, old any) (errs []string, left int64) {
	w := &walk{
		ctx: t.Context(), budget: celconfig.RuntimeCELCostBudget, ratchets: true,
		held: make([]bool, len(o.rules)), broken: make([]bool, len(o.rules)),
	}
	w.report = func(v violation) {
		if !v.ratchet {
			errs = append(errs, v.err.Error())
		}
	}
	w.node(o.node, nil, object, old, o.correlation(object, old))
	slices.Sort(errs)
	if w.stopped {
		w.budget = -1
	}
	return errs, w.budget
}

func (o *oracleCase) correlation(object, old any) correlation {
	if old == nil {
		return correlation{}
	}
	return correlation{current: common.NewCorrelatedObject(object, old, &model.Structural{Structural: o.structural})}
}

func (o *oracleCase) upstream(t *testing.T, object, old any) (errs []string, left int64) {
	var options []schemacel.Option
	if old != nil {
		options = append(options, schemacel.WithRatcheting(o.correlation(object, old).current))
	}
	found, left := o.validator.Validate(t.Context(), nil, o.structural, object, old, celconfig.RuntimeCELCostBudget, options...)
	for _, e := range found {
		errs = append(errs, selfType.ReplaceAllString(e.Error(), "selfType"))
	}
	slices.Sort(errs)
	return errs, left
}

// mutate changes one value of a tree.
func mutate(random *rand.Rand, tree any) any {
	tree = runtime.DeepCopyJSONValue(tree)
	at := random.IntN(size(tree))
	return replace(random, tree, &at)
}

func size(tree any) int {
	n := 1
	switch v := tree.(type) {
	case map[string]any:
		for _, child := range v {
			n += size(child)
		}
	case []any:
		for _, child := range v {
			n += size(child)
		}
	}
	return n
}

// replace goes down to the value that is the at-th in order.
func replace(random *rand.Rand, tree any, at *int) any {
	if *at--; *at < 0 {
		return changed(random, tree)
	}
	switch v := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if v[key] = replace(random, v[key], at); *at < 0 {
				return v
			}
		}
	case []any:
		for i := range v {
			if v[i] = replace(random, v[i], at); *at < 0 {
				return v
			}
		}
	}
	return tree
}

// changed keeps the type mostly: what is of another one does not get as far as
// the rules.
func changed(random *rand.Rand, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if random.IntN(len(v)) == 0 {
				delete(v, key)
				return v
			}
		}
	case []any:
		if len(v) > 0 && random.IntN(2) == 0 {
			return v[1:]
		}
		if len(v) > 0 {
			return append(v, v[0])
		}
	case int64:
		return v + random.Int64N(100) - 50
	case float64:
		return v * 2
	case bool:
		return !v
	case string:
		return v + string("aZ1.-"[random.IntN(5)])
	}
	return value
}
