package explanation

import (
	"bytes"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// sampleExplanations holds one explanation of a policy with a binding, and texts
// that would act on a terminal or a runner.
func sampleExplanations() []policy.Explanation {
	at := func(file string, line int) render.Span { return render.Span{File: file, Line: line, Column: 3} }
	field := []render.Origin{{Span: at("app.yaml", 9), Role: render.Value}}
	return []policy.Explanation{{
		Engine: policy.EngineAdmission, Policy: "require-limits", Origin: at("limits.yaml", 1),
		Rules: []policy.Rule{{
			Engine: policy.EngineAdmission, Policy: "require-limits", Name: "validations[0]", Title: "Containers have limits",
			Expression: "object.spec.containers.all(c, has(c.resources.limits))", Origin: at("limits.yaml", 12),
		}},
		Operation: policy.Create, Object: render.Key{APIVersion: "v1", Kind: "Pod", Namespace: "prod", Name: "web\x1b[2J", Unit: "app.yaml"},
		Origins: field, Request: policy.Asked{Version: "v1", Resource: "pods", Namespace: "prod"},
		Matches:  policy.Yes,
		Match:    []policy.Check{{Name: "resourceRules", Text: "CREATE of pods", Answer: policy.Yes, Origin: at("limits.yaml", 6)}},
		Bindings: []policy.Bound{{Name: "everywhere", Origin: at("limits.yaml", 20), Matches: policy.Yes, Actions: []string{"Deny"}}},
		Trials: []policy.Trial{{
			ValidationsCost: policy.Cost{Spent: 8, Limit: 100},
			Validations: []policy.Evaluation{{
				Name: "validations[0]", Expression: "object.spec.containers.all(c, has(c.resources.limits))", Value: "false", Cost: 8, Origin: at("limits.yaml", 12),
				Parts:    []policy.Part{{Text: "has(c.resources.limits)", Value: "false", Loop: "c = containers[0]"}},
				Summary:  "containers[0] has no limits",
				Culprits: []policy.Culprit{{Root: "object", Pointer: "/spec/containers/0/resources/limits", Missing: true, Origins: field}},
			}},
		}},
		Results: []policy.Result{{
			Engine: policy.EngineAdmission, Policy: "require-limits", Rule: "validations[0]", Outcome: policy.Fail, Action: policy.Deny,
			Message: "::error::no limits\n##[group]more", Reason: "Invalid",
		}},
	}}
}

// Every format of explanations has a golden.
func TestExplanations(t *testing.T) {
	t.Parallel()
	for _, f := range Formats {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			rendertest.OK(t, Write(&b, f.Name, report.Tool{Name: "preadmit", Version: "0.1.0"}, sampleExplanations(), report.Options{}))
			rendertest.Golden(t, "testdata/want."+f.Name, b.String())
		})
	}
	if err := Write(nil, "sarif", report.Tool{}, nil, report.Options{}); err == nil {
		t.Error("no error for a format that there is not")
	}
}
