package policy

import (
	"cmp"
	"encoding/binary"
	"hash"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A Use counts the objects that one rule decided on in a run. If there are
// several results about an object, the worst counts.
type Use struct {
	Engine string      `json:"engine"`
	Policy string      `json:"policy"`
	Rule   string      `json:"rule"`
	Action Action      `json:"action"` // the strongest possible action
	Origin render.Span `json:"policyOrigin"`

	Matched   int `json:"matched"` // the sum of the following counts
	Exempted  int `json:"exempted"`
	Passed    int `json:"passed"`
	Failed    int `json:"failed"`
	Undecided int `json:"undecided"`
	WouldDeny int `json:"wouldDeny"` // failures that are only warned about or audited

	Cost *RuleCost `json:"cost,omitempty"` // cost of the most expensive object, if the engine counts it

	current  *decision
	verdicts hash.Hash64    // hash over the objects that passed or failed
	exempts  map[string]int // number of exempted objects by reason
}

// A decision is a rule's verdict on one object. Later results may change it.
type decision struct {
	object    render.Key
	operation Operation
	outcome   Outcome
	action    Action
	message   string
}

// Uses counts the results of each rule in a run.
type Uses struct {
	list     []*Use
	rules    map[useKey]*Use
	policies map[useKey][]*Use

	exceptions map[string]bool // names of the exceptions that exempted an object
}

// A useKey names a rule, or with an empty rule a policy.
type useKey struct{ engine, policy, rule string }

// NewUses returns Uses with a zero count for each of rules. A rule that Kyverno
// generates for the controllers of pods counts as the rule it is generated from.
func NewUses(rules []Rule) *Uses {
	u := &Uses{rules: make(map[useKey]*Use), policies: make(map[useKey][]*Use), exceptions: make(map[string]bool)}
	names := make(map[useKey]bool, len(rules))
	for i := range rules {
		names[useKey{rules[i].Engine, rules[i].Policy, rules[i].Name}] = true
	}
	for i := range rules {
		r := &rules[i]
		key := useKey{r.Engine, r.Policy, r.Name}
		if base := (useKey{r.Engine, r.Policy, WithoutAutogen(r.Name)}); base != key && names[base] || u.rules[key] != nil {
			continue
		}
		use := &Use{Engine: r.Engine, Policy: r.Policy, Rule: r.Name, Action: r.Action, Origin: r.Origin, verdicts: fnv.New64a()}
		u.rules[key] = use
		u.list = append(u.list, use)
		whole := useKey{engine: r.Engine, policy: r.Policy}
		u.policies[whole] = append(u.policies[whole], use)
	}
	return u
}

// WithoutAutogen returns the name of the rule that Kyverno generated a rule
// from.
func WithoutAutogen(rule string) string {
	base, generated := strings.CutPrefix(rule, "autogen-")
	if !generated {
		return rule
	}
	return strings.TrimPrefix(base, "cronjob-")
}

// Add counts a result. The caller must add results in the order of Sort. A result
// of a whole policy, such as a missing parameter, counts for each of its rules.
func (u *Uses) Add(r *Result) {
	u.noteException(r.Message)
	for _, name := range []string{r.Rule, WithoutAutogen(r.Rule)} {
		if use := u.rules[useKey{r.Engine, r.Policy, name}]; use != nil {
			use.add(r)
			return
		}
	}
	for _, use := range u.policies[useKey{engine: r.Engine, policy: r.Policy}] {
		use.add(r)
	}
}

// List returns the uses in the order of engine, policy and place. Add must not
// be called afterwards.
func (u *Uses) List() []*Use {
	for _, use := range u.list {
		use.close()
	}
	slices.SortStableFunc(u.list, func(a, b *Use) int {
		return cmp.Or(
			strings.Compare(a.Engine, b.Engine), strings.Compare(a.Policy, b.Policy),
			strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line),
		)
	})
	return u.list
}

func (u *Use) add(r *Result) {
	if c := u.current; c == nil || c.object != r.Object || c.operation != r.Operation {
		u.close()
		u.current = &decision{object: r.Object, operation: r.Operation, outcome: r.Outcome, action: r.Action, message: r.Message}
	} else if slices.Index(Outcomes, r.Outcome) < slices.Index(Outcomes, c.outcome) {
		c.outcome, c.action, c.message = r.Outcome, r.Action, r.Message
	}
	if c := r.Cost; c != nil && (u.Cost == nil || c.Share() > u.Cost.Share()) {
		u.Cost = c
	}
}

// close counts the object of the last results.
func (u *Use) close() {
	c := u.current
	if c == nil {
		return
	}
	u.current = nil
	u.Matched++
	switch c.outcome {
	case Pass:
		u.Passed++
	case Fail:
		u.Failed++
		if c.action != Deny {
			u.WouldDeny++
		}
	case Skip:
		u.Exempted++
		if u.exempts == nil {
			u.exempts = make(map[string]int)
		}
		u.exempts[c.message]++
	default:
		u.Undecided++
	}
	if c.outcome == Pass || c.outcome == Fail {
		u.addVerdict(c)
	}
}

// addVerdict adds a verdict to the hash of all verdicts.
func (u *Use) addVerdict(c *decision) {
	for _, s := range []string{c.object.Unit, c.object.APIVersion, c.object.Kind, c.object.Namespace, c.object.Name, string(c.operation), string(c.outcome)} {
		var n [4]byte
		binary.LittleEndian.PutUint32(n[:], uint32(len(s)))
		u.verdicts.Write(n[:])
		u.verdicts.Write([]byte(s))
	}
}

// exemption returns the reason for which most objects were exempt.
func (u *Use) exemption() string {
	most := ""
	for why, n := range u.exempts {
		if m := u.exempts[most]; n > m || n == m && why < most {
			most = why
		}
	}
	return most
}

// Share returns the used share of a limit: of the expression's or the policy's,
// whichever is larger.
func (r *RuleCost) Share() float64 {
	share := 0.0
	if r.ExpressionLimit > 0 {
		share = float64(r.Expression) / float64(r.ExpressionLimit)
	}
	if r.PolicyLimit > 0 {
		share = max(share, float64(r.Policy)/float64(r.PolicyLimit))
	}
	return share
}
