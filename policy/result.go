package policy

import "github.com/preadmit/preadmit/render"

// An Outcome is what a rule said.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"    // holds
	Fail    Outcome = "fail"    // violated; Action says what follows
	Skip    Outcome = "skip"    // an exception or condition in the policy's own language exempts it
	Unknown Outcome = "unknown" // depends on something that only a live cluster knows
	Error   Outcome = "error"   // broke while it ran, or did not render or compile
)

// Outcomes lists them all, the worst first.
var Outcomes = []Outcome{Fail, Error, Unknown, Skip, Pass}

// An Action is what follows from a failure: a binding's validationActions.
type Action string

// The actions.
const (
	Deny  Action = "deny"
	Warn  Action = "warn"
	Audit Action = "audit"
)

// Actions lists them all, the strongest first.
var Actions = []Action{Deny, Warn, Audit}

// AtLeast says whether a is as strong as b.
func (a Action) AtLeast(b Action) bool { return a.rank() <= b.rank() }

func (a Action) rank() int {
	for i, x := range Actions {
		if x == a {
			return i
		}
	}
	return len(Actions)
}

// A Severity is how bad a policy's author says a failure is; often empty.
type Severity string

// The severities, as PolicyReport has them.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
	Info     Severity = "info"
)

// Severities lists them all, the worst first.
var Severities = []Severity{Critical, High, Medium, Low, Info}

// The engines, as they stand in Result.Engine.
const (
	EngineAdmission   = "ValidatingAdmissionPolicy"
	EngineMutation    = "MutatingAdmissionPolicy"
	EngineValidating  = "ValidatingPolicy"      // of Kyverno
	EngineMutating    = "MutatingPolicy"        // of Kyverno
	EngineImages      = "ImageValidatingPolicy" // of Kyverno
	EnginePodSecurity = "PodSecurity"
	EngineCRD         = "CustomResourceDefinition"
	EngineSchema      = "Schema"
	EngineRender      = "Render"
	EngineCompile     = "Compile"
	EngineKyverno     = "Kyverno"
	EngineGatekeeper  = "Gatekeeper"
	EngineRego        = "Rego" // conftest's kind of packages
)

// A Rule documents the smallest part of a policy that can fail alone.
type Rule struct {
	Engine      string      `json:"engine"`
	Policy      string      `json:"policy"`
	Name        string      `json:"rule"`
	Severity    Severity    `json:"severity,omitempty"`
	Action      Action      `json:"action,omitempty"` // the strongest it may have
	Title       string      `json:"title,omitempty"`  // one line
	Description string      `json:"description,omitempty"`
	Expression  string      `json:"expression,omitempty"` // in the policy's language
	Help        string      `json:"help,omitempty"`       // how to fix a failure, Markdown
	URL         string      `json:"url,omitempty"`
	Origin      render.Span `json:"policyOrigin"`
}

// A Result is what one rule said about one request. It is plain data, holds
// no object, and is the `results` entry of the JSON report.
type Result struct {
	Engine       string          `json:"engine"`
	Policy       string          `json:"policy"`
	Rule         string          `json:"rule"`
	Operation    Operation       `json:"operation"`
	Object       render.Key      `json:"object"`
	Outcome      Outcome         `json:"outcome"`
	Action       Action          `json:"action"`
	Severity     Severity        `json:"severity"`
	Message      string          `json:"message"`
	Fields       []string        `json:"fields"`  // JSON pointers, the telling one first; set by the engine
	Telling      []string        `json:"-"`       // texts that the rule found, or looked for, in the fields; set by the engine
	AsWritten    bool            `json:"-"`       // Fields are of the object before mutators; set by the engine
	Origins      []render.Origin `json:"origins"` // set by the chain from Fields
	PolicyOrigin render.Span     `json:"policyOrigin"`
	Assumed      []string        `json:"assumed"`
	Hint         string          `json:"hint,omitempty"`      // the next step, if there is one
	Missing      []Missing       `json:"missing,omitempty"`   // what an undecided result waits for, where a flag or a fetch gives it
	Reason       string          `json:"reason,omitempty"`    // of the refusal, in the API server's words: "Invalid", "Forbidden"
	Cost         *RuleCost       `json:"cost,omitempty"`      // where it was asked for
	Only         string          `json:"only,omitempty"`      // when it is the case: "only on upgrade"
	Baseline     Baseline        `json:"baseline"`            // "" where there was no base to compare with
	Unreached    bool            `json:"unreached,omitempty"` // nothing found in the tree deploys its unit, so it does not count
	Suppression  *Suppression    `json:"suppression"`
	Fingerprint  string          `json:"fingerprint"`

	Identity string `json:"-"` // the fingerprint without the unit; set with it
}

// A RuleCost is what CEL expressions cost on one request, in the API server's
// units. It stops an expression at ExpressionLimit, and a policy at PolicyLimit.
type RuleCost struct {
	Expression int64 `json:"expression"` // of the rule: with the variables that it was the first to read, and its message
	Policy     int64 `json:"policy"`     // of all the policy's validations and messages

	ExpressionLimit int64 `json:"expressionLimit"`
	PolicyLimit     int64 `json:"policyLimit"`
}

// FunctionsFailed begins the message of a pass that rests on functions which
// failed, where the engine takes a failure for no violation.
const FunctionsFailed = "built-in functions failed"

// Undecided says whether the result keeps the report from being complete.
func (r *Result) Undecided() bool { return r.Outcome == Error || r.Outcome == Unknown }
