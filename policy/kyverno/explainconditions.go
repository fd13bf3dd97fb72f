package kyverno

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// checks describes the rule's checks, or why they were not evaluated.
func (r *ruleExplainer) checks(exempt string) []policy.Evaluation {
	rule := r.program.rule
	var all []policy.Evaluation
	switch {
	case rule.Mutate != nil:
		all = r.mutation()
	case rule.Generate != nil:
		all = r.generation()
	case rule.Validate == nil:
		all = r.verification()
	case rule.Validate.PodSecurity != nil:
		all = r.podSecurity()
	case rule.Validate.Manifests != nil:
		all = []policy.Evaluation{r.described("validate.manifests", rule.Pointer+"/validate/manifests", "")}
		if exempt == "" {
			return nil
		}
	case rule.Validate.CEL != nil:
		all = []policy.Evaluation{r.described("validate.cel", rule.Pointer+"/validate/cel", "")}
		exempt = cmp.Or(exempt, "the object is deleted, and Kyverno leaves these out then")
	default:
		all = r.clause()
	}
	if exempt != "" {
		return notRun(all, exempt)
	}
	return all
}

// name returns the readable form of a pointer relative to the rule.
func (r *ruleExplainer) name(pointer string) string {
	return document.Dotted(strings.TrimPrefix(pointer, r.program.rule.Pointer))
}

// at returns the pointer of a clause: validate, or an entry of its foreach.
func (r *ruleExplainer) at(c *clause) string {
	if c == r.program.clause {
		return r.program.rule.Pointer + "/validate"
	}
	return c.pointer
}

// clause describes the rule's deny, patterns or foreach.
func (r *ruleExplainer) clause() []policy.Evaluation {
	c := r.program.clause
	var all []policy.Evaluation
	switch {
	case c.denies:
		all = append(all, r.deny(c))
	case c.pattern != nil:
		all = append(all, r.pattern(c, 0, "/pattern", r.program.rule.Validate.Pattern))
	case c.anyPattern != nil:
		for i := range c.anyPattern[:min(len(c.anyPattern), maxChecks)] {
			all = append(all, r.pattern(c, i, "/anyPattern/"+strconv.Itoa(i), r.program.rule.Validate.AnyPattern[i]))
		}
	default:
		for _, f := range r.program.rule.Validate.Foreach {
			all = append(all, r.foreach(f.Pointer, f.List))
		}
	}
	return all
}

// deny describes a deny block.
func (r *ruleExplainer) deny(c *clause) policy.Evaluation {
	e := r.described("validate.deny passes", r.at(c)+"/deny", "")
	if c.deny == nil {
		e.Value, e.Expression, e.Summary = "false", "deny: {}", "it denies whatever it matches"
		return e
	}
	n := r.block(c.deny)
	if n == nil {
		e.NotRun = "not reached"
		return e
	}
	if n.err != nil {
		e.Error, e.Unknown = r.broken(n.err)
	} else {
		e.Value = fmt.Sprint(!n.held)
	}
	parts, holds := r.denying(n, r.at(c)+"/deny/", 0, "")
	e.Parts = cutParts(parts)
	if n.held {
		e.Summary = holds + ", which denies it"
		e.Culprits = r.culprits(r.failed(), "")
	}
	return e
}

// denying returns the conditions of a deny block as parts, and a summary of
// those that hold.
func (r *ruleExplainer) denying(n *tracedBlock, base string, depth int, loop string) (parts []policy.Part, summary string) {
	var holds []string
	n.each(func(c *conditions.Condition, t *tracedCondition) {
		name := strings.TrimPrefix(strings.TrimPrefix(c.Pointer, base), "conditions/")
		name = document.Dotted("/" + strings.Replace(name, "deny/conditions/", "deny/", 1))
		if t == nil || len(parts) >= maxParts {
			return
		}
		parts = append(parts, r.compared(n, t, depth, loop, name+": ")...)
		if t.err == nil && conditions.Compare(c.Operator, t.key, t.value) {
			holds = append(holds, name)
		}
	})
	switch len(holds) {
	case 0:
		return parts, "it has no conditions, so it holds"
	case 1:
		return parts, holds[0] + " holds"
	default:
		return parts, strings.Join(holds[:min(len(holds), 5)], ", ") + " hold"
	}
}

// failed returns the fields named by the rule's failures.
func (r *ruleExplainer) failed() []string {
	var fields []string
	for i := range r.responses {
		fields = append(fields, r.responses[i].Fields...)
	}
	return fields
}

