package kyverno

import (
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// mutation tells what the rule set, of the object or of its targets.
func (b *ruleExplainer) mutation() []policy.Evaluation {
	at := b.program.rule.Pointer + "/mutate"
	if len(b.program.mutation.targets) > 0 {
		return b.targets(at)
	}
	e := b.described("mutate", at, "")
	for i := range b.responses {
		b.outcome(&e, &b.responses[i])
		if after := b.responses[i].Patched; after != nil {
			for _, c := range changes(b.before, after) {
				e.Parts = append(e.Parts, b.changePart(c, 0, ""))
			}
		}
	}
	all := []policy.Evaluation{e}
	for _, n := range b.trace.whole.notes {
		if n, ok := n.(*tracedList); ok {
			x := b.described(b.name(n.pointer), n.pointer, n.text())
			x.Value, x.Parts = "true", b.looped(n, 0, "")
			if n.err != nil {
				x.Value = ""
				x.Error, x.Unknown = b.broken(n.err)
			}
			all = append(all, x)
		}
	}
	return all
}

// outcome describes the outcome of a response.
func (b *ruleExplainer) outcome(e *policy.Evaluation, r *Response) {
	switch message := policy.Shorten(r.Message, maxValue); r.Status {
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

// targets tells each object that the rule changes beside that of the request.
func (b *ruleExplainer) targets(at string) []policy.Evaluation {
	var all []policy.Evaluation
	for i := range b.responses {
		if len(all) == maxFields {
			break
		}
		r := &b.responses[i]
		e := b.described("mutate.targets", at+"/targets", "")
		if r.Target != nil {
			kind, namespace, name := nameOf(r.Target)
			e.Expression = kind[1] + " " + strings.TrimPrefix(namespace+"/"+name, "/")
			if r.Patched != nil && !b.hidesOf(r.Target) {
				for _, c := range changes(r.Target, r.Patched) {
					e.Parts = append(e.Parts, b.changePart(c, 0, ""))
				}
			}
		}
		b.outcome(&e, r)
		all = append(all, e)
	}
	if len(all) == 0 {
		e := b.described("mutate.targets", at+"/targets", "")
		e.NotRun = "there is no such object in the tree"
		all = append(all, e)
	}
	return all
}

// hidesOf says that nothing of an object may be shown.
func (b *ruleExplainer) hidesOf(o map[string]any) bool {
	return o["kind"] == "Secret" && !b.review.engine.options.CLI
}

func (b *ruleExplainer) changePart(c change, depth int, loop string) policy.Part {
	p := policy.Part{Depth: depth, Loop: loop, Text: c.pointer, Value: "removed"}
	switch {
	case c.has && c.had:
		p.Value = b.show(c.is, true) + ", which was " + b.show(c.was, true)
	case c.has:
		p.Value = b.show(c.is, true) + ", which was missing"
	}
	return p
}

// generation tells what the rule would make once the request is admitted.
func (b *ruleExplainer) generation() []policy.Evaluation {
	e := b.described("generate", b.program.rule.Pointer+"/generate", "")
	e.Value = "true"
	for i := range b.responses {
		r := &b.responses[i]
		e.Value = ""
		b.outcome(&e, r)
		for _, o := range r.Generated {
			kind, namespace, name := nameOf(o)
			e.Parts = append(e.Parts, policy.Part{Text: kind[1] + " " + strings.TrimPrefix(namespace+"/"+name, "/"), Value: "made once the request is admitted"})
		}
	}
	if e.Value == "true" && len(e.Parts) == 0 {
		e.Parts = append(e.Parts, policy.Part{Text: "nothing", Value: "what it makes is there"})
	}
	e.Parts = cutParts(e.Parts)
	return []policy.Evaluation{e}
}
