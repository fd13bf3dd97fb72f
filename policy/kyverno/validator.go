package kyverno

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// Validator returns the validator that evaluates the validate and verifyImages
// rules, as Kyverno's validating webhook does. Generate rules are not
// evaluated, because Kyverno runs them after admission.
func (e *Engine) Validator() policy.Validator { return &validator{e} }

type validator struct{ engine *Engine }

// Rules implements policy.Validator.
func (v *validator) Rules() []policy.Rule {
	return v.engine.rules(func(r *Rule) bool { return r.Validate != nil || len(r.VerifyImages) > 0 })
}

// SelectsPods implements policy.PodEngine.
func (v *validator) SelectsPods(of schema.GroupVersionKind) bool {
	return v.engine.selectsPods(&verifies, of.Kind) || v.engine.selectsPods(&validates, of.Kind)
}

// selectsPods reports whether a phase has rules about pods which autogen does not adapt for the pods of
// a kind's objects.
func (e *Engine) selectsPods(p *phase, of string) bool {
	pod := policy.PodRequest().Kind
	key := candidateKey{p, of, true}
	if known, ok := e.pods.Load(key); ok {
		return known.(bool)
	}
	selects := slices.ContainsFunc(e.index.For(pod.Kind), func(pol *Policy) bool {
		return pol.Admission && !pol.Adapts(of) && slices.ContainsFunc(pol.RulesFor(pod), func(r *Rule) bool {
			return p.concerns(r) && !e.programs[r].broken && r.Match.MayMatch(pod.Kind)
		})
	})
	e.pods.Store(key, selects)
	return selects
}

// EvaluatesWritten implements policy.WrittenValidator.
func (v *validator) EvaluatesWritten() {}

// Validate implements policy.Validator.
func (v *validator) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if len(v.engine.policies) == 0 {
		return nil, nil
	}
	r := v.engine.newReview(ctx, req, nil)
	results := req.Room()
	for _, p := range []*phase{&verifies, &validates} {
		if err := r.each(p, func(resp Response) { results = append(results, r.result(&resp)) }); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// result converts a response to a result.
func (r *review) result(resp *Response) policy.Result {
	t := &r.engine.programs[resp.Rule].reported
	made := policy.Result{
		Engine: policy.EngineKyverno, Policy: t.policy, Rule: resp.Name,
		Outcome: outcomes[resp.Status], Action: r.action(resp, t), Severity: t.severity,
		Message: policy.Shorten(resp.Message, maxResultMessage), Fields: withoutRoot(resp.Fields), Literals: resp.Literals, Assumed: resp.Assumed,
		PolicyOrigin: t.origin,
	}
	r.engine.filters.Apply(&made, r.req)
	return made
}

var outcomes = map[Status]policy.Outcome{
	StatusPass: policy.Pass, StatusFail: policy.Fail, StatusWarn: policy.Fail,
	StatusError: policy.Error, StatusSkip: policy.Skip, StatusUndecided: policy.Unknown,
}

// withoutRoot removes the pointer of the whole object if there are others.
func withoutRoot(fields []string) []string {
	if len(fields) < 2 {
		return fields
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == "" })
}

// action returns the action for a response. Kyverno denies the failures of an Enforce
// rule, and the errors of all validate rules of a policy that has one, unless the policy
// ignores errors.
func (r *review) action(resp *Response, t *reported) policy.Action {
	p := resp.Policy
	var labels map[string]string
	if t.selects {
		labels = r.namespaceLabels()
	}
	enforced := p.ActionFor(resp.Rule, r.req.Namespace, labels) == document.ActionEnforce ||
		resp.Status == StatusError && t.enforces && p.FailurePolicy != "Ignore"
	switch {
	case enforced && resp.Status == StatusError && p.FailurePolicy == "Ignore":
		return policy.Warn
	case enforced:
		return policy.Deny
	case t.warns || resp.Status == StatusWarn:
		return policy.Warn
	default:
		return policy.Audit
	}
}

func severityOf(annotations map[string]string) policy.Severity {
	return policy.SeverityOf(annotations["policies.kyverno.io/severity"])
}

// rules returns the documentation of one kind of rules, in the order of the
// policies. Autogen rules follow the written ones.
func (e *Engine) rules(concerns func(*Rule) bool) []policy.Rule {
	var all []policy.Rule
	for _, p := range e.policies {
		for _, rule := range p.AllRules() {
			if concerns(rule) {
				all = append(all, documentOf(p, rule))
			}
		}
	}
	return all
}

func documentOf(p *Policy, rule *Rule) policy.Rule {
	notes := p.Object.GetAnnotations()
	d := policy.Rule{
		Engine: policy.EngineKyverno, Policy: p.Name, Name: rule.Name, Severity: severityOf(notes), Action: policy.Audit,
		Title: notes["policies.kyverno.io/title"], Description: notes["policies.kyverno.io/description"],
		Expression: ruleText(rule), Origin: p.Object.Span(rule.Pointer),
	}
	if p.Strongest(rule) == document.ActionEnforce {
		d.Action = policy.Deny
	}
	if rule.Validate != nil && d.Description == "" {
		d.Description = rule.Validate.Message
	}
	return d
}

// maxResultMessage is the longest message of a result.
const maxResultMessage = 4 << 10

// maxRuleText is the longest text of a rule that is shown.
const maxRuleText = 2048

// ruleText returns the rule's check or action as YAML.
func ruleText(rule *Rule) string {
	for _, key := range []string{"validate", "mutate", "generate", "verifyImages"} {
		if part, ok := rule.Source[key]; ok {
			return policy.Shorten(strings.TrimSpace(yamlText(map[string]any{key: part}, maxRuleText)), maxRuleText)
		}
	}
	return ""
}

// Rules returns the documentation of every rule, in the order of the policies.
func (e *Engine) Rules() []policy.Rule {
	return e.rules(func(*Rule) bool { return true })
}
