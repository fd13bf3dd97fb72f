package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

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

	EngineAuthorization = "Authorization" // of the API server
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
	OfKeys       bool            `json:"-"`       // the keys of Fields are at fault, not the values; set by the engine
	AsWritten    bool            `json:"-"`       // Fields refer to the object before mutators, or to the workload of a created object; set by the engine
	Origins      []render.Origin `json:"origins"` // set by the chain, from Fields
	PolicyOrigin render.Span     `json:"policyOrigin"`
	Assumed      []string        `json:"assumed"`
	Hint         string          `json:"hint,omitempty"`      // the next step, if any
	Missing      []Missing       `json:"missing,omitempty"`   // what an undecided result needs and a flag or a fetch can provide
	Reason       string          `json:"reason,omitempty"`    // reason of the refusal, in the API server's words: "Invalid", "Forbidden"
	Cost         *RuleCost       `json:"cost,omitempty"`      // set if costs were asked for
	Only         string          `json:"only,omitempty"`      // the installations that have the object: "only on upgrade"
	Baseline     Baseline        `json:"baseline"`            // "" if there is no base
	Pods         bool            `json:"pods,omitempty"`      // about what the object's controller creates, such as pods
	Made         string          `json:"made,omitempty"`      // the kind of what it creates then: "Pod", "Job"
	Unreached    bool            `json:"unreached,omitempty"` // nothing found in the tree deploys its unit, so the result does not count
	Suppression  *Suppression    `json:"suppression"`
	Accepted     bool            `json:"-"`             // the base accepts it, too; set by Compare
	Fix          *Repair         `json:"fix,omitempty"` // set if fixes were asked for
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

// Fingerprinted returns the result with its fingerprints. The chain sets them for
// results of engines; the maker of any other result must call this.
func (r Result) Fingerprinted() Result {
	r.setFingerprint(nil)
	return r
}

// setFingerprint sets both fingerprints. UnitlessPrint is computed from the rule, the
// object and the first field, so that it survives moved lines and reordered lists.
// Fingerprint adds the unit, but not the path of a plain manifest, so that it survives
// a renamed file. A result without an object is identified by its file and message. o
// may be nil.
func (r *Result) setFingerprint(o *render.Object) {
	r.UnitlessPrint = r.unitlessPrint(o)
	r.Fingerprint = fingerprint(r.UnitlessPrint, unitInPrint(r.Object.Unit, o))
}

func (r *Result) unitlessPrint(o *render.Object) string {
	var room [11]string
	parts := append(room[:0], r.Engine, r.Policy, r.Rule, group(r.Object.APIVersion), r.Object.Kind, r.Object.Namespace, lastingName(r.Object))
	if len(r.Fields) > 0 {
		parts = append(parts, stablePointer(o, r.Fields[0]))
	}
	if r.Object.Kind == "" {
		parts = append(parts, r.PolicyOrigin.File, lines.ReplaceAllString(r.Message, "line"))
		if len(r.Origins) > 0 {
			parts = append(parts, r.Origins[0].File)
		}
	}
	return digest(parts...)
}

// lastingName returns the name of an object. In the name of a ConfigMap or Secret, * replaces a hash of the
// content, so that the object keeps its identity when its content changes. kustomize appends such a hash
// (encode in its package hasher), and some charts append one in hexadecimal digits, with digits and letters.
func lastingName(k render.Key) string {
	if k.APIVersion != "v1" || k.Kind != "ConfigMap" && k.Kind != "Secret" {
		return k.Name
	}
	return hashes.ReplaceAllStringFunc(k.Name, func(hash string) string {
		kustomized := len(hash) == len("-")+10 && strings.Trim(hash, "-2456789bcdfghkmt") == ""
		if kustomized || strings.ContainsAny(hash, "0123456789") && strings.ContainsAny(hash, "abcdef") {
			return "-*"
		}
		return hash
	})
}

var hashes = regexp.MustCompile(`-(?:[2456789bcdfghkmt]{10}|[0-9a-f]{8,64})$`)

func fingerprint(unitless, unit string) string { return digest(unitless, unit) }

// unitInPrint returns the unit as fingerprints of its objects have it.
func unitInPrint(unit string, o *render.Object) string {
	if o != nil && o.Unit != nil && o.Unit.Kind == "manifest" {
		return ""
	}
	return unit
}

// fingerprintSize is the number of a fingerprint's bytes, before they are written as digits.
const fingerprintSize = 16

// lines matches line numbers in messages, which change.
var lines = regexp.MustCompile(`\blines? [0-9]+`)

func digest(parts ...string) string {
	text := make([]byte, 0, 512) // most fit, and take no memory of their own
	for i, p := range parts {
		if i > 0 {
			text = append(text, 0)
		}
		text = append(text, p...)
	}
	sum := sha256.Sum256(text)
	var digits [2 * fingerprintSize]byte
	hex.Encode(digits[:], sum[:fingerprintSize])
	return string(digits[:])
}

func group(apiVersion string) string {
	g, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return g
}

// stablePointer returns a pointer that names list elements by their keys
// instead of indexes, where they have keys, so that reordering the list does
// not change it.
func stablePointer(o *render.Object, pointer string) string {
	if o == nil || o.Unstructured == nil {
		return pointer
	}
	var b strings.Builder
	var at any = o.Object
	for _, element := range render.Path(pointer) {
		b.WriteByte('/')
		switch v := at.(type) {
		case map[string]any:
			b.WriteString(element)
			at = v[element]
		case []any:
			i, err := strconv.Atoi(element)
			if err != nil || i < 0 || i >= len(v) {
				b.WriteString(element)
				at = nil
				continue
			}
			b.WriteString(called(v, i))
			at = v[i]
		default:
			b.WriteString(element)
			at = nil
		}
	}
	return b.String()
}

// elementKeys are the fields that identify elements of the API's lists
// (x-kubernetes-list-map-keys), the likeliest first. Fingerprints depend on the
// order.
var elementKeys = []string{"name", "id", "key", "mountPath", "devicePath", "containerPort", "port", "topologyKey", "ip", "uid", "type"}

// called returns a name for element i of a list: its key, or the element itself
// if it is a scalar, or else its index. Repeated names get a number.
func called(list []any, i int) string {
	name, ok := nameOf(list[i])
	if !ok {
		return strconv.Itoa(i)
	}
	before := 0
	for _, e := range list[:i] {
		if other, ok := nameOf(e); ok && other == name {
			before++
		}
	}
	if before > 0 {
		return fmt.Sprintf("[%s]%d", name, before)
	}
	return "[" + name + "]"
}

func nameOf(element any) (string, bool) {
	switch v := element.(type) {
	case map[string]any:
		for _, key := range elementKeys {
			switch x := v[key].(type) {
			case string, int64, float64:
				return fmt.Sprintf("%s=%v", key, x), true
			}
		}
		return "", false
	case string, int64, float64, bool:
		return fmt.Sprint(v), true
	}
	return "", false
}
