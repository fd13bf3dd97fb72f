package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// mostNear limits how many objects of a kind are compared with a rule that
// matches none of them.
const mostNear = 10

// A miss holds the reasons why a rule does not match an object.
type miss struct {
	object render.Key
	made   string  // kind of what a controller creates of it, and the check is of; "" if it is of the object itself
	checks []Check // the checks that failed
	from   string  // the binding with the checks; "" for the policy
}

// A nearest finds, for a rule that matches nothing, the object that fails the fewest
// of its checks.
type nearest struct {
	use        *Use
	engine     Explainer
	mutates    bool
	near       *miss
	kinds      []Check // failed checks for objects of other kinds
	candidates int     // number of objects of its kinds
}

// WhyUnmatched returns a finding for each rule of the uses that matches none of
// the requests: it names the kinds that are absent, or the check that the
// nearest object fails. Rules of engines that are not Explainers have none.
func (c Chain) WhyUnmatched(ctx context.Context, reqs []Request, uses []*Use) (map[*Use]Result, error) {
	all := c.nearests(uses)
	for _, group := range byKind(reqs) {
		open := slices.Clone(all)
		for i := range group.reqs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			first := 0
			if i == 0 {
				first = group.total
			}
			if open = c.compare(ctx, group.reqs[i], open, first); len(open) == 0 {
				break
			}
		}
	}
	found := make(map[*Use]Result, len(all))
	for _, n := range all {
		found[n.use] = n.finding()
	}
	return found, ctx.Err()
}

// nearests returns a nearest for each use whose engine is an Explainer.
func (c Chain) nearests(uses []*Use) []*nearest {
	type owner struct {
		engine  Explainer
		mutates bool
	}
	owners := make(map[useKey]owner)
	own := func(engine any, rules []Rule, mutates bool) {
		if x, ok := engine.(Explainer); ok {
			for i := range rules {
				owners[useKey{rules[i].Engine, rules[i].Policy, WithoutAutogen(rules[i].Name)}] = owner{x, mutates}
				owners[useKey{engine: rules[i].Engine, policy: rules[i].Policy}] = owner{x, mutates}
			}
		}
	}
	for _, m := range c.Mutators {
		own(m, m.Rules(), true)
	}
	for _, v := range c.Validators {
		own(v, v.Rules(), false)
	}
	var all []*nearest
	for _, use := range uses {
		if o, ok := owners[useKey{use.Engine, use.Policy, use.Rule}]; ok {
			all = append(all, &nearest{use: use, engine: o.engine, mutates: o.mutates})
		}
	}
	return all
}

// compare compares the rules with one object, and returns the rules to compare
// with others of its kind. For the first object of a kind candidates is the
// number of objects.
func (c Chain) compare(ctx context.Context, req Request, open []*nearest, candidates int) []*nearest {
	before, after := c.admitAndMutate(ctx, req)
	if after == nil {
		return nil
	}
	type first struct{ before, after *Request }
	var firsts []first // of each kind that controllers make of it
	for _, m := range c.made(after) {
		if !slices.ContainsFunc(firsts, func(f first) bool { return f.after != nil && f.after.Kind == m.by.kind }) {
			was, is := m.about.admitAndMutate(ctx, *m.Request)
			firsts = append(firsts, first{was, is})
		}
	}
	var rest []*nearest
	for _, n := range open {
		asked := after
		if n.mutates {
			asked = before
		}
		m := n.ask(ctx, asked)
		if m == nil {
			continue
		}
		for _, f := range firsts {
			made := f.after
			if n.mutates {
				made = f.before
			}
			if e, ok := n.engine.(MadeEngine); ok && made != nil && e.SelectsMade(made.Kind, after.Kind) && len(m.wrongKind()) > 0 {
				m = cmp.Or(n.ask(ctx, made), m)
			}
		}
		if wrong := m.wrongKind(); len(wrong) > 0 {
			n.kinds = appendChecks(n.kinds, wrong)
			continue
		}
		n.candidates += candidates
		if n.near == nil || len(m.checks) < len(n.near.checks) {
			n.near = m
		}
		rest = append(rest, n)
	}
	return rest
}

// admitAndMutate returns the request as mutators and as validators see it, or nil if the server can't
// read its object.
func (c Chain) admitAndMutate(ctx context.Context, req Request) (before, after *Request) {
	_, admitted := c.admit(&req, newHistory())
	if req.Admitted == nil {
		return nil, nil
	}
	first := req
	if admitted {
		if _, err := c.mutate(ctx, &req, &history{}); err != nil {
			return nil, nil
		}
	}
	return &first, &req
}

