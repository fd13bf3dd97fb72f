package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// foreach describes an entry of foreach with its elements.
func (r *ruleExplainer) foreach(pointer, text string) policy.Evaluation {
	e := r.described(r.name(pointer), pointer, text)
	n := r.list(r.trace.whole, pointer)
	if n == nil {
		e.NotRun = "earlier ones decide"
		return e
	}
	if n.err != nil {
		e.Error, e.Unknown = r.broken(n.err)
		return e
	}
	applied := false
	for _, el := range n.elements {
		applied = applied || el.verdict != nil && el.verdict.status == StatusPass
	}
	failing := n.failing()
	switch {
	case failing == nil && !applied:
		e.Value, e.Summary = "skipped", "every element is skipped"
	case failing == nil:
		e.Value = "true"
	case failing.verdict.status == StatusError:
		e.Error, _ = r.broken(fmt.Errorf("%s", failing.verdict.message))
	case failing.verdict.status == StatusUndecided:
		e.Unknown = failing.verdict.message
	default:
		e.Value = "false"
		e.Culprits = r.culprits(r.failed(), "")
		e.Summary = r.whyElement(failing)
	}
	e.Parts = r.elementParts(n, 0, "")
	return e
}

// list returns the trace of the foreach at pointer inside an element, or nil.
func (r *ruleExplainer) list(in *tracedElement, pointer string) *tracedList {
	for _, n := range in.notes {
		if n, ok := n.(*tracedList); ok && n.pointer == pointer {
			return n
		}
	}
	return nil
}

// failing returns the element that ended the loop, or nil.
func (t *tracedList) failing() *tracedElement {
	if len(t.elements) == 0 {
		return nil
	}
	last := t.elements[len(t.elements)-1]
	if v := last.verdict; v != nil && v.status != StatusPass && v.status != StatusSkip && !excused(v) {
		return last
	}
	return nil
}

// whyElement describes in one line why an element failed.
func (r *ruleExplainer) whyElement(el *tracedElement) string {
	where := " for " + r.loop(el)
	for _, note := range el.notes {
		switch note := note.(type) {
		case *tracedBlock:
			if c := el.clauseOf(note); c != "" && note.held {
				_, why := r.denying(note, c, 0, "")
				return why + where + ", which denies it"
			}
		case *tracedMatch:
			if note.verdict.Status == pattern.Fail || note.verdict.Status == pattern.Error {
				return r.because(r.step(note, note.failing()))
			}
		case *tracedList:
			if inner := note.failing(); inner != nil {
				return r.whyElement(inner)
			}
		}
	}
	return ""
}

// clauseOf returns the pointer to which the names of a deny block's conditions are
// relative, or "" for preconditions.
func (t *tracedElement) clauseOf(n *tracedBlock) string {
	for _, g := range n.block.block.Groups {
		for _, c := range slices.Concat(g.Any, g.All) {
			if i := strings.LastIndex(c.Pointer, "/deny/"); i >= 0 && !strings.Contains(c.Pointer[i:], "/preconditions") {
				return c.Pointer[:i+1]
			}
		}
	}
	return ""
}

// loop returns the name of an element.
func (r *ruleExplainer) loop(el *tracedElement) string {
	if el.pointer != "" {
		if name := r.element(r.seen(), el.pointer); name != "" {
			return name
		}
	}
	return fmt.Sprintf("element %d%s", el.index, r.called(el.value))
}

// elementParts returns the parts of a list: its length, then the outcome of each
// element. If there are too many, elements before a failing one are left out.
func (r *ruleExplainer) elementParts(n *tracedList, depth int, loop string) []policy.Part {
	head := policy.Part{Depth: depth, Loop: loop, Text: n.text(), Value: policy.Plural(n.count, "element"), Origin: r.program.policy.Object.Span(n.pointer + "/list")}
	if n.err != nil {
		r.setError(&head, n.err)
		return []policy.Part{head}
	}
	var elements [][]policy.Part
	for _, el := range n.elements {
		elements = append(elements, r.partsOf(n, el, depth+1))
	}
	room := maxParts - 2
	if f := n.failing(); f != nil && len(elements) > 0 {
		last := elements[len(elements)-1]
		last = last[max(0, len(last)-room/2):]
		elements[len(elements)-1] = last
		room -= len(last)
	}
	parts, left := []policy.Part{head}, n.dropped
	for i, el := range elements {
		if i < len(elements)-1 || n.failing() == nil {
			if room -= len(el); room < 0 {
				left++
				continue
			}
		} else if left > 0 {
			parts = append(parts, policy.Part{Depth: depth + 1, Text: "…", Value: policy.Plural(left, "element") + " that did not fail"})
			left = 0
		}
		parts = append(parts, el...)
	}
	if left > 0 {
		parts = append(parts, policy.Part{Depth: depth + 1, Text: "…", Value: policy.Plural(left, "element") + " that did not fail"})
	}
	return parts
}

// text returns the list's expression with its variables substituted.
func (t *tracedList) text() string {
	if t.expr == nil {
		return "list"
	}
	return policy.Shorten(t.expr.String(), maxExpression)
}

