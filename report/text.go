package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The text format is for people: findings as compilers show them, worst first,
// a hundred equal ones as one, and at the end the counts of objects that were evaluated
// and of those that were not, so that a report without findings claims no more than was
// checked.
//
// It is often printed to a GitHub runner's log, where lines that begin with "::" or
// contain "##[" are commands (runner source, ActionCommand.cs,
// November 2026): each line goes through guard.

func writeText(w io.Writer, r *Report, o Options) error {
	p := &printer{Options: o, out: bufio.NewWriterSize(w, 64<<10), src: newSource(r)}
	p.wrap, p.Width = p.Width > 0, cmp.Or(p.Width, defaultWidth)
	results := newList(r)
	if r.followed() && !p.Quiet {
		p.line(p.paint(bold, "deployed: "), r.Summary.Completeness())
		p.line()
	}
	p.losses(r)
	all := groups(results, p.shown)
	if p.Statistics {
		p.statistics(r, all)
		p.verdict(r, results)
		return p.out.Flush()
	}
	found, missing := splitMissing(all)
	p.repeated = repeatedAssumptions(found, missing)
	p.reported, p.before = unitsReported(results, p.shown), unitsReported(results, unchanged)
	for _, g := range found {
		p.finding(g)
	}
	for _, l := range missing {
		p.line(p.paint(l.class.colour(), classes[l.class].word), p.paint(bold, ": "+l.headline()))
		p.missingDetails(l)
		p.line()
	}
	if p.Verbose {
		p.accepted(results)
	}
	p.summary(r, results)
	return p.out.Flush()
}

// costs writes the highest cost of each rule whose cost is known, beside the
// API server's limits.
func (p *printer) costs(results *list) {
	type rule struct{ engine, policy, rule string }
	var order []rule
	most := make(map[rule]policy.RuleCost)
	for _, x := range results.all() {
		if x.Cost == nil || x.Baseline == policy.Absent {
			continue
		}
		k := rule{x.Engine, x.Policy, x.Rule}
		c, seen := most[k]
		if !seen {
			order = append(order, k)
		}
		c.Expression, c.Policy = max(c.Expression, x.Cost.Expression), max(c.Policy, x.Cost.Policy)
		c.ExpressionLimit, c.PolicyLimit = x.Cost.ExpressionLimit, x.Cost.PolicyLimit
		most[k] = c
	}
	for _, k := range sortedKeys(order, func(k rule) string { return k.engine + "\x00" + k.policy + "\x00" + k.rule }) {
		c := most[k]
		p.line(fmt.Sprintf("%s %s/%s: cost at most %d of %d, of its policy %d of %d",
			name(k.engine), name(k.policy), name(k.rule), c.Expression, c.ExpressionLimit, c.Policy, c.PolicyLimit))
	}
}

// finding writes a group: the message, the source line, and the details.
func (p *printer) finding(g *group) {
	p.line(p.paint(g.class.colour(), classes[g.class].word), p.paint(bold, ": "+prose(g.first().Message)))
	p.details(g)
	p.line()
}

// details writes a finding's place and other details.
func (p *printer) details(g *group) {
	x, spots := g.first(), g.spots()
	p.frame(spots[0].Origin, x)
	p.messages(g)
	if k := x.Object; k.Kind != "" {
		p.note("object", full(k)+inUnit(k.Unit))
	} else if units := unitsOf(spots[0].results); len(units) > 1 {
		p.wrapped(policy.Plural(len(units), "unit")+": ", p.few(units))
	} else if k.Unit != "" {
		p.note("unit", name(k.Unit))
	}
	if keys := objects(spots[0].results); len(keys) > 1 {
		p.wrapped("and "+policy.Plural(len(keys)-1, "more object")+": ", p.names(keys[1:], keys[0].Unit))
	}
	p.related(x, spots[0].Origin)
	p.note("base", refused(g.results))
	p.note("rule", p.rule(x, spots[0].Origin))
	if x.Reason != "Invalid" { // the API server's default reason
		p.note("reason", name(x.Reason))
	}
	p.assumed(g)
	p.note("help", prose(x.Hint))
	p.note("fix", p.fix(g))
	if _, missing := splitMissing([]*group{g, g}); len(missing) == 1 { // as if there were several, for the command
		p.note("get", missing[0].get())
	}
	p.moreSpots(spots[1:])
}