// podSecurity describes each control that is violated, and the exclusions.
func (r *ruleExplainer) podSecurity() []policy.Evaluation {
	p, at := r.program.rule.Validate.PodSecurity, r.program.rule.Pointer+"/validate/podSecurity"
	e := r.described("validate.podSecurity", at, p.Level+":"+orLatest(p.Version))
	if !r.trace.pod {
		return []policy.Evaluation{e}
	}
	var all []policy.Evaluation
	for _, v := range r.trace.found {
		x := e
		x.Name, x.Value, x.Summary = e.Name+": "+v.Control, "false", v.Reason
		for _, f := range v.Fields {
			if len(x.Culprits) == maxFields {
				x.More++
				continue
			}
			x.Culprits = append(x.Culprits, r.culprits([]string{f.Pointer}, f.Field)...)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		e.Value = "true"
		all = append(all, e)
	}
	all[0].Parts = r.sparedParts(r.trace.spared)
	return all
}

func orLatest(version string) string {
	if version == "" {
		return "latest"
	}
	return version
}

// sparedParts describes the violations that are excluded.
func (r *ruleExplainer) sparedParts(spared []podsecurity.Violation) []policy.Part {
	var parts []policy.Part
	for _, v := range spared {
		p := policy.Part{Text: v.Control, Value: "excluded, at least in part: " + v.Reason}
		for i, x := range r.program.rule.Validate.PodSecurity.Exclude {
			if x.ControlName == v.Control {
				p.Origin = r.program.policy.Object.Span(r.program.rule.Pointer + "/validate/podSecurity/exclude/" + strconv.Itoa(i))
				break
			}
		}
		parts = append(parts, p)
	}
	return cutParts(parts)
}

// verification describes each entry of verifyImages.
func (r *ruleExplainer) verification() []policy.Evaluation {
	var all []policy.Evaluation
	for _, entry := range r.program.rule.VerifyImages {
		e := r.described(r.name(entry.Pointer), entry.Pointer, strings.Join(entry.ImageReferences, ", "))
		e.Value = "true"
		for _, i := range r.trace.images {
			if i.entry != entry {
				continue
			}
			p := policy.Part{Text: "image " + i.ref, Value: "is not among its imageReferences"}
			if v := i.verdict; v != nil {
				p.Value = string(v.status) + ": " + v.message
				switch v.status {
				case StatusFail:
					e.Value, e.Summary = "false", v.message
					e.Culprits = r.culprits(v.fields, "")
				case StatusUndecided:
					e.Value, e.Unknown = "", v.message
				case StatusError:
					e.Value, e.Error = "", v.message
				}
			}
			e.Parts = append(e.Parts, p)
		}
		if len(e.Parts) == 0 {
			e.NotRun = "no image was compared with it"
			e.Value = ""
		}
		e.Parts = cutParts(e.Parts)
		all = append(all, e)
	}
	return all
}

// pattern describes the match of a pattern, or of one of anyPattern, with the
// whole object.
func (r *ruleExplainer) pattern(c *clause, i int, at string, written any) policy.Evaluation {
	e := r.described(r.name(r.at(c)+at), r.at(c)+at, strings.TrimSpace(yamlText(written, maxExpression)))
	n := r.matched(r.trace.whole, c, i)
	switch {
	case n == nil && r.review.object == nil:
		e.NotRun = "the object is deleted, so there is nothing to match"
		return e
	case n == nil:
		e.NotRun = "earlier ones decide"
		return e
	}
	e.Parts = cutParts(r.steps(n, 0, ""))
	failed := r.step(n, n.failing())
	switch n.verdict.Status {
	case pattern.Pass:
		e.Value = "true"
		return e
	case pattern.Skip:
		e.Value, e.Summary = "skipped", r.because(failed)
		return e
	case pattern.Error:
		e.Value = "error"
		e.Error, _ = r.broken(fmt.Errorf("%s", n.verdict.Err))
	default:
		e.Value = "false"
	}
	e.Summary = r.because(failed)
	e.Culprits = r.culprits([]string{n.verdict.Pointer}, failed.Text)
	return e
}

// because describes in one line which part of a pattern does not match.
func (r *ruleExplainer) because(failed policy.Part) string {
	if failed.Text == "" {
		return ""
	}
	text := failed.Text + " does not hold"
	if failed.Loop != "" {
		text += " for " + failed.Loop
	}
	return text
}

// matched returns the trace of a clause's i-th pattern in an element, or nil.
func (r *ruleExplainer) matched(in *tracedElement, c *clause, i int) *tracedMatch {
	for _, n := range in.notes {
		if n, ok := n.(*tracedMatch); ok && n.clause == c && n.index == i {
			return n
		}
	}
	return nil
}

// failing returns the step that decided the verdict: the innermost of the last
// steps that did not match.
func (t *tracedMatch) failing() *pattern.Step {
	for i := len(t.steps) - 1; i >= 0; i-- {
		if s := &t.steps[i]; s.Status != pattern.Pass && (t.verdict.Status == pattern.Skip || s.Status != pattern.Skip) &&
			(t.verdict.Pointer == "" || strings.HasPrefix(t.verdict.Pointer, s.Pointer) || strings.HasPrefix(s.Pointer, t.verdict.Pointer)) {
			return s
		}
	}
	return nil
}

// steps returns the steps of a match as parts.
func (r *ruleExplainer) steps(n *tracedMatch, depth int, loop string) []policy.Part {
	var parts []policy.Part
	for i := range n.steps {
		p := r.step(n, &n.steps[i])
		p.Depth += depth
		p.Loop = cmp.Or(p.Loop, loop)
		parts = append(parts, p)
	}
	return thinned(parts, n.steps)
}

// thinned leaves out steps that match if there are too many to read.
func thinned(parts []policy.Part, steps []pattern.Step) []policy.Part {
	most := maxParts / 2
	if len(parts) <= most {
		return parts
	}
	var kept []policy.Part
	for i, p := range parts {
		if i < most/2 || i >= len(parts)-most/4 || steps[i].Status == pattern.Fail && len(kept) < most {
			kept = append(kept, p)
		}
	}
	return kept
}

// step describes a step of a match.
func (r *ruleExplainer) step(n *tracedMatch, s *pattern.Step) policy.Part {
	if s == nil {
		return policy.Part{}
	}
	object, prefix := n.value, ""
	if n.where != nil {
		if at := n.where(); at != "" {
			object, prefix = r.seen(), at
		}
	}
	loop, steps := r.elementIn(object, prefix+s.Pointer)
	keys := render.Path(s.Place)
	if from := steps - len(render.Path(prefix)); from > 0 && from < len(keys) {
		keys = keys[from:]
	}
	text := joined(keys)
	if s.Scalar {
		text += ": " + r.show(s.Wants, !n.static)
	}
	return policy.Part{
		Depth: s.Depth, Loop: loop, Text: text, Value: r.outcomeOf(s), Origin: r.placeOf(n.clause, n.index, s.Place),
	}
}

// joined formats the keys of a pattern as a readable path.
func joined(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		switch _, key := pattern.ParseKey(k); {
		case digits(k):
			b.WriteString("[" + k + "]")
		case strings.ContainsAny(key, ". "):
			b.WriteString("[" + strconv.Quote(k) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(k)
		}
	}
	return b.String()
}

// placeOf returns the policy's line for a place in a pattern. Autogen puts levels
// around a pattern, which the policy does not have.
func (r *ruleExplainer) placeOf(c *clause, i int, place string) render.Span {
	at := r.at(c) + "/pattern"
	if c.pattern == nil {
		at = r.at(c) + "/anyPattern/" + strconv.Itoa(i)
	}
	return r.program.policy.Object.Span(at + strings.TrimPrefix(place, r.program.rule.Prefix))
}

// outcomeOf describes the outcome of a step.
func (r *ruleExplainer) outcomeOf(s *pattern.Step) string {
	it := "it is " + r.show(s.Value, true)
	if _, ok := s.Value.(map[string]any); ok && !s.Scalar {
		it = "it is there"
	}
	switch holds := s.Status == pattern.Pass; {
	case s.Anchor == pattern.Negation && holds:
		return "yes, there is none"
	case s.Anchor == pattern.Negation:
		return "no, " + it
	case !s.Found && holds && s.Anchor != pattern.None:
		return "yes, there is none, and none is needed"
	case s.Anchor == pattern.Existence && holds:
		return "yes, one of them matches"
	case s.Anchor == pattern.Existence && s.Status == pattern.Fail:
		return "no, none of them matches"
	case !s.Found:
		it = "there is none"
	}
	switch {
	case s.Status == pattern.Pass:
		return "yes, " + it
	case s.Anchor == pattern.Global:
		return "no, so the rule is skipped: " + it
	case s.Status == pattern.Skip:
		return "no, so it is skipped: " + it
	default:
		return "no, " + it
	}
}
