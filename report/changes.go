package report

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const (
	maxTextChanges = 20  // objects whose changes text shows without -v
	maxTextDiff    = 12  // lines of each
	maxDiffLine    = 200 // bytes
)

// losses are the deletions that take more along than the object.
func losses(r *Report) []*Change {
	var found []*Change
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Takes != "" && c.Operation == policy.Delete {
			found = append(found, c)
		}
	}
	return found
}

// diffLines are the lines of the diff, safe to show.
func (c *Change) diffLines() []string {
	var lines []string
	for line := range strings.Lines(c.Diff) {
		lines = append(lines, visible(strings.TrimRight(line, "\n"), maxDiffLine))
	}
	return lines
}

// losses writes what is deleted with more than itself, before all else.
func (p *printer) losses(r *Report) {
	found := losses(r)
	for _, c := range found {
		p.line(p.paint(red, "deleted"), p.paint(bold, ": "+full(c.Object)), " takes along ", prose(c.Takes))
		if c.Origin != nil {
			p.note("was at", name(c.Origin.String()))
		}
	}
	if len(found) > 0 {
		p.line()
	}
}

// fixed writes which failures of the base are no more.
func (p *printer) fixed(results []policy.Result) {
	n := 0
	for i := range results {
		x := &results[i]
		if _, finding := classOf(x); !finding || x.Baseline != policy.Absent || p.Verbose || p.Quiet { // -v lists all that does not count
			continue
		}
		if n++; n <= maxTextChanges {
			p.line(p.paint(green, "fixed"), ": ", subject(x.Object), headlineOf(x), " ["+ruleName(x.Engine, x.Policy, x.Rule)+"]")
		}
	}
	if n > maxTextChanges {
		p.line("… and ", strconv.Itoa(n-maxTextChanges), " more fixed (-v shows all)")
	}
	if n > 0 {
		p.line()
	}
}

// clusterChanges writes what changes in objects, so that a reader sees what
// the change is about.
func (p *printer) clusterChanges(r *Report) {
	if p.embedded {
		return
	}
	shown := 0
	for _, u := range changesByUnit(r.Changes) {
		for i := range u.changes {
			if c := &u.changes[i]; p.Verbose || shown < maxTextChanges {
				p.change(c)
			}
			shown++
		}
	}
	if more := shown - maxTextChanges; more > 0 && !p.Verbose {
		p.line("… and ", plural(more, "more change"), " (-v shows all)")
	}
	if shown > 0 {
		p.line()
	}
}

func (p *printer) change(c *Change) {
	place := ""
	if c.Origin != nil {
		place = " at " + name(c.Origin.String())
	}
	if from := c.from(); from != "" {
		place = ", was " + from + place
	}
	p.line(p.paint(bold, c.happens()+": "), full(c.Object)+place)
	lines := c.diffLines()
	for i, line := range lines {
		if i == maxTextDiff && !p.Verbose {
			p.line("    … and ", plural(len(lines)-i, "more line"))
			break
		}
		if colour := diffColour(line); colour != "" {
			line = p.paint(colour, line)
		}
		p.line("    ", line)
	}
}

func diffColour(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return ""
}

// losses is the section of deletions that take more along.
func (m *markdownWriter) losses() {
	found := losses(m.Report)
	m.section("Deleted, with what it takes along", shareChanges, len(found), func(i int) string {
		return "- " + m.changeItem(found[i]) + ", takes along " + plainText(prose(found[i].Takes)) + "\n"
	})
}

// linked is a place as code, which leads to the line where the tree's files have
// an address.
func (m *markdownWriter) linked(s render.Span) string {
	shown := code(visible(s.String(), maxMessage))
	if m.links == "" || s.File == "" {
		return shown
	}
	return "[" + shown + "](" + linkTo(m.links, s) + ")"
}

// linkTo is the address of a line as GitHub and GitLab have it.
func linkTo(prefix string, s render.Span) string {
	u := url.URL{Path: s.File}
	link := strings.TrimSuffix(prefix, "/") + "/" + strings.NewReplacer("(", "%28", ")", "%29").Replace(strings.TrimPrefix(u.EscapedPath(), "/"))
	if s.Line > 0 {
		link += "#L" + strconv.Itoa(s.Line)
	}
	return link
}

// diffs is the section of what changes in objects, each folded.
func (m *markdownWriter) diffs() {
	var changed []*Change
	for i := range m.changes {
		for j := range m.changes[i].changes {
			if c := &m.changes[i].changes[j]; c.Diff != "" {
				changed = append(changed, c)
			}
		}
	}
	m.section("What changes in objects", shareDiffs, len(changed), func(i int) string {
		c := changed[i]
		block := fenced(strings.Join(c.diffLines(), "\n"))
		fence, rest, _ := strings.Cut(block, "\n")
		place := ""
		if c.Origin != nil {
			place = " at " + m.linked(*c.Origin)
		}
		return "**" + c.happens() + "**: " + code(full(c.Object)) + place + "\n\n<details><summary>what changes</summary>\n\n" +
			fence + "diff\n" + rest + "\n\n</details>\n" + strings.Repeat("\n", min(1, len(changed)-1-i))
	})
}

// losses is the section of deletions that take more along.
func (p *pageWriter) losses() {
	found := losses(p.Report)
	p.section("losses", "Deleted, with what it takes along", shareChanges, len(found), func(i int) string { return p.change(found[i]) })
}

func (p *pageWriter) change(c *Change) string {
	place, link := "", ""
	if c.Origin != nil {
		place = visible(c.Origin.String(), maxMessage)
		if p.links != "" {
			link = linkTo(p.links, *c.Origin)
		}
	}
	return p.render("change", map[string]string{
		"Class": c.happens(), "Object": full(c.Object), "From": c.from(), "Place": place, "Link": link,
		"Takes": prose(c.Takes), "Diff": strings.Join(c.diffLines(), "\n"),
	})
}
