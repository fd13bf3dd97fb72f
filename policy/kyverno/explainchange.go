package kyverno

import (
	"strings"

	"github.com/preadmit/preadmit/policy"
)

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
			if resp.Patched != nil && !r.hidesOf(resp.Target) {
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

// hidesOf reports whether nothing of an object may be shown.
func (r *ruleExplainer) hidesOf(o map[string]any) bool {
	return o["kind"] == "Secret" && !r.review.engine.options.CLI
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
