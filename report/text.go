package report

import (
	"bufio"
	"cmp"
	"io"
)

// The text format is for people: findings as compilers show them, worst first,
// a hundred equal ones as one, and at the end what was looked at and what was
// not, so that the absence of a finding can't be taken for more than it is.
//
// Its standard output is often a GitHub runner's log, which takes lines that
// begin with "::" or hold "##[" for commands (runner source, ActionCommand.cs,
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
	found, lacks := lacksOf(all)
	p.repeated = repeatedAssumptions(found, lacks)
	p.told, p.before = unitsTold(results, p.shown), unitsTold(results, unchanged)
	for _, g := range found {
		p.finding(g)
	}
	for _, l := range lacks {
		p.lack(l)
	}
	if p.Verbose {
		p.accepted(results)
	}
	p.summary(r, results)
	return p.out.Flush()
}
