package report

import (
	"bufio"
	"bytes"
	"cmp"
	"math"
	"regexp"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

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
	reported map[string]bool // units that were not rendered, for a reason that is written already
	before   map[string]bool // units that were not rendered before the change either, for the same reason
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

// flag formats a hint about -v, for commands that have -v.
func (p *printer) flag(does string) string {
	if p.embedded {
		return ""
	}
	return " (-v " + does + ")"
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

// most returns how many items are listed. With -v all are.
func (p *printer) most(n int) int {
	if p.Verbose {
		return math.MaxInt
	}
	return n
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

// roleLabels are the words for places by role: at the marked line, where a person set the
// value, and at other places.
var roleLabels = map[render.Role]struct{ primary, related string }{
	render.Value:     {"set here", "set at"},
	render.Template:  {"written by this template", "template"},
	render.Patch:     {"patched here", "patch"},
	render.Generated: {"generated from this", "generated from"},
	render.Reference: {"asked for here", "asked for at"},
}

func primaryLabel(r render.Role) string { return roleLabels[r].primary }

func relatedLabel(r render.Role) string { return cmp.Or(roleLabels[r].related, "written at") }

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

// newEmbedded prints findings as text into another format.
func newEmbedded(b *bytes.Buffer, r *Report) *printer {
	return &printer{Options: Options{Width: defaultWidth}, out: bufio.NewWriter(b), src: newSource(r), embedded: true}
}

// embed returns the text that print writes, without the last line end.
func (p *printer) embed(b *bytes.Buffer, print func()) string {
	b.Reset()
	print()
	p.out.Flush() // writes to a buffer, so there is no error
	return strings.TrimSuffix(b.String(), "\n")
}

// columns writes a table with a header row, and an empty line. Cells of the
// columns in [from, to) are numbers. colour returns the colour of a row below
// the header.
func (p *printer) columns(rows [][]string, from, to int, colour func(row int) string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], cellsOf(cell))
		}
	}
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			blanks := strings.Repeat(" ", widths[i]-cellsOf(cell))
			if i >= from && i < to {
				cell, blanks = blanks, cell
			}
			line.WriteString(cell + blanks + "  ")
		}
		text, paint := strings.TrimRight(line.String(), " "), bold
		if n > 0 {
			paint = colour(n - 1)
		}
		if paint != "" {
			text = p.paint(paint, text)
		}
		p.line(text)
	}
	p.line()
}

// remark writes a line that is about the whole run.
func (p *printer) remark(label, text string) {
	p.paragraph(p.paint(bold, label+": "), "      ", text)
}