// frame writes the place and, where it can be read and may be shown, the source
// line with the span marked.
func (p *printer) frame(o render.Origin, x *policy.Result) {
	p.pad = strings.Repeat(" ", len(strconv.Itoa(max(o.Line, 1))))
	if o.File == "" {
		if x.Object == (render.Key{}) {
			return // it concerns the whole run
		}
		p.line(p.pad, p.paint(blue, "--> "), "no line is known for this")
		return
	}
	p.line(p.pad, p.paint(blue, "--> "), p.place(o.Span))
	text, ok := p.src.line(o.Span)
	if !ok {
		return
	}
	sp := o.Span
	if p.src.hidden(sp, x.Object) {
		text, sp.Column = mask(text), 0
	}
	bar := p.paint(blue, " |")
	e := newExcerpt(text, sp, p.Width-len(p.pad)-3)
	p.line(p.pad, bar)
	p.line(p.paint(blue, strconv.Itoa(o.Line)+" |"), " ", e.text)
	if e.to > e.from {
		mark := strings.Repeat("^", e.to-e.from) + strings.TrimRight(" "+primaryLabel(o.Role), " ")
		p.line(p.pad, bar, " ", strings.Repeat(" ", e.from), p.paint(red, mark))
	}
	p.line(p.pad, bar)
}

// messages writes the rule's other messages at the same line.
func (p *printer) messages(g *group) {
	messages, more := g.otherMessages(p.most(maxOthers))
	for _, m := range messages {
		p.note("also", prose(m))
	}
	if more > 0 {
		p.note("also", policy.Plural(more, "more message")+" of this rule here"+p.flag("shows them"))
	}
}

// moreSpots names the other places of the finding.
func (p *printer) moreSpots(spots []*spot) {
	for i, s := range spots {
		if i == maxSpots && !p.Verbose {
			p.note("also", "at "+policy.Plural(len(spots)-i, "more place")+p.flag("lists them"))
			return
		}
		p.wrapped("also"+cmp.Or(at(p.place(s.Span)), " where no line is known")+": ", p.whose(s))
	}
}

// whose returns the names of a place's objects, or of its units if it has no
// objects.
func (p *printer) whose(s *spot) []string {
	if names := p.names(objects(s.results), ""); len(names) > 0 {
		return names
	}
	return p.few(slices.DeleteFunc(unitsOf(s.results), func(u string) bool { return u == s.File }))
}

// related writes the other places that set the field's value.
func (p *printer) related(x *policy.Result, primary render.Origin) {
	origins, more := otherOrigins(x, primary, p.most(maxRelated))
	for _, o := range origins {
		p.note(relatedLabel(o.Role), p.place(o.Span)+p.quote(o, x))
	}
	if more > 0 {
		p.note("from", policy.Plural(more, "more place")+p.flag("lists them"))
	}
}

// quote returns a related source line, for the end of its note.
func (p *printer) quote(o render.Origin, x *policy.Result) string {
	text, ok := p.src.line(o.Span)
	if text = strings.TrimSpace(text); !ok || text == "" {
		return ""
	}
	if p.src.hidden(o.Span, x.Object) {
		text = mask(text)
	}
	room := p.Width - len(p.pad) - 3 - len(relatedLabel(o.Role)) - len(o.Span.String()) - 4
	return ": " + newExcerpt(text, render.Span{}, room).text
}

// rule names the rule, and where it is written unless that is shown already.
func (p *printer) rule(x *policy.Result, primary render.Origin) string {
	text := ruleName(x.Engine, x.Policy, x.Rule)
	if x.PolicyOrigin == primary.Span {
		return text
	}
	return text + at(p.place(x.PolicyOrigin))
}

// fix names the fix of a group's first failure with its place, and counts the other places that fixes of the
// group change.
func (p *printer) fix(g *group) string {
	first, places := g.first().Fix, make(map[render.Span]bool)
	for _, x := range g.results.all() {
		if x.Fix != nil && len(x.Fix.Edits) > 0 {
			places[x.Fix.Edits[0].Span] = true
		}
	}
	if first == nil || len(first.Edits) == 0 {
		return ""
	}
	text := prose(first.Text) + at(p.place(first.Edits[0].Span))
	if more := len(places) - 1; more > 0 {
		text += ", and others at " + policy.Plural(more, "place")
	}
	return text
}

func (p *printer) assumed(g *group) {
	var all []string
	for _, x := range g.results.all() {
		for _, a := range x.Assumed {
			if p.repeated[a] == 0 && !slices.Contains(all, a) && (len(all) < maxNames || p.Verbose) {
				all = append(all, a)
			}
		}
	}
	for _, a := range all {
		p.note("assumed", prose(a))
	}
}
