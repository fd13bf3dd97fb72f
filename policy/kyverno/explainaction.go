package kyverno

import (
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// actions returns the settings that decide the action when the rule fails: the
// one that applies, and those before it that don't.
func (r *ruleExplainer) actions() []policy.Bound {
	p, rule := r.program.policy, r.program.rule
	s := &settings{ruleExplainer: r}
	if v := rule.Validate; v != nil {
		s.overrides(v.Overrides, rule.Pointer, "/validate/failureActionOverrides")
		s.is(v.Action, rule.Pointer, "/validate/failureAction")
	}
	if a := document.ImagesAction(rule.VerifyImages); a != "" {
		for _, v := range rule.VerifyImages {
			if v.Action == a {
				s.is(a, "", v.Pointer+"/failureAction")
			}
		}
	}
	s.overrides(p.Overrides, "", "/spec/validationFailureActionOverrides")
	if text, _ := lookup(p.Object.Object, "spec", "validationFailureAction"); text != nil {
		s.is(p.Action, "", "/spec/validationFailureAction")
	} else if !s.done {
		s.list = append(s.list, policy.Bound{Name: "validationFailureAction", Matches: policy.Yes, Actions: []string{p.Action + " by default"}})
	}
	return append(s.list, r.warnings()...)
}

// warnings returns the settings that make an audited failure a warning.
func (r *ruleExplainer) warnings() []policy.Bound {
	var all []policy.Bound
	o, reported := r.program.policy.Object, r.program.reported
	if reported.warns {
		all = append(all, policy.Bound{Name: "emitWarning", Origin: o.Span("/spec/emitWarning"), Matches: policy.Yes, Actions: []string{"a warning where it is not enforced"}})
	}
	if reported.unscored {
		at := "/metadata/annotations/policies.kyverno.io~1scored"
		all = append(all, policy.Bound{Name: "policies.kyverno.io/scored: false", Origin: o.Span(at), Matches: policy.Yes, Actions: []string{"a warning where it is not enforced"}})
	}
	return all
}

// settings collects the settings that may decide the action, until one does.
type settings struct {
	*ruleExplainer
	list []policy.Bound
	done bool
}

func (s *settings) is(action, base, at string) {
	if s.done || action == "" {
		return
	}
	s.done = true
	s.list = append(s.list, policy.Bound{
		Name: s.called(base, at), Origin: s.program.policy.Object.Span(base + at), Matches: policy.Yes, Actions: []string{action},
	})
}

// called returns a setting's name, relative to the rule or the policy.
func (s *settings) called(base, at string) string {
	if base == "" && strings.HasPrefix(at, s.program.rule.Pointer) {
		return s.name(at)
	}
	return document.Dotted(strings.TrimPrefix(at, "/spec"))
}

func (s *settings) overrides(all []document.ActionOverride, base, at string) {
	req := s.review.req
	for i := range all {
		o := &all[i]
		if s.done || len(s.list) == maxChecks {
			return
		}
		if o.Action == "" {
			continue
		}
		labels, fits, unknown := map[string]string(nil), false, ""
		s.review.quietly(func() {
			s.review.questions = nil
			labels = s.review.namespaceLabels()
			fits = o.Fits(req.Namespace, labels)
			if len(s.review.questions) > 0 && o.NamespaceSelector != nil && !o.NamespaceSelector.SelectsByNameOnly() {
				unknown = s.review.questions[0]
			}
		})
		here := base + at + "/" + strconv.Itoa(i)
		bound := policy.Bound{Name: s.called(base, at+"/"+strconv.Itoa(i)), Origin: s.program.policy.Object.Span(here), Matches: answer(fits), Actions: []string{o.Action}}
		if len(o.Namespaces) > 0 {
			bound.Match = append(bound.Match, s.override("namespaces", here, strings.Join(o.Namespaces, ", "), pattern.AnyWildcard(o.Namespaces, req.Namespace), namespaceText(req.Namespace)))
		}
		if o.NamespaceSelector != nil {
			c := s.override("namespaceSelector", here, selectorText(o.NamespaceSelector), o.NamespaceSelector.Matches(labels), "the namespace "+labelsText(labels))
			if unknown != "" {
				c.Answer, c.Why = policy.Undecided, unknown
				if len(bound.Match) == 0 || bound.Match[0].Answer == policy.Yes {
					bound.Matches = policy.Undecided
				}
			}
			bound.Match = append(bound.Match, c)
		}
		s.list, s.done = append(s.list, bound), fits
	}
}

func (s *settings) override(name, at, text string, holds bool, why string) policy.Check {
	if holds {
		why = ""
	}
	return policy.Check{Name: name, Text: policy.Shorten(text, maxChecked), Answer: answer(holds), Why: why, Origin: s.program.policy.Object.Span(at + "/" + name)}
}
