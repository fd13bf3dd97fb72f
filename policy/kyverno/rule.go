package kyverno

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/policy/kyverno/internal/signed"
	"github.com/preadmit/preadmit/render"
)

// A program is a compiled rule: its parsed templates and compiled patterns and
// expressions.
type program struct {
	name          string // of the policy and the rule
	policy        *Policy
	rule          *Rule
	entries       []*entry
	preconditions *block
	message       *template
	passed        string // the message of a pass
	clause        *clause
	cel           func() *celProgram // compiled on first use; nil if the rule has none
	excludes      []podsecurity.Exclude
	standard      *podsecurity.Standard // nil without podSecurity, or if noStandard holds an error
	noStandard    error
	pods          podVerdicts
	broken        bool           // the rule can't work; an error of the policy says why
	ignored       signed.Ignored // fields of a signed manifest that may differ
	mutation      *mutation
	generation    *generation
	reported      reported
}

// reported holds the parts of a result that are the same for all results of the
// rule.
type reported struct {
	policy          string
	severity        policy.Severity
	origin          render.Span
	warns, unscored bool // emitWarning; scored: "false"
	selects         bool // the action may depend on labels of namespaces
	enforces        bool // a validate rule of the policy has the action Enforce somewhere
}

func (e *Engine) newProgram(p *Policy, rule *Rule) *program {
	g := &program{
		name: p.Name + "/" + rule.Name, policy: p, rule: rule, entries: newEntries(rule.Context), preconditions: newBlock(rule.Preconditions),
		passed: fmt.Sprintf("validation rule '%s' passed.", rule.Name),
	}
	g.reported = reportedOf(p, rule)
	if v := rule.Validate; v != nil {
		g.message = newTemplate(v.Message)
		g.clause = newClause(v)
		if v.CEL != nil {
			g.cel = sync.OnceValue(func() *celProgram { return e.newCEL(rule) })
		}
		if v.PodSecurity != nil {
			g.excludes = excludesOf(v.PodSecurity.Exclude)
			g.standard, g.noStandard = podsecurity.New(v.PodSecurity.Level, v.PodSecurity.Version)
		}
		if v.Manifests != nil {
			g.ignored = ignoredOf(v.Manifests)
		}
	}
	if rule.Mutate != nil {
		g.mutation = newMutation(rule)
	}
	if rule.Generate != nil {
		g.generation = newGeneration(rule.Generate)
	}
	return g
}

func newClause(v *document.Validate) *clause {
	c := &clause{anyPattern: newComparisons(v.AnyPattern), loops: newLoops(v.Foreach)}
	c.denies, c.deny = newDeny(v.Deny)
	if v.HasPattern {
		c.pattern = newComparison(newTemplate(v.Pattern))
	}
	return c
}

// A run evaluates one rule for one request.
type run struct {
	review   *review
	program  *program
	target   *document.Target
	nesting  int // nesting of foreach
	elements int // elements that foreach evaluated so far
	one      [1]Response
}

// only returns the response for a verdict, as the only one. It is valid until the review
// evaluates the next rule.
func (r *run) only(v *verdict) []Response {
	r.one[0] = r.response(v)
	return r.one[:]
}

// validated returns the response of a validate rule.
func (r *run) validated() []Response {
	v := r.validate()
	if v == nil && len(r.review.questions) == 0 {
		return nil
	}
	if v == nil {
		v = &verdict{}
	}
	return r.only(v)
}

// validate evaluates a validate rule: its context, preconditions and
// exceptions, then its checks. It returns nil if the rule gives no response.
func (r *run) validate() *verdict {
	s := r.review.scopeOf(r.program.rule, r.program.entries)
	v, exempt := r.admits(s)
	if v != nil {
		return v
	}
	if v = r.handle(s, exempt); v == nil || v.status != StatusFail {
		return v
	}
	return r.existing(v)
}

// admits returns a result if preconditions or an exception end the rule early.
// Otherwise it returns the exceptions of Pod Security controls that apply.
func (r *run) admits(s *scope) (*verdict, []*exemption) {
	held, decided, err := r.program.preconditions.holds(s)
	switch {
	case err != nil:
		return broken("failed to evaluate preconditions", err), nil
	case !held:
		return r.unmet(r.program.preconditions, decided, s), nil
	}
	return r.exceptions(s)
}

// exceptions returns a result if an exception covers the rule and the request.
// Otherwise it returns the exceptions that cover some Pod Security controls.
func (r *run) exceptions(s *scope) (*verdict, []*exemption) {
	if r.ignoresDelete() {
		return nil, nil
	}
	var whole, controls []*exemption
	for _, e := range r.review.engine.exceptions {
		if !e.Covers(r.program.policy, r.program.rule.Name) {
			continue
		}
		concerned, byUser := e.Concerns(r.target)
		if byUser {
			r.review.assumeUser()
		}
		if !concerned || byUser { // an unknown user is not exempt
			continue
		}
		if held, _, err := e.block.holds(s); !held || err != nil {
			continue
		}
		if len(e.PodSecurity) > 0 && r.program.rule.Validate != nil && r.program.rule.Validate.PodSecurity != nil {
			controls = append(controls, e)
			continue
		}
		whole = append(whole, e)
	}
	if len(whole) == 0 {
		return nil, controls
	}
	return skippedBy(whole), nil
}

