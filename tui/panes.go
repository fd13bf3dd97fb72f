package tui

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A paneKind is a kind of preview.
type paneKind int

const (
	paneSource paneKind = iota
	paneObject
	paneOrigins
	paneRule
	paneExplain
	paneDiff
	numPanes
)

var paneNames = [numPanes]string{"source", "object", "origins", "rule", "explain", "diff"}

// A pane holds lines to show, and which one must be visible first. The lines
// are safe to show; they are coloured when drawn.
type pane struct {
	lines []pline
	focus int
}

// A pline is a line of a pane.
type pline struct {
	gutter string
	text   string
	lang   language
	look   look
}

// A look is the kind of a line, which determines its style.
type look uint8

const (
	plainLine look = iota
	faultLine      // the line at fault
	caretLine      // the mark below the fault
	titleLine
	dimLine
)

const (
	maxLine    = 4 << 10 // bytes of a line that are read
	maxContext = 500     // lines of a file around the one at fault
)

func (p *pane) add(l look, text string) { p.lines = append(p.lines, pline{text: text, look: l}) }

// wrap adds foreign text, broken at the width, with a hanging indent.
func (p *pane) wrap(l look, lang language, text string, width int) {
	width = cmp.Or(width, plainWidth)
	for raw := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		line := report.Visible(strings.ReplaceAll(strings.TrimRight(raw, " \r"), "\t", "  "), maxLine)
		body := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(body)]
		if len(indent) > width/2 {
			indent = indent[:width/2]
		}
		for i, part := range wrapped(body, width-len(indent)) {
			if i == 1 && len(indent)+2 < width/2 {
				indent += "  "
			}
			p.lines = append(p.lines, pline{text: indent + part, look: l, lang: lang})
		}
	}
}

// wrapped breaks safe text into lines of at most width cells, two less after
// the first for a hanging indent.
func wrapped(s string, width int) []string {
	if ansi.StringWidth(s) <= width {
		return []string{s}
	}
	return strings.Split(ansi.Wrap(s, max(width-2, 1), ""), "\n")
}

// linesOf returns the lines of a file, or errNotYet if they have not arrived.
type linesOf func(file string) ([]string, error)

// sourcePane shows the file around the line to edit, with the fault marked.
func sourcePane(e *entry, of linesOf, width int) pane {
	var p pane
	at := report.Place(e.Result)
	if at.File == "" {
		p.add(dimLine, "no line is known for this")
		return p
	}
	p.add(titleLine, placeText(at))
	lines, err := of(at.File)
	switch {
	case errors.Is(err, errNotYet):
		p.add(dimLine, err.Error())
		return p
	case err != nil:
		p.wrap(dimLine, noLanguage, err.Error(), width)
		return p
	}
	if at.Line < 1 || at.Line > len(lines) {
		p.add(dimLine, lineless(at.Span, len(lines)))
		at.Line = 0
	}
	p.sourceLines(e, at, lines, width)
	return p
}

func lineless(at render.Span, n int) string {
	if at.Line > n {
		return fmt.Sprintf("the file has only %d lines now: it was changed since", n)
	}
	return "the file is known, not the line"
}

