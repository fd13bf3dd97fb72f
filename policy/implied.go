package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A MadeEngine is a Mutator or Validator that gets the objects that controllers create.
type MadeEngine interface {
	// SelectsMade reports whether a policy may have a result about objects of the kind made, which a
	// controller creates of the maker's objects, that it does not have about the maker's themselves.
	// Kyverno, for example, copies rules about pods.
	SelectsMade(made, maker schema.GroupVersionKind) bool
}

// maxTemplates limits the templates of an object that are evaluated.
const maxTemplates = 100

// reviewMade returns the results of the policies on the objects that controllers create of the request's
// object, such as pods. The API server asks these policies only then, and refuses each of these objects.
// The fields of the results are those of the request's object. own are the results about that object: what
// a rule finds there it does not find again in what is made of it.
func (c Chain) reviewMade(ctx context.Context, req *Request, own ...[]Result) ([]Result, error) {
	var results []Result
	all := c.made(req)
	passed := make(map[useKey]bool) // rules that a created object has passed
	for i, m := range all {
		if i == maxTemplates {
			results = append(results, Result{
				Engine: EngineCompile, Policy: "all", Rule: "templates", Outcome: Unknown, Action: Deny, Fields: []string{m.by.template},
				Message: fmt.Sprintf("only the first %d of %d templates are checked", maxTemplates, len(all)),
			})
			break
		}
		found, err := m.review(ctx, newHistory())
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			key := useKey{r.Engine, r.Policy, r.Rule}
			if m.OldObject != nil && slices.ContainsFunc(results, func(o Result) bool { return o.Rule == r.Rule && o.Policy == r.Policy && o.Message == r.Message }) {
				continue // the creation before this update has it, too
			}
			if r.Outcome != Pass || !passed[key] {
				results = append(results, r)
			}
			passed[key] = passed[key] || r.Outcome == Pass
		}
	}
	said := make(map[useKey]*Result)
	for _, list := range own {
		for i := range list {
			key := useKey{list[i].Engine, list[i].Policy, WithoutAutogen(list[i].Rule)}
			if o := said[key]; o == nil || list[i].Outcome == Fail && (o.Outcome != Fail || list[i].Action.AtLeast(o.Action)) {
				said[key] = &list[i]
			}
		}
	}
	return slices.DeleteFunc(results, func(r Result) bool {
		o := said[useKey{r.Engine, r.Policy, WithoutAutogen(r.Rule)}]
		return o != nil && (!r.fails() || o.fails() && o.Action.AtLeast(r.Action) && (o.Outcome == Fail || r.Outcome != Fail))
	}), nil
}

// A made is a request with which a controller creates an object, and the engines for it: those with
// policies about such objects, and those that prepare objects.
type made struct {
	*Request
	about Chain
}

// made returns the requests with which controllers create objects of the request's object, if there are
// policies about these.
func (c Chain) made(req *Request) (all []made) {
	if req.Object == nil || req.SubResource != "" {
		return nil
	}
	var about map[schema.GroupVersionKind]Chain
	for _, p := range req.products(func(kind schema.GroupVersionKind) bool {
		engines, selected := c.aboutMade(kind, req.Kind)
		if selected && about == nil {
			about = make(map[schema.GroupVersionKind]Chain)
		}
		if selected {
			about[kind] = engines
		}
		return selected
	}) {
		if r := newMade(req, p); r != nil {
			for _, r := range r.toUpdate() {
				all = append(all, made{r, about[p.kind]})
			}
		}
	}
	return all
}

// aboutMade returns the engines for objects of a kind that controllers create of a maker's objects.
func (c Chain) aboutMade(kind, maker schema.GroupVersionKind) (_ Chain, selected bool) {
	selects := func(engine any) bool {
		e, ok := engine.(MadeEngine)
		return ok && e.SelectsMade(kind, maker)
	}
	if !slices.ContainsFunc(c.Mutators, func(m Mutator) bool { return selects(m) }) && !slices.ContainsFunc(c.Validators, func(v Validator) bool { return selects(v) }) {
		return c, false
	}
	c.Mutators = slices.DeleteFunc(slices.Clone(c.Mutators), func(m Mutator) bool { return !selects(m) })
	c.Validators = slices.DeleteFunc(slices.Clone(c.Validators), func(v Validator) bool {
		_, prepares := v.(Preparer)
		return !prepares && !selects(v)
	})
	return c, true
}

// review reviews the request.
func (m made) review(ctx context.Context, h *history) ([]Result, error) {
	results, admitted := m.about.admit(m.Request, h)
	if admitted {
		mutations, err := m.about.mutate(ctx, m.Request, h)
		if err != nil {
			return nil, err
		}
		var others []Result
		var other Request
		for _, v := range m.about.Validators {
			if e, ok := v.(MadeEngine); ok && e.SelectsMade(m.Kind, m.Maker.Kind) {
				if other.Admitted == nil {
					other = *m.Request
					other.Admitted, other.Typed = otherMade(m.Request), nil
				}
				rs, err := m.about.validate(ctx, v, m.Request)
				if err != nil {
					return nil, err
				}
				results = append(results, rs...)
				if rs, err = m.about.validate(ctx, v, &other); err != nil {
					return nil, err
				}
				others = append(others, slices.DeleteFunc(rs, func(r Result) bool { return !r.fails() })...)
			}
			if p, ok := v.(Preparer); ok {
				m.prepareBy(p, h)
				other = Request{}
			}
		}
		results = append(mutations, undecideDiffering(results, nil, others, "depends on a name, label or node that its controller chooses")...)
	}
	for i := range results {
		results[i].ofMade(m.Request, h)
	}
	return results, nil
}

