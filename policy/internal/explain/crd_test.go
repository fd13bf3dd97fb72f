package explain

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/preadmit/preadmit/render/rendertest"
)

// A ruleRow is a schema with the rules that the API server's own tests hold
// against an object.
type ruleRow struct {
	ID     string
	Kind   string
	Schema spec.Schema
	Object json.RawMessage
	Rules  []struct {
		Rule  string
		Valid *bool
	}
}

// TestRulesCorpus evaluates rules over values typed by a schema, as the API
// server published them, and explains those that fail.
func TestRulesCorpus(t *testing.T) {
	t.Parallel()
	rules, failures, explained := 0, 0, 0
	for _, raw := range rendertest.Rows[json.RawMessage](t, filepath.Join(corpora, "crd-cel/crd-cel.jsonl")) {
		var row ruleRow
		if err := json.Unmarshal(raw, &row); err != nil || row.Kind != "rules" {
			continue
		}
		env, self := row.self(t)
		for _, rule := range row.Rules {
			ast, issues := env.Compile(rule.Rule)
			if issues.Err() != nil || rule.Valid == nil {
				continue
			}
			rules++
			e, err := New(env, ast, nil)
			rendertest.OK(t, err)
			got, ex := e.verdict(t, map[string]any{"self": self})
			if got != *rule.Valid {
				t.Errorf("%s: %s: %v", row.ID, rule.Rule, got)
			}
			if !got {
				failures++
				if len(ex.Culprits) > 0 {
					explained++
				} else {
					t.Logf("not explained: %s", rule.Rule)
				}
			}
		}
	}
	t.Logf("%d rules, %d failures, %d explained", rules, failures, explained)
	if rules < 100 {
		t.Error("too few")
	}
}

func (e *Explainer) verdict(t *testing.T, roots map[string]any) (bool, Explanation) {
	t.Helper()
	ex, err := e.Explain(t.Context(), Input{Roots: roots, Want: true})
	rendertest.OK(t, err)
	return e.evaluate(t, roots) == types.True, ex
}

func (r *ruleRow) self(t *testing.T) (*cel.Env, any) {
	t.Helper()
	schema := &openapi.Schema{Schema: &r.Schema}
	decl := common.SchemaDeclType(schema, false)
	if decl == nil {
		t.Fatal(r.ID, "has no type")
	}
	decl = decl.MaybeAssignTypeName("selfType")
	provider := apiservercel.NewDeclTypeProvider(decl)
	base := environment.MustBaseEnvSet(version.MajorMinor(1, 37)).StoredExpressionsEnv()
	opts, err := provider.EnvOptions(base.CELTypeProvider())
	rendertest.OK(t, err)
	env, err := base.Extend(append(opts, cel.Variable("self", decl.CelType()))...)
	rendertest.OK(t, err)
	var object any
	rendertest.OK(t, json.Unmarshal(r.Object, &object))
	return env, common.UnstructuredToVal(integers(object), schema)
}
