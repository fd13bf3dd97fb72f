package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// mostNear bounds the objects of a kind that are compared with a rule which
// matches none of them.
const mostNear = 50

// A miss is why a rule does not match an object.
type miss struct {
	object render.Key
	checks []Check // that say no
	from   string  // the binding that they are of; "" is the policy
}

// WhyUnmatched returns a finding for a rule that matches none of the requests: the
// kinds that are not among them, or the check that the nearest object fails. ok
// is false if the chain has no such rule, or it matches after all.
func (c Chain) WhyUnmatched(ctx context.Context, reqs []Request, use *Use) (found Result, ok bool, err error) {
	var near *miss
	var kinds []Check
	candidates, known := 0, false
	for _, group := range byKind(reqs) {
		for i, req := range group {
			m, answered, err := c.misses(ctx, req, use)
			if err != nil {
				return Result{}, false, err
			}
			if known = known || answered; m == nil {
				break
			}
			if wrong := m.wrongKind(); len(wrong) > 0 {
				kinds = appendChecks(kinds, wrong)
				break
			}
			if i == 0 {
				candidates += len(group)
			}
			if near == nil || len(m.checks) < len(near.checks) {
				near = m
			}
		}
	}
	switch {
	case near != nil:
		return near.finding(use, candidates), true, nil
	case len(kinds) > 0:
		return NewFinding(NeverMatches, use.Policy, placeOf(kinds[0], use), "%s matches nothing here: there are no objects of %s", use.name(), kindTexts(kinds)), true, nil
	default:
		return NewFinding(NeverMatches, use.Policy, use.Origin, "%s matches nothing here", use.name()), known || len(reqs) == 0, nil
	}
}

// byKind groups requests by their objects' kinds, a bounded number of each.
func byKind(reqs []Request) [][]Request {
	at := make(map[schema.GroupVersionKind]int)
	var groups [][]Request
	for _, r := range reqs {
		gvk := r.Subject().GroupVersionKind()
		i, ok := at[gvk]
		if !ok {
			i = len(groups)
			at[gvk] = i
			groups = append(groups, nil)
		}
		if len(groups[i]) < mostNear {
			groups[i] = append(groups[i], r)
		}
	}
	return groups
}

// misses says why a rule, or what Kyverno generates from it, does not match an
// object. It is nil where the engine does not tell.
func (c Chain) misses(ctx context.Context, req Request, use *Use) (m *miss, answered bool, err error) {
	rules := []string{use.Rule}
	if use.Engine == EngineKyverno {
		rules = append(rules, "autogen-"+use.Rule, "autogen-cronjob-"+use.Rule)
	}
	for _, rule := range rules {
		es, err := c.Explain(ctx, req, use.Policy, rule)
		if err != nil {
			return nil, false, err
		}
		for i := range es {
			e := &es[i]
			if e.Engine != use.Engine {
				continue
			}
			answered = true
			if found := e.miss(); found != nil && (m == nil || nearer(found, m)) {
				m = found
			}
		}
	}
	return m, answered, nil
}

// nearer reports whether a rule comes nearer to an object than another one.
func nearer(a, b *miss) bool {
	wrongA, wrongB := len(a.wrongKind()) > 0, len(b.wrongKind()) > 0
	return wrongB && !wrongA || wrongA == wrongB && len(a.checks) < len(b.checks)
}

// miss collects the checks that keep the policy, or else all of its bindings, from
// matching.
func (e *Explanation) miss() *miss {
	if e.Matches == No {
		return &miss{object: e.Object, checks: refusals(e.Match)}
	}
	for _, b := range e.Bindings {
		if b.Matches == No {
			return &miss{object: e.Object, checks: refusals(b.Match), from: b.Name}
		}
	}
	return nil
}

// refusals are the checks on account of which something does not match. What
// excludes does so by saying yes.
func refusals(checks []Check) []Check {
	var all []Check
	rules := slices.ContainsFunc(checks, func(c Check) bool { return strings.HasPrefix(c.Name, "resourceRules[") && c.Answer == Yes })
	for _, c := range checks {
		switch {
		case strings.HasPrefix(c.Name, "exception"):
		case strings.HasPrefix(c.Name, "exclude") && c.Name != "excludedNamespaces":
			if c.Answer == Yes {
				all = append(all, c)
			}
		case rules && strings.HasPrefix(c.Name, "resourceRules["):
		case c.Answer == No:
			all = append(all, c)
		}
	}
	return all
}

// wrongKind are the checks that fail if it is the object's kind alone for which
// the rule does not match.
func (m *miss) wrongKind() []Check {
	var wrong []Check
	for _, c := range m.checks {
		switch rule := strings.HasPrefix(c.Name, "resourceRules["); {
		case rule && !aboutKind(c.Why):
			return nil
		case rule, c.Name == "resource", c.Name == "kinds", c.Name == "autogen", strings.HasPrefix(c.Name, "match") && strings.HasSuffix(c.Name, "kinds"):
			wrong = append(wrong, c)
		}
	}
	return wrong
}

// aboutKind reports whether a resource rule does not match for the resource.
func aboutKind(why string) bool {
	return slices.ContainsFunc([]string{"its apiGroups", "its apiVersions", "its resources"}, func(s string) bool { return strings.HasSuffix(why, s) })
}

// telling is the check to name: one that is not about a kind.
func (m *miss) telling() Check {
	i := slices.IndexFunc(m.checks, func(c Check) bool { return !strings.HasPrefix(c.Name, "resourceRules[") || !aboutKind(c.Why) })
	return m.checks[max(i, 0)]
}

func appendChecks(all, more []Check) []Check {
	for _, c := range more {
		if !slices.ContainsFunc(all, func(x Check) bool { return x.Name == c.Name && x.Text == c.Text }) {
			all = append(all, c)
		}
	}
	return all
}

// maxTexts bounds the texts of checks in a message.
const maxTexts = 4

func kindTexts(checks []Check) string {
	var texts []string
	for _, c := range checks {
		if c.Name == "resource" || c.Name == "autogen" {
			continue
		}
		text := c.Text
		if _, of, ok := strings.Cut(text, " of "); ok { // CREATE, UPDATE of deployments in apps/v1
			text = of
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if n := len(texts); n > maxTexts {
		texts = append(texts[:maxTexts], fmt.Sprintf("%d others", n-maxTexts))
	}
	return strings.Join(texts, ", or ")
}

func (m *miss) finding(use *Use, candidates int) Result {
	subject := use.name()
	if m.from != "" {
		subject = "binding " + m.from + " of " + use.Policy
	}
	if len(m.checks) == 0 {
		return NewFinding(NeverMatches, use.Policy, use.Origin, "%s matches none of %s of its kinds", subject, counted(candidates, "object"))
	}
	c := m.telling()
	if strings.HasSuffix(c.Name, "operations") || strings.HasSuffix(c.Why, "its operations") {
		return NewFinding(NotAsked, use.Policy, placeOf(c, use), "%s matches no object that is created: it is about %s", subject, Shorten(c.Text, 400))
	}
	text := c.Name
	if c.Text != "" {
		text += " " + c.Text
	}
	if c.Why != "" {
		text += ": " + c.Why
	}
	return NewFinding(NeverMatches, use.Policy, placeOf(c, use), "%s matches none of %s of its kinds: %s fails %s",
		subject, counted(candidates, "object"), objectText(m.object), Shorten(text, 400))
}

func placeOf(c Check, use *Use) render.Span {
	if c.Origin.File != "" {
		return c.Origin
	}
	return use.Origin
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func objectText(k render.Key) string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}
