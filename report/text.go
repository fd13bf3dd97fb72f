package report

import (
	"bufio"
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The text format is for people: findings as compilers show them, worst first,
// a hundred equal ones as one, and at the end what was looked at and what was
// not, so that the absence of a finding can't be taken for more than it is.
//
// Its standard output is often a GitHub runner's log, which takes lines that
// begin with "::" or hold "##[" for commands (runner source, ActionCommand.cs,
// November 2026): each line goes through guard.

const (
	defaultWidth = 100
	maxNames     = 8 // objects named at one place
	maxSpots     = 5 // further places of a finding
	maxRelated   = 5 // other origins of a field
	maxOthers    = 3 // further messages
)

// A printer writes lines of text. The first error stays in out.
type printer struct {
	Options
	out *bufio.Writer
	src *source
	pad string // blanks as wide as the line numbers of the finding at hand

	embedded bool            // in another format, which has no -v
	wrap     bool            // long texts are broken at Width
	repeated map[string]int  // assumptions that are written once, at the end, with the number of findings
	told     map[string]bool // units that were not rendered, for a reason that is written already
	before   map[string]bool // units that were not rendered before the change either, for the same reason
}

func writeText(w io.Writer, r *Report, o Options) error {
	p := &printer{Options: o, out: bufio.NewWriterSize(w, 64<<10), src: newSource(r)}
	p.wrap, p.Width = p.Width > 0, cmp.Or(p.Width, defaultWidth)
	results := sortedResults(r)
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

// shown reports whether a finding gets a frame.
func (p *printer) shown(x *policy.Result) bool {
	return open(x) && (!p.Quiet || x.Undecided() || p.fails(x))
}

// fails reports whether a failure makes the run fail.
func (p *printer) fails(x *policy.Result) bool {
	return x.Outcome == policy.Fail && p.FailOn != "never" && x.Action.AtLeast(cmp.Or(p.FailOn, policy.Deny))
}

func (p *printer) line(parts ...string) {
	line := strings.TrimRight(strings.Join(parts, ""), " ")
	p.out.WriteString(guard(line))
	p.out.WriteByte('\n')
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
	p.moreObjects(spots[0])
	p.related(x, spots[0].Origin)
	p.note("rule", p.rule(x, spots[0].Origin))
	if x.Reason != "Invalid" { // the API server's default reason
		p.note("reason", name(x.Reason))
	}
	p.assumed(g)
	p.note("help", prose(x.Hint))
	if _, lacks := lacksOf([]*group{g, g}); len(lacks) == 1 { // as if there were several, for the command
		p.note("get", lacks[0].get())
	}
	p.moreSpots(spots[1:])
}

// flag formats a hint about -v, for commands that have -v.
func (p *printer) flag(does string) string {
	if p.embedded {
		return ""
	}
	return " (-v " + does + ")"
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

// note writes a line below the frame, unless the text is empty.
func (p *printer) note(label, text string) {
	if text != "" {
		p.paragraph(p.pad+p.paint(blue, " = ")+label+": ", p.pad+"     ", text)
	}
}

// paragraph writes text after a prefix. If requested, lines break between words
// at the width. Further lines are indented.
func (p *printer) paragraph(prefix, indent, text string) {
	if !p.wrap {
		p.line(prefix, text)
		return
	}
	line, used, empty := prefix, cellsOf(prefix), true
	for word := range strings.SplitSeq(text, " ") {
		n := cellsOf(word)
		switch {
		case !empty && used+1+n > p.Width:
			p.line(line)
			line, used = indent, cellsOf(indent)
		case !empty:
			line += " "
			used++
		}
		line += word
		used, empty = used+n, false
	}
	p.line(line)
}

// messages writes the rule's other messages at the same line.
func (p *printer) messages(g *group) {
	seen := map[string]bool{g.first().Message: true}
	more := 0
	for _, x := range g.results {
		if seen[x.Message] {
			continue
		}
		seen[x.Message] = true
		if len(seen)-1 > maxOthers && !p.Verbose {
			more++
			continue
		}
		p.note("also", prose(x.Message))
	}
	if more > 0 {
		p.note("also", policy.Plural(more, "more message")+" of this rule here"+p.flag("shows them"))
	}
}

// moreObjects names the other objects of the finding at one place.
func (p *printer) moreObjects(s *spot) {
	if keys := objects(s.results); len(keys) > 1 {
		p.wrapped("and "+policy.Plural(len(keys)-1, "more object")+": ", p.names(keys[1:], keys[0].Unit))
	}
}

// names returns the objects' names, with the unit if it differs from the given
// one.
func (p *printer) names(keys []render.Key, unit string) []string {
	var names []string
	for i, k := range keys {
		if i == maxNames && !p.Verbose {
			return append(names, unlisted(len(keys)-i)+p.flag("names them"))
		}
		if k.Unit == unit {
			k.Unit = ""
		}
		names = append(names, short(k)+inUnit(k.Unit))
	}
	return names
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

// few returns as many names of units as are shown.
func (p *printer) few(units []string) []string {
	var names []string
	for i, u := range units {
		if i == maxNames && !p.Verbose {
			return append(names, unlisted(len(units)-i)+p.flag("names them"))
		}
		if u != "" {
			names = append(names, visible(u, maxMessage))
		}
	}
	return names
}

// wrapped writes a list as a note, with lines broken at the width.
func (p *printer) wrapped(head string, items []string) {
	p.list(p.pad+p.paint(blue, " = ")+head, items)
}

// list writes items after a prefix, broken at the width between items.
func (p *printer) list(prefix string, items []string) {
	text, used := prefix, cellsOf(prefix)
	for i, item := range items {
		if i < len(items)-1 {
			item += ", "
		}
		n := cellsOf(item)
		if used+n > p.Width && (i > 0 || strings.TrimSpace(ownEscapes.ReplaceAllString(text, "")) != "" && len(p.pad)+5+n <= p.Width) {
			p.line(text)
			text, used = p.pad+"     ", len(p.pad)+5
		}
		text += item
		used += n
	}
	p.line(strings.TrimSuffix(text, ": "))
}

// related writes the other places that set the field's value.
func (p *printer) related(x *policy.Result, primary render.Origin) {
	more := 0
	shown := map[line]bool{{primary.File, primary.Line}: true}
	for _, o := range x.Origins {
		if o.File == "" || shown[line{o.File, o.Line}] {
			continue
		}
		shown[line{o.File, o.Line}] = true
		if len(shown)-1 > maxRelated && !p.Verbose {
			more++
			continue
		}
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

func (p *printer) assumed(g *group) {
	var all []string
	for _, x := range g.results {
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

// place formats a span as file:line:column, with a link if requested.
func (p *printer) place(sp render.Span) string {
	target := uri(sp.File)
	sp.File = visible(inFetched(sp.File), maxMessage)
	text := sp.String()
	if p.Hyperlinks == "" || target == "" || len(target) > maxMessage || p.src.file(sp.File) == nil {
		return text
	}
	base := strings.TrimSuffix(p.Hyperlinks, "/")
	return "\x1b]8;;" + visible(base, maxMessage) + "/" + target + "\x1b\\" + text + "\x1b]8;;\x1b\\"
}

// inFetched returns the name of a file as text. That of one that was fetched for
// the repository is "chart podinfo 6.9.2//templates/x.yaml" in reports.
func inFetched(file string) string {
	if label, rest, ok := strings.Cut(file, "//"); ok && label != "" {
		return "in " + label + ", " + rest
	}
	return file
}

func at(place string) string {
	if place == "" {
		return ""
	}
	if strings.HasPrefix(place, "in ") { // in fetched content
		return " " + place
	}
	return " at " + place
}

func inUnit(unit string) string {
	if unit == "" {
		return ""
	}
	return " in " + visible(unit, maxMessage)
}

// unlisted says how many items are not listed.
func unlisted(n int) string { return "… " + policy.Plural(n, "other") }

// cellsOf returns the number of columns of a line, without its escape
// sequences.
func cellsOf(s string) int {
	if strings.Contains(s, "\x1b") {
		s = ownEscapes.ReplaceAllString(s, "")
	}
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

var ownEscapes = regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b\\]8;;[^\x1b]*\x1b\\\\")

// primaryLabel says how a person set the value at the marked line.
func primaryLabel(r render.Role) string {
	switch r {
	case render.Value:
		return "set here"
	case render.Template:
		return "written by this template"
	case render.Patch:
		return "patched here"
	case render.Generated:
		return "generated from this"
	case render.Reference:
		return "asked for here"
	default:
		return ""
	}
}

func relatedLabel(r render.Role) string {
	switch r {
	case render.Value:
		return "set at"
	case render.Template:
		return "template"
	case render.Patch:
		return "patch"
	case render.Generated:
		return "generated from"
	case render.Reference:
		return "asked for at"
	default:
		return "written at"
	}
}

// The colours, as ANSI has them.
const (
	bold   = "1"
	red    = "1;31"
	yellow = "1;33"
	blue   = "1;34"
	cyan   = "1;36"
	green  = "1;32"
)

func (p *printer) paint(colour, s string) string {
	if !p.Color || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func (c class) colour() string {
	switch c {
	case denied, broken:
		return red
	case undecided, warned:
		return yellow
	default:
		return cyan
	}
}
