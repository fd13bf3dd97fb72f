package kyverno

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

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
