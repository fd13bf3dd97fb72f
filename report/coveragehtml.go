package report

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A coveragePart is a line with branches, or with Line 0 the lines between two
// such lines.
type coveragePart struct {
	Line               int
	Class, Text, Count string
	Open               bool // a branch of the line was not taken
	Branches           []coverageBranch
	Plain              []plainLine
}

type coverageBranch struct{ Class, Word, Text string }

type plainLine struct {
	Number int
	Text   string
}

// A coveragePage is the template's data for a file of policies.
type coveragePage struct {
	ID, Name, Count string
	Parts           []coveragePart
}

// writeCoverageHTML writes each file of policies with the branches below their lines.
// As in the report of check, all text of others passes through visible and
// html/template.
func writeCoverageHTML(w io.Writer, c *Coverage, _ Options) error {
	p := &pageWriter{}
	src := newSource(&Report{Tree: c.Tree})
	var main strings.Builder
	var pages []coveragePage
	left := 0
	for i, f := range c.files() {
		page := coveragePage{ID: "file-" + strconv.Itoa(i+1), Name: visible(inFetched(f.name), maxMessage), Count: taken(f.count())}
		if main.Len() > maxPage {
			left++
			continue
		}
		page.Parts = coverageParts(src.file(f.name), f)
		main.WriteString(p.render("coverageFile", page))
		pages = append(pages, page)
	}
	var rules []map[string]any
	for i := range c.Rules {
		r := &c.Rules[i]
		rules = append(rules, map[string]any{"Name": ruleName(r.Engine, r.Policy, r.Rule), "Branches": r.Branches, "Covered": r.Covered, "Percent": percent(r.CoverageCount)})
	}
	head := p.render("coverage", map[string]any{"Tally": covered(c), "Files": pages, "Left": left})
	table := p.render("coverageRules", rules)
	if p.err != nil {
		return p.err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	out.WriteString(preamble("coverage, " + covered(c)))
	for line := range strings.Lines(head + "<main>\n" + table + main.String() + "</main>\n") {
		out.WriteString(guard(line))
	}
	out.WriteString("<script>" + pageJS + "</script>\n</body>\n</html>\n")
	return out.Flush()
}

func taken(c CoverageCount) string { return fmt.Sprintf("%d of %d", c.Covered, c.Branches) }

// coverageParts returns the lines of a file from the first to the last with
// branches. If the file can't be read, it returns only the lines with branches.
func coverageParts(text *file, f *coveredFile) []coveragePart {
	var parts []coveragePart
	next := 0 // the line after the one before
	for _, l := range f.lines {
		line := coveragePart{Line: l.line, Count: taken(l.count())}
		if text != nil && l.line <= len(text.lines) && l.line > 0 {
			if next > 0 && next < l.line {
				parts = append(parts, plainLines(text, next, l.line))
			}
			line.Text = visible(strings.ReplaceAll(text.lines[l.line-1], "\t", "  "), maxMessage)
			next = l.line + 1
		}
		for _, b := range l.branches {
			x := coverageBranch{"fixed", b.Case + " " + strconv.FormatInt(b.Hits, 10) + "x", prose(b.Part) + " [" + name(b.Policy) + "/" + name(b.Rule) + "]"}
			x.Word = prose(x.Word)
			if b.Hits == 0 {
				x.Class, x.Word = "denied", prose("never "+b.Case)
				line.Class, line.Open = "denied", true
			}
			line.Branches = append(line.Branches, x)
		}
		parts = append(parts, line)
	}
	return parts
}

// plainLines returns the lines of a file from one up to before another.
func plainLines(text *file, from, to int) coveragePart {
	part := coveragePart{}
	for n := from; n < to; n++ {
		part.Plain = append(part.Plain, plainLine{n, visible(strings.ReplaceAll(text.lines[n-1], "\t", "  "), maxMessage)})
	}
	return part
}
