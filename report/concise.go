package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// The concise format writes a line for each finding, as compilers and linters
// do and as editors can follow: "FILE:LINE:COLUMN: denied: OBJECT: MESSAGE
// [RULE]". Findings of one rule about several objects at one line share a line.
// A finding without a place begins with its unit.

func writeConcise(w io.Writer, r *Report, o Options) error {
	p := &printer{Options: o, out: bufio.NewWriterSize(w, 64<<10), src: newSource(r), embedded: true}
	p.Hyperlinks = ""
	results := newList(r)
	found, missing := splitMissing(groups(results, p.shown))
	for _, g := range found {
		for _, s := range g.spots() {
			p.concise(g.class, s)
		}
	}
	for _, l := range missing {
		p.line(classes[l.class].word, ": ", l.headline(), l.next())
	}
	reported, before := unitsReported(results, p.shown), unitsReported(results, unchanged)
	n := 0
	for _, u := range r.Units {
		switch id := u.Identity(); {
		case !u.missing() || reported[id]:
		case before[id]:
			n++
		default:
			p.line(visible(id, maxMessage), ": not rendered", reason(u))
		}
	}
	if n > 0 {
		p.line("not rendered: ", policy.Plural(n, "unit"), ", as before the change")
	}
	return p.out.Flush()
}

// concise writes a line for each message of a place.
func (p *printer) concise(c class, s *spot) {
	for _, same := range sameMessage(s.results) {
		x := same.at(0)
		about, more := "", max(len(objects(same)), len(unitsOf(same)))-1
		if x.Object.Kind != "" {
			about = short(x.Object)
			if more > 0 {
				about += " and " + policy.Plural(more, "more object")
			}
			about += ": "
		}
		where := cmp.Or(p.place(s.Span), visible(x.Object.Unit, maxMessage), "-")
		p.line(where, ": ", classes[c].word, ": ", about, headlineOf(x), " [", ruleName(x.Engine, x.Policy, x.Rule), "]")
	}
}

// next says in one line how to provide the missing object or setting.
func (l *missingKind) next() string {
	steps := slices.DeleteFunc([]string{l.get(), l.give(), prose(l.hint)}, func(s string) bool { return s == "" })
	if len(steps) == 0 {
		return ""
	}
	return " (" + strings.Join(steps, "; ") + ")"
}

// statistics writes how many findings each rule has, the worst class and the
// largest number first.
func (p *printer) statistics(r *Report, all []*group) {
	type row struct {
		class class
		rule  string
		n     int
		text  string // the rule's title, or the message if there is only one

		titled bool
	}
	titles := make(map[ruleKey]string)
	for i := range r.Rules {
		titles[ruleKey{r.Rules[i].Engine, r.Rules[i].Policy, r.Rules[i].Name}] = cmp.Or(r.Rules[i].Title, r.Rules[i].Description)
	}
	rows := make(map[uint32]*row)
	var order []*row
	for _, g := range all {
		x, key := g.first(), g.rule
		if rows[key] == nil {
			title := titles[ruleKeyOf(x)]
			rows[key] = &row{class: g.class, rule: ruleName(x.Engine, x.Policy, x.Rule), titled: title != "", text: prose(cmp.Or(title, x.Message))}
			order = append(order, rows[key])
		}
		if rows[key].n += g.results.len(); !rows[key].titled && (rows[key].text != prose(x.Message) || g.messages() > 1) {
			rows[key].text = ""
		}
	}
	slices.SortStableFunc(order, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(b.n, a.n), strings.Compare(a.rule, b.rule))
	})
	wide := 0
	for _, x := range order {
		wide = max(wide, cellsOf(x.rule))
	}
	wide = min(wide, 60)
	for _, x := range order {
		head := fmt.Sprintf("%6d  %-7s  ", x.n, classes[x.class].word)
		pad := strings.Repeat(" ", max(0, wide-cellsOf(x.rule)))
		room := max(20, cmp.Or(p.Width, defaultWidth)-len(head)-max(wide, cellsOf(x.rule))-2)
		p.line(p.paint(x.class.colour(), head), x.rule, pad, "  ", cutCells(x.text, room))
	}
	if len(order) > 0 {
		p.line()
	}
}

// cutCells returns the beginning of a visible text that takes at most width
// columns.
func cutCells(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += cells(r); used >= width && i+len(string(r)) < len(s) {
			return s[:i] + "…"
		}
	}
	return s
}