// explainMade adds to the explanations of decisions about the request's object those about the objects that
// controllers create of it. An explanation that only says that the object is of another kind is left out.
func (c Chain) explainMade(ctx context.Context, req *Request, h *history, own []Explanation, policy, rule string) ([]Explanation, error) {
	var said []Result
	for i := range own {
		said = append(said, own[i].Results...)
	}
	results, err := c.reviewMade(ctx, req, said)
	all := c.made(req)
	if err != nil || len(all) == 0 {
		return own, err
	}
	chosen := -1 // the first that the rule refuses, else the first that it looks at
	for i := range all[:min(len(all), maxTemplates)] {
		found, err := all[i].review(ctx, newHistory())
		if err != nil {
			return own, err
		}
		found = slices.DeleteFunc(found, func(r Result) bool { return r.Policy != policy || rule != "" && r.Rule != rule })
		if len(found) > 0 && chosen < 0 {
			chosen = i
		}
		if slices.ContainsFunc(found, func(r Result) bool { return r.fails() }) {
			chosen = i
			break
		}
	}
	m := c.made(req)[max(chosen, 0)] // anew, since the review has changed it
	made, about, changes := m.Request, m.about, newHistory()
	if _, admitted := about.admit(made, newHistory()); !admitted {
		return own, nil
	}
	es, err := about.explainAdmitted(ctx, made, changes, policy, rule, func(*Explanation) {})
	for _, e := range es {
		e.Results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool {
			return r.Engine != e.Engine || r.Policy != policy || !e.isAboutRule(r.Rule) || r.Made != made.Kind.Kind
		})
		for i := range e.Results {
			c.undecide(&e.Results[i], req.Subject())
		}
		no := slices.IndexFunc(own, func(o Explanation) bool {
			return o.Engine == e.Engine && o.Origin == e.Origin && len(o.Results) == 0 && (o.Matches == "" || o.ofOtherKind())
		})
		if len(e.Results) == 0 && (no < 0 || e.ofOtherKind()) {
			continue
		}
		if no >= 0 {
			own = slices.Delete(own, no, no+1)
		}
		for i := range e.Trials {
			e.Trials[i].eachCulprit(func(c *Culprit) {
				if c.Root == "object" {
					c.Pointer, _ = made.inMaker(c.Pointer, changes)
				}
			})
		}
		e.locate(req, h)
		e.Pods, e.Request = true, made.asked()
		own = append(own, e)
	}
	return own, err
}

// isAboutRule reports whether an explanation is about the rule of that name.
func (e *Explanation) isAboutRule(rule string) bool {
	return len(e.Rules) == 0 || slices.ContainsFunc(e.Rules, func(r Rule) bool { return r.Name == rule }) ||
		slices.ContainsFunc(e.Results, func(r Result) bool { return r.Rule == rule })
}

// ofMade converts a result about an object that a controller creates to one about the object of which it is made.
func (r *Result) ofMade(made *Request, h *history) {
	r.Assumed = distinct(r.Assumed, h.doubts)
	r.Fields = slices.Clone(r.Fields) // results of other requests may share them
	for i, f := range r.Fields {
		if r.AsWritten {
			break // they are fields of the maker's object
		}
		var set []string
		r.Fields[i], set = made.inMaker(f, h)
		r.Assumed = distinct(r.Assumed, set)
	}
	if len(r.Fields) == 0 && r.fails() {
		r.Fields = []string{made.by.template}
	}
	if made.by.controller == "" && (r.Outcome == Fail || r.Outcome == Error) {
		r.Message = "not known whether the controller of " + made.Maker.Kind.Kind + " creates pods from this template: " + r.Message
		if r.Outcome == Error || r.Action == Deny {
			r.Outcome = Unknown
		}
	}
	r.aboutMade(made.by.kind)
}

// inMaker returns the field of the maker's object that a field of the created one comes from, and the policies
// that set it.
func (r *Request) inMaker(field string, h *history) (from string, set []string) {
	was, touches := h.back(field)
	if _, set = h.places(r.Object, was, touches); len(set) > 0 && strings.HasPrefix(field, was) {
		was = field
	} else {
		set = nil
	}
	from = r.by.template
	if slices.ContainsFunc(copied, func(p string) bool { return was == p || strings.HasPrefix(was, p+"/") }) {
		if r.by.kind != replicaSetKind || strings.HasPrefix(was, "/metadata/labels") {
			return from + was, set
		}
		return was, set
	}
	return from, set
}

// copied are the fields that a controller copies from the template, and of a ReplicaSet from the object,
// but for the labels.
var copied = []string{"/spec", "/metadata/labels", "/metadata/annotations", "/metadata/finalizers"}

// AboutPods makes a result one about the pods that the object's controller creates.
func (r *Result) AboutPods() { r.aboutMade(PodKind) }

func (r *Result) aboutMade(kind schema.GroupVersionKind) {
	rejected := "; its " + madeName(kind.Kind) + "s would be rejected"
	if r.Pods, r.Made = true, kind.Kind; r.Outcome == Fail && r.Action == Deny {
		r.Message = Shorten(r.Message, MaxMessage-len(rejected)) + rejected
	}
}

// madeName names an object that a controller creates.
func madeName(kind string) string {
	if kind == PodKind.Kind {
		return "pod"
	}
	return kind
}
