package policy

import "github.com/preadmit/preadmit/render"

// An Outcome is the verdict of a rule.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"    // the rule holds
	Fail    Outcome = "fail"    // the rule is violated; Action is the consequence
	Skip    Outcome = "skip"    // an exception or condition in the policy itself exempts the object
	Unknown Outcome = "unknown" // depends on something that only a live cluster knows
	Error   Outcome = "error"   // the rule failed to run, or did not render or compile
)

// Outcomes lists them all, the worst first.
var Outcomes = []Outcome{Fail, Error, Unknown, Skip, Pass}

// An Action is the consequence of a failure, as in a binding's
// validationActions.
type Action string

// The actions.
const (
	Deny  Action = "deny"
	Warn  Action = "warn"
	Audit Action = "audit"
)

// Actions lists all actions, the strongest first.
var Actions = []Action{Deny, Warn, Audit}

// AtLeast reports whether a is as strong as b.
func (a Action) AtLeast(b Action) bool { return a.rank() <= b.rank() }

func (a Action) rank() int {
	for i, x := range Actions {
		if x == a {
			return i
		}
	}
	return len(Actions)
}

// A Severity is the severity that a policy's author gives; it is often empty.
type Severity string

// The severities of PolicyReport.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
	Info     Severity = "info"
)

// Severities lists them all, the worst first.
var Severities = []Severity{Critical, High, Medium, Low, Info}

// The engines, as in Result.Engine.
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
	Action      Action      `json:"action,omitempty"` // the strongest possible action
	Title       string      `json:"title,omitempty"`  // one line
	Description string      `json:"description,omitempty"`
	Expression  string      `json:"expression,omitempty"` // in the policy's language
	Help        string      `json:"help,omitempty"`       // how to fix a failure, Markdown
	URL         string      `json:"url,omitempty"`
	Origin      render.Span `json:"policyOrigin"`
}

// A Result is the verdict of one rule on one request. It is plain data, holds
// no object, and is an entry of `results` in the JSON report.
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
	Fields       []string        `json:"fields"`  // JSON pointers, the most specific first; set by the engine
	Literals     []string        `json:"-"`       // texts that the rule found or expected in the fields; set by the engine
	AsWritten    bool            `json:"-"`       // Fields refer to the object before mutators; set by the engine
	Origins      []render.Origin `json:"origins"` // set by the chain, from Fields
	PolicyOrigin render.Span     `json:"policyOrigin"`
	Assumed      []string        `json:"assumed"`
	Hint         string          `json:"hint,omitempty"`      // the next step, if any
	Missing      []Missing       `json:"missing,omitempty"`   // what an undecided result needs and a flag or a fetch can provide
	Reason       string          `json:"reason,omitempty"`    // reason of the refusal, in the API server's words: "Invalid", "Forbidden"
	Cost         *RuleCost       `json:"cost,omitempty"`      // set if costs were asked for
	Only         string          `json:"only,omitempty"`      // the installations that have the object: "only on upgrade"
	Baseline     Baseline        `json:"baseline"`            // "" if there is no base
	Unreached    bool            `json:"unreached,omitempty"` // nothing found in the tree deploys its unit, so the result does not count
	Suppression  *Suppression    `json:"suppression"`
	Fingerprint  string          `json:"fingerprint"`

	UnitlessPrint string `json:"-"` // Fingerprint without the unit; set together with it
}

// A RuleCost is the cost of CEL expressions on one request, in the API server's
// units. The server stops an expression at ExpressionLimit, and a policy at
// PolicyLimit.
type RuleCost struct {
	Expression int64 `json:"expression"` // cost of the rule: with the variables that it was the first to read, and its message
	Policy     int64 `json:"policy"`     // cost of all the policy's validations and messages

	ExpressionLimit int64 `json:"expressionLimit"`
	PolicyLimit     int64 `json:"policyLimit"`
}

// FunctionsFailed begins the message of a pass that depends on failed
// functions, for engines to which a failure is no violation.
const FunctionsFailed = "built-in functions failed"

// Undecided reports whether the result keeps the report from being complete.
func (r *Result) Undecided() bool { return r.Outcome == Error || r.Outcome == Unknown }
