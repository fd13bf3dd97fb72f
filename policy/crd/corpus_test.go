package crd

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A row is a case of the API server's own tests of CEL in CRDs.
type row struct {
	ID, Kind          string
	Schema            v1.JSONSchemaProps
	Object, OldObject json.RawMessage
	IsRoot            bool
	Valid             bool
	Errors            []string
	RatchetedErrors   []string
	CostBudget        *int64
	RemainingBudget   *int64
	ExpectedCost      *int64
	ExpectSkipped     bool
	FieldPath         string
	ResolvedPath      string
	FieldErrors       []struct{ Type, Field string }
	Rules             []struct {
		Rule  string
		Valid bool
		Error string
	}
	RuleResults []struct {
		Valid, TransitionRule bool
		Error                 string
	}
}

// TestCorpus decides each published case as the API server does.
func TestCorpus(t *testing.T) {
	t.Parallel()
	score := map[string][2]int{}
	for _, x := range rendertest.Rows[row](t, "../../../shared/corpora/crd-cel/crd-cel.jsonl") {
		ok, all := x.run(t)
		s := score[x.Kind]
		score[x.Kind] = [2]int{s[0] + ok, s[1] + all}
	}
	for kind, s := range score {
		t.Logf("table CRD %s: %d / %d", kind, s[0], s[1])
	}
	if len(score) != 5 {
		t.Errorf("kinds: %v", score)
	}
}

func (r *row) run(t *testing.T) (ok, all int) {
	count := func(good bool) {
		if all++; good {
			ok++
		}
	}
	s := r.structural(t)
	switch r.Kind {
	case "compile":
		k := &compiler{env: func(d cel.Declarations) (*celgo.Env, error) { return cel.Newest().Env(d) }, check: true}
		k.node(s, s, false, model.SchemaDeclType(s, false), "")
		for i, want := range r.RuleResults {
			count(r.compiles(t, k.rules[i], want.Valid, want.TransitionRule, want.Error))
		}
	case "rules":
		for _, rule := range r.Rules {
			one := *s
			one.XValidations = v1.ValidationRules{{Rule: rule.Rule}}
			var want []string
			if !rule.Valid {
				want = []string{rule.Error}
			}
			count(r.judges(t, &one, r.IsRoot || !rule.Valid, want, nil))
		}
	case "fieldPath":
		count(r.pathIs(t, s))
	default:
		count(r.judges(t, s, r.IsRoot, r.Errors, r.RatchetedErrors))
	}
	return ok, all
}

func (r *row) structural(t *testing.T) *schema.Structural {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&r.Schema, &internal, nil); err != nil {
		t.Fatal(r.ID, err)
	}
	s, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatal(r.ID, err)
	}
	return s
}

func (r *row) compiles(t *testing.T, compiled *rule, valid, transition bool, text string) bool {
	t.Helper()
	fault := cmp.Or(compiled.fault, compiled.messageBad)
	if (fault == "") != valid || compiled.transition != transition && valid || !strings.Contains(fault, text) {
		t.Errorf("%s: %s: %q, transition %v", r.ID, compiled.Rule, fault, compiled.transition)
		return false
	}
	return true
}

func (r *row) pathIs(t *testing.T, s *schema.Structural) bool {
	t.Helper()
	path, _, err := schemacel.ValidFieldPath(r.FieldPath, s)
	if (err == nil) != r.Valid {
		t.Errorf("%s: %v", r.ID, err)
		return false
	}
	if err != nil {
		return true
	}
	var joined strings.Builder
	for _, key := range fieldKeys(r.FieldPath) {
		joined.WriteString("." + key.(string))
	}
	if got, want := joined.String(), strings.NewReplacer("[", ".", "]", "").Replace(path.String()); strings.ReplaceAll(got, "[", ".") != "."+want {
		t.Errorf("%s: %s, want %s", r.ID, got, want)
		return false
	}
	return true
}

// evaluates runs the rules and compares errors and costs.
func (r *row) judges(t *testing.T, s *schema.Structural, root bool, want, wantRatcheted []string) bool {
	t.Helper()
	k := &compiler{env: storedEnv}
	n := k.node(s, s, root, model.SchemaDeclType(s, root), "")
	var errs, ratcheted []string
	w := &walk{
		ctx: t.Context(), budget: math.MaxInt64, ratchets: true,
		held: make([]bool, len(k.rules)), broken: make([]bool, len(k.rules)),
		report: func(v violation) {
			v.blame(t.Context())
			if v.ratchet {
				ratcheted = append(ratcheted, v.err.Error())
			} else {
				errs = append(errs, v.err.Error())
			}
		},
	}
	if r.CostBudget != nil {
		w.budget = *r.CostBudget
	}
	object, old := r.value(t, r.Object), r.value(t, r.OldObject)
	c := correlation{}
	if r.Kind == "ratcheting" {
		c.current = common.NewCorrelatedObject(object, old, &model.Structural{Structural: s})
	}
	before := w.budget
	w.node(n, nil, object, old, c)
	if len(errs) == 0 != (len(want) == 0 && r.FieldErrors == nil) || !all(errs, want) || !all(ratcheted, wantRatcheted) {
		t.Errorf("%s: got %q and %q, want %q and %q", r.ID, errs, ratcheted, want, wantRatcheted)
		return false
	}
	cost := before - w.budget
	if r.ExpectedCost != nil && cost != *r.ExpectedCost || r.ExpectSkipped && cost != 0 ||
		r.RemainingBudget != nil && w.budget != *r.RemainingBudget && !(*r.RemainingBudget < 0 && w.stopped) {
		t.Errorf("%s: cost %d, budget left %d", r.ID, cost, w.budget)
		return false
	}
	return true
}

// all reports whether each wanted text is in one of the messages, and none is in
// excess. The API server calls the object itself root.
func all(got, want []string) bool {
	for _, w := range want {
		w = strings.TrimPrefix(w, "root.")
		if !strings.Contains(strings.Join(got, "\n"), strings.TrimPrefix(w, "root")) {
			return false
		}
	}
	return len(want) == 0 || len(got) == len(want)
}

func (r *row) value(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	var v any
	if err := serverjson.Unmarshal(raw, &v); err != nil {
		t.Fatal(r.ID, err)
	}
	return v
}