// ask returns why the rule, or one that Kyverno generates from it, does not
// match an object. It returns nil if the engine does not say.
func (n *nearest) ask(ctx context.Context, req *Request) (m *miss) {
	defer func() {
		if recover() != nil { // the evaluation has reported it
			m = nil
		}
	}()
	rules := []string{n.use.Rule}
	if n.use.Engine == EngineKyverno {
		rules = append(rules, "autogen-"+n.use.Rule, "autogen-cronjob-"+n.use.Rule)
	}
	for _, rule := range rules {
		copied := *req
		es, err := n.engine.Explain(ctx, &copied, n.use.Policy, rule)
		if err != nil {
			return nil
		}
		for i := range es {
			if es[i].Engine != n.use.Engine {
				continue
			}
			if found := es[i].miss(); found != nil && (m == nil || nearer(found, m)) {
				m = found
				m.object, m.made = cmp.Or(req.Maker, req).Subject().Key(), req.by.kind.Kind
				m.object.Namespace = cmp.Or(m.object.Namespace, req.Namespace)
			}
		}
	}
	return m
}

func (n *nearest) finding() Result {
	switch {
	case n.near != nil:
		return n.near.finding(n.use, n.candidates)
	case len(n.kinds) > 0:
		return NewFinding(NeverMatches, n.use.Policy, placeOf(n.kinds[0], n.use), "%s matches nothing here: there are no objects of %s", n.use.name(), kindTexts(n.kinds))
	default:
		return NewFinding(NeverMatches, n.use.Policy, n.use.Origin, "%s matches nothing here", n.use.name())
	}
}

// A kindGroup holds some requests about objects of one kind, and the number of
// all of them.
type kindGroup struct {
	reqs  []Request
	total int
}

// byKind groups requests by their objects' kinds.
func byKind(reqs []Request) []*kindGroup {
	at := make(map[schema.GroupVersionKind]*kindGroup)
	var groups []*kindGroup
	for _, r := range reqs {
		gvk := r.Subject().GroupVersionKind()
		g := at[gvk]
		if g == nil {
			g = &kindGroup{}
			at[gvk] = g
			groups = append(groups, g)
		}
		if g.total++; len(g.reqs) < mostNear {
			g.reqs = append(g.reqs, r)
		}
	}
	return groups
}

// nearer reports whether a rule comes nearer to an object than another one.
func nearer(a, b *miss) bool {
	wrongA, wrongB := len(a.wrongKind()) > 0, len(b.wrongKind()) > 0
	return wrongB && !wrongA || wrongA == wrongB && len(a.checks) < len(b.checks)
}

// miss returns the checks that keep the policy, or else all of its bindings,
// from matching.
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

// refusals returns the checks that keep an object from matching: those answered no,
// and for exclusions those answered yes.
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

// ofOtherKind reports whether an explanation only says that the object is of another kind.
func (e *Explanation) ofOtherKind() bool {
	m := e.miss()
	return m != nil && len(m.wrongKind()) > 0
}

// wrongKind returns the checks that fail, if the rule does not match only
// because of the object's kind.
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

// aboutKind reports whether a resource rule does not match because of the
// resource.
func aboutKind(why string) bool {
	return slices.ContainsFunc([]string{"its apiGroups", "its apiVersions", "its resources"}, func(s string) bool { return strings.HasSuffix(why, s) })
}

// decisive returns the check to name: one that is not about a kind.
func (m *miss) decisive() Check {
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

// maxTexts limits the texts of checks in a message.
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
		return NewFinding(NeverMatches, use.Policy, use.Origin, "%s matches none of %s of its kinds", subject, Plural(candidates, "object"))
	}
	c := m.decisive()
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
	nearest := objectText(m.object)
	if m.made != "" {
		nearest = "a " + madeName(m.made) + " of " + nearest
	}
	return NewFinding(NeverMatches, use.Policy, placeOf(c, use), "%s matches none of %s of its kinds: %s fails %s",
		subject, Plural(candidates, "object"), nearest, Shorten(text, 400))
}

func placeOf(c Check, use *Use) render.Span {
	if c.Origin.File != "" {
		return c.Origin
	}
	return use.Origin
}
