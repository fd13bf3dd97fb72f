package kyvernocel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// A validator evaluates objects as they will be stored.
type validator struct{ *Engine }

// EvaluatesWritten implements policy.WrittenValidator.
func (validator) EvaluatesWritten() {}

// Validator evaluates requests by ValidatingPolicies and ImageValidatingPolicies,
// a result for each validation.
func (e *Engine) Validator() policy.Validator { return validator{e} }

// SelectsMade implements policy.MadeEngine.
func (v validator) SelectsMade(made, maker schema.GroupVersionKind) bool {
	return v.selectsMade(false, made, maker)
}

// SelectsMade implements policy.MadeEngine.
func (m mutator) SelectsMade(made, maker schema.GroupVersionKind) bool {
	return m.selectsMade(true, made, maker)
}

// selectsMade reports whether policies about objects that are made of a maker's objects have no copy for the
// maker.
func (e *Engine) selectsMade(mutating bool, made, maker schema.GroupVersionKind) bool {
	if len(e.policies) == 0 {
		return false
	}
	r := policy.MadeRequest(made)
	about := e.review(context.Background(), r, nil).policiesFor(mutating)
	r.Kind, r.Resource = maker, e.options.Kinds.Resource(maker)
	ofMaker := e.review(context.Background(), r, nil).policiesFor(mutating)
	return slices.ContainsFunc(about, func(p *Policy) bool {
		return len(p.copies) == 0 || made == policy.PodKind && !slices.Contains(ofMaker, p)
	})
}

// Validate implements policy.Validator.
func (v validator) Validate(ctx context.Context, req *policy.Request) ([]policy.Result, error) {
	all := req.Room()
	if len(v.policies) == 0 {
		return all, ctx.Err()
	}
	r := v.review(ctx, req, nil)
	for _, p := range r.policiesFor(false) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if req.Maker != nil && req.Kind != policy.PodKind && len(p.copies) > 0 {
			continue // a rule about pods, which are asked about themselves
		}
		policy.Observed(ctx, policy.EngineValidating, p.Name, func() {
			for _, verdict := range p.evaluate(r) {
				result := p.result(verdict)
				v.filters.Apply(&result, req)
				all = append(all, result)
			}
		})
	}
	return all, ctx.Err()
}

// evaluate returns the verdicts of the policy, or of its copy for the object's
// kind.
func (p *Policy) evaluate(r *review) []verdict {
	c, as, matches := p.copyFor(r)
	switch matches {
	case match.No:
		return nil
	case match.Unknown:
		return []verdict{p.unmatched(c, r)}
	}
	x := r.run(c, as)
	if v, unfit := x.unfit(); unfit {
		return []verdict{v}
	}
	return x.validations()
}

// copyFor returns the policy, or its copy for pod controllers, that matches the
// request, and the version in which it sees the object.
func (p *Policy) copyFor(r *review) (*compiled, policy.Version, match.Truth) {
	if p.Namespace != "" && p.Namespace != r.req.Namespace {
		return nil, policy.Version{}, match.No
	}
	if c := p.main; c.criteria != nil {
		if t, as := c.criteria.Match(r); t != match.No {
			return c, as, t
		}
	}
	for _, c := range p.copies {
		if t, as := c.criteria.Match(r); t != match.No {
			return c, as, t
		}
	}
	return nil, policy.Version{}, match.No
}

// unmatched returns the verdict of a policy if it is unknown whether it matches.
func (p *Policy) unmatched(c *compiled, r *review) verdict {
	question, pointer := c.criteria.Question(r)
	return verdict{rule: "matchConstraints", origin: p.Object.Span("/spec/matchConstraints" + pointer), outcome: policy.Unknown, message: question}
}

// A candidateKey holds all that the candidates for a request depend on.
type candidateKey struct {
	mutating    bool
	resource    schema.GroupVersionResource
	subResource string
	operation   policy.Operation
	clustered   bool
}

// mostCandidates bounds the number of lists of candidates that are kept.
const mostCandidates = 1024

// policiesFor returns the policies that may match the request, of those that mutate objects or of
// those that validate them.
func (r *review) policiesFor(mutating bool) []*Policy {
	e := r.engine
	key := candidateKey{mutating, r.req.Resource.GroupVersionResource, r.req.SubResource, r.req.Operation, r.In() == ""}
	if known, ok := e.candidates.Load(key); ok {
		return known.([]*Policy)
	}
	var all []*Policy
	for _, p := range e.policies {
		concerned := p.Kind == Mutating
		if !mutating {
			concerned = p.Kind == Validating || p.Kind == ImageValidating
		}
		if concerned && p.spec.Evaluation.Mode == modeKubernetes && p.mayMatch(r) {
			all = append(all, p)
		}
	}
	if e.cached.Add(1) <= mostCandidates {
		e.candidates.Store(key, all)
	}
	return all
}

func (p *Policy) mayMatch(r *review) bool {
	return p.main.criteria != nil && p.main.criteria.MayMatch(r) ||
		slices.ContainsFunc(p.copies, func(c *compiled) bool { return c.criteria.MayMatch(r) })
}

