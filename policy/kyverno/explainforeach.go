package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// foreach tells an entry of foreach with its elements.
func (b *ruleExplainer) foreach(pointer, text string) policy.Evaluation {
	e := b.described(b.name(pointer), pointer, text)
	n := b.list(b.trace.whole, pointer)
	if n == nil {
		e.NotRun = "those before it decide"
		return e
	}
	if n.err != nil {
		e.Error, e.Unknown = b.broken(n.err)
		return e
	}
	applied := false
	for _, el := range n.elements {
		applied = applied || el.verdict != nil && el.verdict.status == StatusPass
	}
	failing := n.failing()
	switch {
	case failing == nil && !applied:
		e.Value, e.Summary = "skipped", "no element is concerned"
	case failing == nil:
		e.Value = "true"
	case failing.verdict.status == StatusError:
		e.Error, _ = b.broken(fmt.Errorf("%s", failing.verdict.message))
	case failing.verdict.status == StatusUndecided:
		e.Unknown = failing.verdict.message
	default:
		e.Value = "false"
		e.Culprits = b.culprits(b.failed(), "")
		e.Summary = b.whyElement(n, failing)
	}
	e.Parts = b.looped(n, 0, "")
	return e
}

// list is what was noted of a foreach in an element.
func (b *ruleExplainer) list(in *tracedElement, pointer string) *tracedList {
	for _, n := range in.notes {
		if n, ok := n.(*tracedList); ok && n.pointer == pointer {
			return n
		}
	}
	return nil
}

// failing is the element that ended the list.
func (n *tracedList) failing() *tracedElement {
	if len(n.elements) == 0 {
		return nil
	}
	last := n.elements[len(n.elements)-1]
	if v := last.verdict; v != nil && v.status != StatusPass && v.status != StatusSkip && !excused(v) {
		return last
	}
	return nil
}

// whyElement says in a line what an element failed on.
func (b *ruleExplainer) whyElement(n *tracedList, el *tracedElement) string {
	where := " for " + b.loop(n, el)
	for _, note := range el.notes {
		switch note := note.(type) {
		case *tracedBlock:
			if c := el.clauseOf(b, note); c != "" && note.held {
				_, why := b.denying(note, c, 0, "")
				return why + where + ", which denies it"
			}
		case *tracedMatch:
			if note.verdict.Status == pattern.Fail || note.verdict.Status == pattern.Error {
				return b.because(note, b.step(note, note.failing()))
			}
		case *tracedList:
			if inner := note.failing(); inner != nil {
				return b.whyElement(note, inner)
			}
		}
	}
	return ""
}

// clauseOf is the pointer that names of a deny block count from; "" for
// preconditions.
func (el *tracedElement) clauseOf(b *ruleExplainer, n *tracedBlock) string {
	for _, g := range n.block.block.Groups {
		for _, c := range slices.Concat(g.Any, g.All) {
			if i := strings.LastIndex(c.Pointer, "/deny/"); i >= 0 && !strings.Contains(c.Pointer[i:], "/preconditions") {
				return c.Pointer[:i+1]
			}
		}
	}
	return ""
}

// loop is the name of an element.
func (b *ruleExplainer) loop(n *tracedList, el *tracedElement) string {
	if el.pointer != "" {
		if name := b.element(b.seen(), el.pointer); name != "" {
			return name
		}
	}
	return fmt.Sprintf("element %d%s", el.index, b.called(el.value))
}

// looped are the parts of a list: how long it is, then what each element came
// to. Where they are too many those before one that fails are left out.
func (b *ruleExplainer) looped(n *tracedList, depth int, loop string) []policy.Part {
	head := policy.Part{Depth: depth, Loop: loop, Text: n.text(), Value: policy.Plural(n.count, "element"), Origin: b.program.policy.Object.Span(n.pointer + "/list")}
	if n.err != nil {
		failed, unknown := b.broken(n.err)
		head.Value, head.Error = "error: "+failed, true
		if unknown != "" {
			head.Value, head.Error = "unknown: "+unknown, false
		}
		return []policy.Part{head}
	}
	var elements [][]policy.Part
	for _, el := range n.elements {
		elements = append(elements, b.inElement(n, el, depth+1))
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

// text is the list's expression, with its variables.
func (n *tracedList) text() string {
	if n.expr == nil {
		return "list"
	}
	return policy.Shorten(n.expr.String(), maxExpression)
}

// inElement are the parts of an element.
func (b *ruleExplainer) inElement(n *tracedList, el *tracedElement, depth int) []policy.Part {
	var parts []policy.Part
	loop, base := b.loop(n, el), n.pointer+"/"
	for _, note := range el.notes {
		switch note := note.(type) {
		case *tracedEntry:
			parts = append(parts, b.entryPart(note, depth, loop))
		case *tracedBlock:
			inner, _ := b.denying(note, base, depth, loop)
			parts = append(parts, inner...)
		case *tracedMatch:
			parts = append(parts, b.steps(note, depth, loop)...)
		case *tracedList:
			parts = append(parts, b.looped(note, depth, loop)...)
		}
	}
	if el.patched {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "patched", Value: policy.Plural(el.changed, "field")})
	}
	if len(parts) == 0 {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "nothing is asked of it"})
	}
	if v := el.verdict; v != nil && (v.status == StatusError || v.status == StatusUndecided) {
		failed, _ := b.broken(fmt.Errorf("%s", v.message))
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: string(v.status), Value: failed, Error: true})
	}
	return parts
}

// entryPart is a context entry of an element.
func (b *ruleExplainer) entryPart(n *tracedEntry, depth int, loop string) policy.Part {
	p := policy.Part{Depth: depth, Loop: loop, Text: "context[" + n.Name + "] " + policy.Shorten(n.source(), maxExpression), Origin: b.program.policy.Object.Span(n.Pointer)}
	if n.err == nil {
		p.Value = b.show(n.value, b.entryOpens(n))
		return p
	}
	failed, unknown := b.broken(n.err)
	p.Value, p.Error = "error: "+failed, true
	if unknown != "" {
		p.Value, p.Error = "unknown: "+unknown, false
	}
	return p
}