func (p *pane) sourceLines(e *entry, at render.Origin, lines []string, width int) {
	from, to := max(0, at.Line-1-maxContext), min(len(lines), max(at.Line, 1)+maxContext)
	digits := len(strconv.Itoa(to))
	others := make(map[int]string)
	for _, o := range e.Origins {
		if o.File == at.File && o.Line != at.Line {
			others[o.Line] = report.RoleLabel(o.Role)
		}
	}
	if from > 0 {
		p.add(dimLine, fmt.Sprintf("… %d lines above", from))
	}
	lang := languageOf(at.File)
	for i := from; i < to; i++ {
		sign := " "
		if others[i+1] != "" {
			sign = "›"
		}
		l := pline{gutter: fmt.Sprintf("%s%*d ", sign, digits, i+1), lang: lang}
		if i+1 != at.Line {
			l.text = clean(lines[i])
			p.lines = append(p.lines, l)
			continue
		}
		p.focus = len(p.lines)
		l.look, l.gutter = faultLine, fmt.Sprintf(">%*d ", digits, i+1)
		text, a, b := report.Excerpt(lines[i], masked(lines[i], at.Span), max(width-digits-2, 20))
		l.text = text
		p.lines = append(p.lines, l)
		if b > a {
			p.lines = append(p.lines, pline{gutter: strings.Repeat(" ", digits+2), text: strings.Repeat(" ", a) + strings.Repeat("^", b-a) + " " + e.class, look: caretLine})
		}
	}
	if to < len(lines) {
		p.add(dimLine, fmt.Sprintf("… %d lines below", len(lines)-to))
	}
}

// masked returns the span to mark: none if only the line's key is shown.
func masked(text string, sp render.Span) render.Span {
	if strings.HasSuffix(text, "…") {
		sp.Column = 1 << 30
	}
	return sp
}

// clean makes a source line safe to show.
func clean(s string) string {
	s = strings.TrimRight(s, " \r\n")
	if strings.Contains(s, "\t") {
		s = strings.ReplaceAll(s, "\t", "    ")
	}
	return report.Visible(s, maxLine)
}

func placeText(o render.Origin) string {
	sp := o.Span
	sp.File = report.Visible(sp.File, maxLine)
	return strings.TrimSpace(report.RoleLabel(o.Role) + " " + sp.String())
}

// originsPane shows the places that determined the field, each with its line.
func (s *session) originsPane(e *entry, of linesOf, width int) pane {
	var p pane
	for _, f := range e.Fields {
		p.wrap(titleLine, noLanguage, "field "+report.Visible(f, maxLine), width)
	}
	if len(e.Origins) == 0 {
		p.add(dimLine, "no line is known for this")
	}
	for i, o := range e.Origins {
		head := fmt.Sprintf("%d. %s", i+1, placeText(o))
		if o.File == "" {
			head = fmt.Sprintf("%d. %s an unknown place", i+1, report.RoleLabel(o.Role))
		}
		p.wrap(plainLine, noLanguage, head, width)
		if lines, err := of(o.File); err == nil && o.Line > 0 && o.Line <= len(lines) {
			text, a, b := report.Excerpt(strings.TrimRight(lines[o.Line-1], " "), masked(lines[o.Line-1], o.Span), max(width-5, 20))
			p.lines = append(p.lines, pline{gutter: "   | ", text: text, lang: languageOf(o.File)})
			if b > a {
				p.lines = append(p.lines, pline{gutter: "   | ", text: strings.Repeat(" ", a) + strings.Repeat("^", b-a), look: caretLine})
			}
		}
	}
	if e.PolicyOrigin.File != "" {
		p.add(plainLine, "")
		p.wrap(plainLine, noLanguage, "the rule is written at "+placeText(render.Origin{Span: e.PolicyOrigin})[len("written at "):], width)
	}
	s.deployedBy(&p, e, width)
	return p
}

// deployedBy adds the units that deploy the object's unit, from the root on.
func (s *session) deployedBy(p *pane, e *entry, width int) {
	chain := ownersOf(s.report.Units, e.Object.Unit)
	if len(chain) < 2 && (len(chain) == 0 || chain[0].Cluster == "") {
		return
	}
	p.add(plainLine, "")
	p.add(dimLine, "deployed by")
	for i, u := range chain {
		p.wrap(plainLine, noLanguage, strings.Repeat("  ", min(i, 8))+unitTitle(u), width)
	}
}