// unfit returns an Error verdict and true if the copy did not compile or the
// object could not be converted.
func (r *run) unfit() (verdict, bool) {
	switch {
	case len(r.c.broken) > 0:
		err := render.Errors(r.c.broken[0])[0]
		return verdict{rule: err.Rule, origin: err.Span, outcome: policy.Error, message: "generated for pod controllers: " + err.Err.Error()}, true
	case r.objects.Err != nil:
		return verdict{
			rule: "matchConstraints", origin: r.c.policy.Object.Span("/spec/matchConstraints"), outcome: policy.Error, message: r.objects.Err.Error(),
		}, true
	}
	return verdict{}, false
}

// validations evaluates the validations. Like Kyverno it stops after one with
// an error.
func (r *run) validations() []verdict {
	if v, done := r.exempt(); done {
		return r.each(v)
	}
	if vs, done := r.conditions(); done {
		return vs
	}
	if r.c.policy.Kind == ImageValidating {
		if vs, done := r.verifiedImages(); done {
			return vs
		}
	}
	vs := make([]verdict, 0, len(r.c.validations))
	for i := range r.c.validations {
		v := r.validation(i)
		vs = append(vs, v)
		if v.outcome == policy.Error || v.outcome == policy.Unknown {
			return vs
		}
	}
	return append(vs, r.auditAnnotations()...)
}

// each returns the same verdict for every validation.
func (r *run) each(v verdict) []verdict {
	vs := make([]verdict, len(r.c.validations))
	for i, e := range r.c.validations {
		vs[i] = v
		vs[i].rule, vs[i].origin = e.Rule, e.Origin
	}
	return vs
}

// conditions evaluates the match conditions. done reports that the validations
// must not run.
func (r *run) conditions() (vs []verdict, done bool) {
	held, culprit, err := r.all(r.c.conditions)
	switch {
	case err != nil:
		v := r.broken(culprit, "failed to load context: ", err)
		if v.outcome != policy.Error || !r.c.spec.ignores() {
			return []verdict{v}, true
		}
		v.outcome = policy.Skip
		return r.each(v), true
	case !held:
		return r.each(verdict{outcome: policy.Skip, message: r.exempted(culprit), assumed: r.assumptions()}), true
	}
	return nil, false
}

// exempted returns the message for a request that a match condition exempts.
// Kyverno's command line gives no details.
func (r *run) exempted(by *cel.Expression) string {
	if r.mocks != nil {
		return "skip"
	}
	return fmt.Sprintf("exempt by match condition %q", by.Name)
}

func (r *run) validation(i int) verdict {
	e := r.c.validations[i]
	held, err := r.holds(e)
	if err != nil {
		v := r.broken(e, "error: ", err)
		if v.outcome == policy.Error && !cel.WasStopped(err) {
			v.fields, v.literals = r.blame(e)
		}
		return v
	}
	v := verdict{rule: e.Rule, origin: e.Origin, outcome: policy.Pass, assumed: r.assumptions()}
	if !held {
		v.outcome, v.message = policy.Fail, r.message(i)
		v.fields, v.literals = r.blame(e)
	}
	return v
}

// maxText is the longest message.
const maxText = 5 << 10

// message returns the message of failed validation i: messageExpression,
// message or a default.
func (r *run) message(i int) string {
	message := strings.TrimSpace(r.c.spec.Validations[i].Message)
	if e := r.c.messages[i]; e != nil {
		v, err := r.eval(e)
		s, ok := v.(types.String)
		switch {
		case err != nil:
			message = "failed to evaluate message expression: " + err.Error()
		case r.secret && cel.Quotes(e.AST):
			message = cel.ErrHidden.Error()
		case !ok:
			message = "failed to convert message expression to string"
		default:
			message = strings.TrimSpace(string(s))
		}
	}
	if message == "" {
		message = fmt.Sprintf("CEL expression validation failed at index %d", i)
	}
	return policy.Shorten(message, maxText)
}

// auditAnnotations evaluates the audit annotations. Only their errors matter.
func (r *run) auditAnnotations() []verdict {
	for _, e := range r.c.annotations {
		if _, err := r.eval(e); err != nil {
			return []verdict{r.broken(e, "failed to evaluate auditAnnotation: ", err)}
		}
	}
	return nil
}

// result converts a verdict to a result.
func (p *Policy) result(v verdict) policy.Result {
	r := policy.Result{
		Engine: p.engine(), Policy: p.Name, Rule: v.rule, Outcome: v.outcome, Action: p.action, Severity: p.severity,
		Message: v.message, Fields: v.fields, Literals: v.literals, Assumed: v.assumed, PolicyOrigin: v.origin,
	}
	if v.outcome == policy.Error && p.Kind == Mutating && p.spec.ignores() {
		r.Action = policy.Warn // Kyverno denies errors of validations all the same
	}
	return r
}

// engine returns the policy's kind, which is the engine in results.
func (p *Policy) engine() string {
	switch p.Kind {
	case Mutating:
		return policy.EngineMutating
	case ImageValidating:
		return policy.EngineImages
	default:
		return policy.EngineValidating
	}
}
