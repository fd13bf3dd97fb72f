package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"

	"github.com/preadmit/preadmit/policy"
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
		p.missingKind(l)
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
	for _, x := range results.outlines() {
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
