// Package kyverno evaluates requests against Kyverno's own policies: ClusterPolicy
// and Policy of kyverno.io, with their PolicyExceptions.
//
// [New] takes the objects that hold policies and exceptions and returns an
// [Engine], which compiles them once. The chain calls [Engine.Mutator] and then
// [Engine.Validator], as the API server calls Kyverno's webhooks. Policy tests
// call [Engine.Respond] with their own answers for the cluster ([Mocks]).
//
// Package document reads and checks the policies, and decides which requests
// they apply to. Here engine.go evaluates a request by the policies and rule.go
// by one rule. context.go and contextentry.go build the data of JMESPath, variables.go
// substitutes {{ }}, and each kind of rule has a file: validate.go, mutate.go,
// generate.go, images.go. fields.go finds the fields of the object that
// made a rule fail, and explain*.go describe the evaluation.
package kyverno

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// Options configure an [Engine].
type Options struct {
	Cluster     *policy.Cluster // the objects that context entries and namespaceSelectors look up
	Kinds       policy.Kinds
	KubeVersion string // of validate.cel's environment; "" is the newest

	// Authorizer answers checks of validate.cel's authorizer variable. If it is
	// nil, results that depend on them are undecided. AuthorizerAssumed is the
	// assumption that its answers rest on.
	Authorizer        Authorizer
	AuthorizerAssumed string

	// Now returns the time for JMESPath functions. If it is nil, results that
	// depend on the time are undecided.
	Now func() time.Time

	// Coverage counts the branches that rules take, if it is not nil.
	Coverage *policy.Coverage

	// CLI gives the verdicts of Kyverno's command line instead of its webhooks,
	// for tests that are written for it: request holds only object, oldObject,
	// operation and namespace, labels of namespaces come from mocks alone, and
	// a lookup without a mock finds nothing.
	CLI bool
}

// An Authorizer answers checks of the authorizer variable, as authorizers of
// k8s.io/apiserver do. It returns an *Undecided error if it does not know the
// answer. It must be safe for concurrent use.
type Authorizer interface {
	Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
}

// Undecided is the error of an Authorizer that does not know the answer. Its
// text completes the sentence "needs to know whether …".
type Undecided = cel.Undecided

// A Status is the outcome of a rule, by Kyverno's names.
type Status string

// The statuses. StatusUndecided is not Kyverno's: the result depends on
// something that is not known offline.
const (
	StatusPass      Status = "pass"
	StatusFail      Status = "fail"
	StatusWarn      Status = "warn"
	StatusError     Status = "error"
	StatusSkip      Status = "skip"
	StatusUndecided Status = "unknown"
)

// A Policy is a ClusterPolicy or a Policy of kyverno.io, as read and checked.
type Policy = document.Policy

// A Rule is one rule of a [Policy].
type Rule = document.Rule

// A Response is the outcome of one rule for one request. A rule that does not
// match gives no response.
type Response struct {
	Policy    *Policy
	Rule      *Rule
	Name      string // the rule's name in reports, with a prefix autogen-
	Status    Status
	Message   string
	Fields    []string         // JSON pointers into the evaluated object, the field at fault first
	Literals  []string         // texts in these fields that the rule does not allow
	Assumed   []string         // assumptions that the response rests on
	Patched   map[string]any   // mutate: the patched object or target; nil if unchanged
	Target    map[string]any   // mutate: for a rule with targets, the target before the patch
	Generated []map[string]any // generate: the generated objects
}

// Mocks are the cluster responses that a test supplies.
type Mocks struct {
	Variables map[string]any            // by dotted name, such as request.operation or dictionary.data.env
	Rules     map[string]map[string]any // variables of one rule, by the rule's name as written
	Foreach   map[string]map[string]any // variables of foreach, by the rule's name as written

	UserInfo     *policy.UserInfo // nil: unknown
	Roles        []string
	ClusterRoles []string

	Namespaces   map[string]map[string]string // labels by namespace name
	APICalls     []APICall
	Global       map[string]any   // GlobalContextEntries, by name or name.projection
	Targets      []*render.Object // objects that mutate.targets may change
	Resources    []*render.Object // with Simulate: objects that generate and API calls find
	Simulate     bool             // context entries are loaded from Resources; otherwise they find nothing
	Subresources []Subresource
}

// An APICall is a mocked response to an apiCall context entry.
type APICall struct {
	Method string // "" is GET
	URL    string // URL of a service, or the urlPath
	Body   any
	Status int // "0" is 200
}

// A Subresource declares that a kind is the body of a subresource.
type Subresource struct {
	Kind, Version, Group string // kind of the body
	Name                 string // such as "pods/exec" or "deployments/scale"
	ParentKind           string
}

// Validator returns the validator that evaluates the validate and verifyImages
// rules, as Kyverno's validating webhook does. Generate rules are not
// evaluated, because Kyverno runs them after admission.
func (e *Engine) Validator() policy.Validator { return &validator{e} }

type validator struct{ engine *Engine }

// Rules implements policy.Validator.
func (v *validator) Rules() []policy.Rule {
	return v.engine.rules(func(r *Rule) bool { return r.Validate != nil || len(r.VerifyImages) > 0 })
}

// SelectsMade implements policy.MadeEngine.
func (v *validator) SelectsMade(made, maker schema.GroupVersionKind) bool {
	return v.engine.selectsMade(&verifies, made, maker.Kind) || v.engine.selectsMade(&validates, made, maker.Kind)
}

// selectsMade reports whether a phase has written rules about a kind's objects that are made of a maker's
// objects, and which autogen does not adapt for the maker.
func (e *Engine) selectsMade(p *phase, made schema.GroupVersionKind, maker string) bool {
	key := madeKey{p, made.Kind, maker}
	if known, ok := e.made.Load(key); ok {
		return known.(bool)
	}
	selects := slices.ContainsFunc(e.index.For(made.Kind), func(pol *Policy) bool {
		return pol.Admission && !(made == policy.PodKind && pol.Adapts(maker)) && slices.ContainsFunc(pol.RulesFor(made), func(r *Rule) bool {
			return r.Base == nil && p.concerns(r) && !e.programs[r].broken && r.Match.MayMatch(made.Kind)
		})
	})
	e.made.Store(key, selects)
	return selects
}

// A madeKey is what selectsMade depends on.
type madeKey struct {
	phase       *phase
	made, maker string
}

// EvaluatesWritten implements policy.WrittenValidator.
func (v *validator) EvaluatesWritten() {}

// Validate implements policy.Validator.
func (v *validator) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	if len(v.engine.policies) == 0 {
		return nil, nil
	}
	results := req.Room()
	_, err := v.engine.review(ctx, req, nil, []stage{{mutating, []*phase{&verifies}}, {validating, []*phase{&verifies, &validates}}}, func(r *review, resp *Response) { results = append(results, r.result(resp)) })
	return results, err
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
	if r.converted {
		made.Fields, made.Literals = nil, nil // they are those of another version
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