// partsOf returns the parts of an element.
func (r *ruleExplainer) partsOf(n *tracedList, el *tracedElement, depth int) []policy.Part {
	var parts []policy.Part
	loop, base := r.loop(el), n.pointer+"/"
	for _, note := range el.notes {
		switch note := note.(type) {
		case *tracedEntry:
			parts = append(parts, r.entryPart(note, depth, loop))
		case *tracedBlock:
			inner, _ := r.denying(note, base, depth, loop)
			parts = append(parts, inner...)
		case *tracedMatch:
			parts = append(parts, r.steps(note, depth, loop)...)
		case *tracedList:
			parts = append(parts, r.elementParts(note, depth, loop)...)
		}
	}
	if el.patched {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "patched", Value: policy.Plural(el.changed, "field")})
	}
	if len(parts) == 0 {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "nothing is checked"})
	}
	if v := el.verdict; v != nil && (v.status == StatusError || v.status == StatusUndecided) {
		failed, _ := r.broken(fmt.Errorf("%s", v.message))
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: string(v.status), Value: failed, Error: true})
	}
	return parts
}

// entryPart describes a context entry of an element.
func (r *ruleExplainer) entryPart(n *tracedEntry, depth int, loop string) policy.Part {
	p := policy.Part{Depth: depth, Loop: loop, Text: "context[" + n.Name + "] " + policy.Shorten(n.source(), maxExpression), Origin: r.program.policy.Object.Span(n.Pointer)}
	if n.err != nil {
		r.setError(&p, n.err)
	} else {
		p.Value = r.show(n.value, r.entryOpens(n))
	}
	return p
}

// mutation describes the fields that the rule set in the object or in its
// targets.
func (r *ruleExplainer) mutation() []policy.Evaluation {
	at := r.program.rule.Pointer + "/mutate"
	if len(r.program.mutation.targets) > 0 {
		return r.targets(at)
	}
	e := r.described("mutate", at, "")
	for i := range r.responses {
		r.outcome(&e, &r.responses[i])
		if after := r.responses[i].Patched; after != nil {
			for _, c := range changes(r.before, after) {
				e.Parts = append(e.Parts, r.changePart(c, 0, ""))
			}
		}
	}
	all := []policy.Evaluation{e}
	for _, n := range r.trace.whole.notes {
		if n, ok := n.(*tracedList); ok {
			x := r.described(r.name(n.pointer), n.pointer, n.text())
			x.Value, x.Parts = "true", r.elementParts(n, 0, "")
			if n.err != nil {
				x.Value = ""
				x.Error, x.Unknown = r.broken(n.err)
			}
			all = append(all, x)
		}
	}
	return all
}

// outcome describes the outcome of a response.
func (r *ruleExplainer) outcome(e *policy.Evaluation, resp *Response) {
	switch message := policy.Shorten(resp.Message, maxValue); resp.Status {
	case StatusPass:
		e.Value = "true"
	case StatusSkip:
		e.Value, e.Summary = "skipped", message
	case StatusUndecided:
		e.Unknown = message
	default:
		e.Error = message
	}
}

// targets describes each object that the rule changes besides the request's.
func (r *ruleExplainer) targets(at string) []policy.Evaluation {
	var all []policy.Evaluation
	for i := range r.responses {
		if len(all) == maxFields {
			break
		}
		resp := &r.responses[i]
		e := r.described("mutate.targets", at+"/targets", "")
		if resp.Target != nil {
			kind, namespace, name := nameOf(resp.Target)
			e.Expression = kind[1] + " " + strings.TrimPrefix(namespace+"/"+name, "/")
			if resp.Patched != nil && !(resp.Target["kind"] == "Secret" && !r.review.engine.options.CLI) {
				for _, c := range changes(resp.Target, resp.Patched) {
					e.Parts = append(e.Parts, r.changePart(c, 0, ""))
				}
			}
		}
		r.outcome(&e, resp)
		all = append(all, e)
	}
	if len(all) == 0 {
		e := r.described("mutate.targets", at+"/targets", "")
		e.NotRun = "there is no such object in the tree"
		all = append(all, e)
	}
	return all
}

func (r *ruleExplainer) changePart(c change, depth int, loop string) policy.Part {
	p := policy.Part{Depth: depth, Loop: loop, Text: c.pointer, Value: "removed"}
	switch {
	case c.has && c.had:
		p.Value = r.show(c.is, true) + ", which was " + r.show(c.was, true)
	case c.has:
		p.Value = r.show(c.is, true) + ", which was missing"
	}
	return p
}

// generation describes the objects that the rule would generate once the
// request is admitted.
func (r *ruleExplainer) generation() []policy.Evaluation {
	e := r.described("generate", r.program.rule.Pointer+"/generate", "")
	e.Value = "true"
	for i := range r.responses {
		resp := &r.responses[i]
		e.Value = ""
		r.outcome(&e, resp)
		for _, o := range resp.Generated {
			kind, namespace, name := nameOf(o)
			e.Parts = append(e.Parts, policy.Part{Text: kind[1] + " " + strings.TrimPrefix(namespace+"/"+name, "/"), Value: "created when the request is admitted"})
		}
	}
	if e.Value == "true" && len(e.Parts) == 0 {
		e.Parts = append(e.Parts, policy.Part{Text: "nothing", Value: "the objects that it generates exist already"})
	}
	e.Parts = cutParts(e.Parts)
	return []policy.Evaluation{e}
}