func skippedBy(exceptions []*exemption) *verdict {
	var keys []string
	for _, e := range exceptions {
		keys = append(keys, e.key())
	}
	return &verdict{status: StatusSkip, message: "rule is skipped due to policy exceptions " + strings.Join(keys, ", ")}
}

// An exemption is an exception with its conditions compiled.
type exemption struct {
	*document.Exception
	block *block
}

func (e *exemption) key() string { return e.Namespace + "/" + e.Name }

// handle evaluates the rule's checks.
func (r *run) handle(s *scope, exempt []*exemption) *verdict {
	v := r.program.rule.Validate
	switch {
	case v.Manifests != nil:
		return r.evaluateManifests()
	case v.PodSecurity != nil:
		return r.evaluatePodSecurity(exempt)
	case v.CEL != nil:
		return r.program.cel().evaluate(r)
	default:
		return r.program.clause.body(r, s, nil)
	}
}

// unverifiable returns the verdict of a check that needs keys or a registry.
func (r *run) unverifiable(what string, fields ...string) *verdict {
	question := "needs to verify " + what
	if r.review.engine.options.CLI {
		return &verdict{status: StatusError, message: question}
	}
	return &verdict{status: StatusUndecided, message: r.review.ask(question).Error(), fields: fields}
}

// existing turns a failure on UPDATE into a skip if the old object failed as
// well and the rule allows existing violations. Overrides of the action do not
// count here.
func (r *run) existing(v *verdict) *verdict {
	validate, rev := r.program.rule.Validate, r.review
	action := r.program.policy.Action
	if validate.Action != "" {
		action = validate.Action
	}
	if rev.operation != opUpdate || action != document.ActionEnforce || !validate.AllowExisting || validate.CEL != nil || validate.Manifests != nil {
		return v
	}
	if r.program.rule.Source["preconditions"] != nil { // Kyverno fails to read them here, and compares nothing
		return v
	}
	before := &run{review: rev.with(opCreate, rev.old, nil), program: r.program}
	_, _, _ = rev.imagesOf(r.program.rule) // Kyverno keeps the images of the new object
	before.review.images, before.review.imagesErr = rev.images, rev.imagesErr
	before.review.imagesDone, before.review.imagesFor = true, rev.imagesFor
	before.review.trace = nil
	before.target = r.target.For(rev.old, opCreate)
	if matched, _ := r.program.rule.Matches(before.target.ByNobody()); !matched {
		return v
	}
	prior := before.violation(before.review.scopeOf(r.program.rule, r.program.entries))
	if prior == nil || prior.status != StatusFail {
		return v
	}
	return &verdict{status: StatusSkip, message: "skipping the rule evaluation as pre-existing violations are allowed"}
}

// violation evaluates the checks of an object that is on the cluster. Kyverno
// regards exceptions from podSecurity only.
func (r *run) violation(s *scope) *verdict {
	if r.program.rule.Validate.PodSecurity == nil {
		return r.program.clause.body(r, s, nil)
	}
	v, exempt := r.exceptions(s)
	if v == nil {
		v = r.evaluatePodSecurity(exempt)
	}
	return v
}

// response returns the response for a verdict. It is undecided if the verdict
// depends on something unknown.
func (r *run) response(v *verdict) Response {
	p := r.program
	resp := Response{
		Policy: p.policy, Rule: p.rule, Name: p.rule.Name, Status: v.status, Message: v.message,
		Fields: v.fields, Literals: v.literals, Assumed: slices.Clip(r.review.assumed),
	}
	if v.status == StatusError && r.secret() && !strings.Contains(v.message, "Unknown key") {
		resp.Message = hidden
	}
	if len(r.review.questions) > 0 {
		if v.status != StatusUndecided {
			resp.Fields = nil
		}
		resp.Status, resp.Message = StatusUndecided, strings.Join(r.review.questions, "; ")
	}
	if resp.Status == StatusFail && p.reported.unscored {
		resp.Status = StatusWarn
	}
	r.redact(&resp)
	return resp
}

func reportedOf(p *Policy, rule *Rule) reported {
	emit, _ := lookup(p.Object.Object, "spec", "emitWarning")
	notes := p.Object.GetAnnotations()
	t := reported{
		policy: p.Name, severity: severityOf(notes), origin: p.Object.Span(rule.Pointer),
		warns: emit == true, unscored: notes["policies.kyverno.io/scored"] == "false",
	}
	overrides := p.Overrides
	if rule.Validate != nil {
		overrides = slices.Concat(overrides, rule.Validate.Overrides)
	}
	t.enforces = rule.Validate != nil && p.Enforces()
	t.selects = slices.ContainsFunc(overrides, func(o document.ActionOverride) bool { return o.NamespaceSelector != nil })
	return t
}