// rulePane shows the rule: its text, its expression, its documentation, where
// it is written, and the assumptions.
func (s *session) rulePane(e *entry, width int) pane {
	var p pane
	p.wrap(titleLine, noLanguage, report.RuleName(e.Result)+"  ("+report.Name(e.Engine)+")", width)
	r := s.rule(e)
	if r == nil {
		r = &policy.Rule{}
	}
	section := func(title, text string, lang language) {
		if strings.TrimSpace(text) != "" {
			p.add(plainLine, "")
			p.add(dimLine, title)
			p.wrap(plainLine, lang, text, width)
		}
	}
	section("message", e.Message, noLanguage)
	if r.Title != e.Message && r.Title != strings.TrimSpace(r.Expression) {
		section("title", r.Title, noLanguage)
	}
	section("expression", r.Expression, celLanguage)
	section("description", r.Description, noLanguage)
	section("how to fix it", r.Help, noLanguage)
	section("next step", e.Hint, noLanguage)
	section("written at", e.PolicyOrigin.String(), noLanguage)
	section("see", r.URL, noLanguage)
	section("what follows", strings.TrimSpace(string(e.Action)+" "+string(e.Severity)), noLanguage)
	if e.Baseline == policy.AlreadyFailing {
		section("base", report.AlreadyFailing, noLanguage)
	}
	section("assumed", strings.Join(e.Assumed, "\n"), noLanguage)
	if x := e.held; x != nil {
		section("accepted", x.Reason+"\nuntil "+x.Expires+ownedBy(x.Owner)+"\n"+x.Origin.String(), noLanguage)
	}
	return p
}

func ownedBy(owner string) string {
	if owner == "" {
		return ""
	}
	return ", by " + owner
}

// objectPane shows the rendered object with the place of each line beside it.
func objectPane(e *entry, r *Rendered, width int) pane {
	var p pane
	if r.Note != "" {
		p.wrap(dimLine, noLanguage, r.Note, width)
	}
	at := faultIn(e, r.Lines)
	wide := placesWidth(r.Lines, width)
	for i, l := range r.Lines {
		x := pline{text: clean(l.Text), lang: yamlLanguage}
		if wide > 0 {
			place := clean(l.Place)
			if n := ansi.StringWidth(place); n > wide {
				place = "…" + ansi.TruncateLeft(place, n-wide+1, "")
			}
			x.gutter = place + strings.Repeat(" ", max(0, wide-ansi.StringWidth(place))) + " │ "
		}
		if i == at {
			x.look, p.focus = faultLine, len(p.lines)
			x.gutter = strings.TrimSuffix(x.gutter, "│ ") + "> "
		}
		p.lines = append(p.lines, x)
	}
	return p
}

// placesWidth returns the width for places beside YAML, 0 on narrow screens.
func placesWidth(lines []Line, width int) int {
	if width < 50 {
		return 0
	}
	longest := 0
	for _, l := range lines {
		longest = max(longest, ansi.StringWidth(clean(l.Place)))
	}
	return min(longest, width*2/5)
}

// faultIn returns the line of the field at fault, or of its nearest parent.
func faultIn(e *entry, lines []Line) int {
	if len(e.Fields) == 0 {
		return -1
	}
	for field := e.Fields[0]; field != ""; field = field[:strings.LastIndexByte(field, '/')] {
		for i, l := range lines {
			if l.Pointer == field {
				return i
			}
		}
		if !strings.Contains(field, "/") {
			break
		}
	}
	return -1
}

// textPane shows a text of several lines.
func textPane(text string, width int) pane {
	var p pane
	p.wrap(plainLine, noLanguage, text, width)
	return p
}

// diffPane shows the object's difference from the base.
func diffPane(r *Rendered, width int) pane {
	switch {
	case r.Diff == "":
		return textPane(r.Note, width)
	default:
		var p pane
		for l := range strings.SplitSeq(strings.TrimRight(r.Diff, "\n"), "\n") {
			p.lines = append(p.lines, pline{text: clean(l), lang: diffLanguage})
		}
		return p
	}
}
