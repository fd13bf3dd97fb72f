package report

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// CoverageSchema names the version of the JSON of --coverage.
const CoverageSchema = "preadmit.coverage/v1"

// A Coverage lists the branches of policies and how often a run took each.
type Coverage struct {
	Schema   string          `json:"schema"`
	Tool     Tool            `json:"tool"`
	Summary  CoverageCount   `json:"summary"`
	Rules    []CoveredRule   `json:"rules"`
	Branches []policy.Branch `json:"branches"` // sorted by their places

	// Tree contains the files from which source lines are read.
	Tree fs.FS `json:"-"`
}

// A CoverageCount counts branches.
type CoverageCount struct {
	Branches int `json:"branches"`
	Covered  int `json:"covered"`
}

// Percent returns the covered share in percent, 100 if there is no branch.
func (c CoverageCount) Percent() float64 {
	if c.Branches == 0 {
		return 100
	}
	return 100 * float64(c.Covered) / float64(c.Branches)
}

func (c *CoverageCount) add(b *policy.Branch) {
	c.Branches++
	if b.Hits > 0 {
		c.Covered++
	}
}

// A CoveredRule counts the branches of one rule.
type CoveredRule struct {
	Engine string `json:"engine"`
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	CoverageCount
}

// NewCoverage makes the report of branches, which are sorted by their places.
func NewCoverage(tool Tool, branches []policy.Branch, tree fs.FS) *Coverage {
	c := &Coverage{Schema: CoverageSchema, Tool: tool, Rules: []CoveredRule{}, Branches: nonNil(branches), Tree: tree}
	at := make(map[[3]string]int)
	for i := range c.Branches {
		b := &c.Branches[i]
		key := [3]string{b.Engine, b.Policy, b.Rule}
		k, ok := at[key]
		if !ok {
			k = len(c.Rules)
			at[key] = k
			c.Rules = append(c.Rules, CoveredRule{Engine: b.Engine, Policy: b.Policy, Rule: b.Rule})
		}
		c.Rules[k].add(b)
		c.Summary.add(b)
	}
	return c
}

// CoverageFormats lists the formats of a Coverage.
var CoverageFormats = FormatList[*Coverage]{
	{"text", "for people: rules, and the lines with branches that were not taken", writeCoverageText},
	{"json", "for programs: everything", func(w io.Writer, c *Coverage, _ Options) error { return WriteValue(w, c) }},
	{"html", "for people: the policies' lines with their branches, one file without network", writeCoverageHTML},
	{"lcov", "for coverage viewers", writeLCOV},
	{"cobertura", "for Jenkins, GitLab and Azure (Cobertura XML)", writeCobertura},
}

// writeCoverageText writes the coverage of each rule, and the source lines of
// branches that nothing took.
func writeCoverageText(w io.Writer, c *Coverage, o Options) error {
	p := &printer{Options: o, out: bufio.NewWriterSize(w, 64<<10), src: newSource(&Report{Tree: c.Tree})}
	p.Width = cmp.Or(p.Width, defaultWidth)
	rows := [][]string{{"POLICY/RULE", "BRANCHES", "COVERED", "%"}}
	for i := range c.Rules {
		r := &c.Rules[i]
		rows = append(rows, []string{name(r.Policy) + "/" + name(r.Rule), strconv.Itoa(r.Branches), strconv.Itoa(r.Covered), percent(r.CoverageCount)})
	}
	if len(c.Rules) > 0 {
		p.columns(rows, 1, 4, func(n int) string {
			if r := c.Rules[n]; r.Covered < r.Branches {
				return yellow
			}
			return green
		})
	}
	p.uncovered(c)
	p.remark("coverage", covered(c))
	return p.out.Flush()
}

func branchCount(n int) string {
	if n == 1 {
		return "1 branch"
	}
	return strconv.Itoa(n) + " branches"
}

func percent(c CoverageCount) string { return strconv.FormatFloat(c.Percent(), 'f', 1, 64) }

// covered returns the last line of the text, with the total of all rules.
func covered(c *Coverage) string {
	if c.Summary.Branches == 0 {
		return "no policy has branches to take; those of packs are not counted"
	}
	return fmt.Sprintf("%d of %s of %s: %s%%", c.Summary.Covered, branchCount(c.Summary.Branches), policy.Plural(len(c.Rules), "rule"), percent(c.Summary))
}

// uncovered writes the lines with branches that nothing took, each below its line.
func (p *printer) uncovered(c *Coverage) {
	file, at := "", -1
	for i := range c.Branches {
		b := &c.Branches[i]
		if b.Hits > 0 {
			continue
		}
		if b.Origin.File != file {
			if file != "" {
				p.line()
			}
			file, at = b.Origin.File, -1
			p.line(p.paint(bold, visible(inFetched(file), maxMessage)))
		}
		if b.Origin.Line != at {
			at = b.Origin.Line
			text, _ := p.src.line(b.Origin)
			p.line(fmt.Sprintf("%5d | ", at), newExcerpt(text, b.Origin, p.Width-8).text)
		}
		p.line("      ", p.paint(red, "! never "+prose(b.Case)), ": ", prose(b.Part), " [", name(b.Policy), "/", name(b.Rule), "]")
	}
	if file != "" {
		p.line()
	}
}

// A coveredLine holds the covered branches of a line of a file.
type coveredLine struct {
	line     int
	branches []*policy.Branch
}

// hits returns how often the most taken branch of the line was taken.
func (c *coveredLine) hits() int64 {
	most := int64(0)
	for _, b := range c.branches {
		most = max(most, b.Hits)
	}
	return most
}

func (c *coveredLine) count() (sum CoverageCount) {
	for _, b := range c.branches {
		sum.add(b)
	}
	return sum
}

// A coveredFile has the lines of a file that hold branches, in order.
type coveredFile struct {
	name  string
	lines []*coveredLine
}

func (c *coveredFile) count() (sum CoverageCount) {
	for _, l := range c.lines {
		n := l.count()
		sum.Branches, sum.Covered = sum.Branches+n.Branches, sum.Covered+n.Covered
	}
	return sum
}

// hitLines counts the lines with a branch that was evaluated.
func (c *coveredFile) hitLines() int {
	n := 0
	for _, l := range c.lines {
		if l.hits() > 0 {
			n++
		}
	}
	return n
}

func (c *Coverage) files() []*coveredFile {
	var all []*coveredFile
	for i := range c.Branches {
		b := &c.Branches[i]
		if b.Origin.File == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].name != b.Origin.File {
			all = append(all, &coveredFile{name: b.Origin.File})
		}
		f := all[len(all)-1]
		if len(f.lines) == 0 || f.lines[len(f.lines)-1].line != b.Origin.Line {
			f.lines = append(f.lines, &coveredLine{line: b.Origin.Line})
		}
		l := f.lines[len(f.lines)-1]
		l.branches = append(l.branches, b)
	}
	return all
}

// writeLCOV writes a tracefile as lcov's geninfo does, with a block for each
// part and the part's cases as branches.
func writeLCOV(w io.Writer, c *Coverage, _ Options) error {
	out := bufio.NewWriter(w)
	for _, f := range c.files() {
		fmt.Fprintf(out, "TN:preadmit\nSF:%s\n", visible(f.name, maxMessage))
		n := f.count()
		for _, l := range f.lines {
			block, nth := 0, 0
			for i, b := range l.branches {
				switch before := l.branches[max(i-1, 0)]; {
				case i == 0:
				case before.Part == b.Part && before.Rule == b.Rule && before.Origin == b.Origin:
					nth++
				default:
					block, nth = block+1, 0
				}
				taken := "-" // nothing was evaluated
				if l.hits() > 0 {
					taken = strconv.FormatInt(b.Hits, 10)
				}
				fmt.Fprintf(out, "BRDA:%d,%d,%d,%s\n", l.line, block, nth, taken)
			}
		}
		fmt.Fprintf(out, "BRF:%d\nBRH:%d\n", n.Branches, n.Covered)
		for _, l := range f.lines {
			fmt.Fprintf(out, "DA:%d,%d\n", l.line, l.hits())
		}
		fmt.Fprintf(out, "LF:%d\nLH:%d\nend_of_record\n", len(f.lines), f.hitLines())
	}
	return out.Flush()
}

// The elements of Cobertura's coverage-04.dtd.
type (
	coberturaCoverage struct {
		XMLName         xml.Name           `xml:"coverage"`
		LineRate        string             `xml:"line-rate,attr"`
		BranchRate      string             `xml:"branch-rate,attr"`
		LinesCovered    int                `xml:"lines-covered,attr"`
		LinesValid      int                `xml:"lines-valid,attr"`
		BranchesCovered int                `xml:"branches-covered,attr"`
		BranchesValid   int                `xml:"branches-valid,attr"`
		Complexity      int                `xml:"complexity,attr"`
		Version         string             `xml:"version,attr"`
		Timestamp       int                `xml:"timestamp,attr"`
		Sources         []string           `xml:"sources>source"`
		Packages        []coberturaPackage `xml:"packages>package"`
	}
	coberturaPackage struct {
		Name       string           `xml:"name,attr"`
		LineRate   string           `xml:"line-rate,attr"`
		BranchRate string           `xml:"branch-rate,attr"`
		Complexity int              `xml:"complexity,attr"`
		Classes    []coberturaClass `xml:"classes>class"`
	}
	coberturaClass struct {
		Name       string          `xml:"name,attr"`
		Filename   string          `xml:"filename,attr"`
		LineRate   string          `xml:"line-rate,attr"`
		BranchRate string          `xml:"branch-rate,attr"`
		Complexity int             `xml:"complexity,attr"`
		Methods    string          `xml:"methods"`
		Lines      []coberturaLine `xml:"lines>line"`
	}
	coberturaLine struct {
		Number   int    `xml:"number,attr"`
		Hits     int64  `xml:"hits,attr"`
		Branch   bool   `xml:"branch,attr"`
		Coverage string `xml:"condition-coverage,attr"`
	}
)

// writeCobertura writes Cobertura's XML, with a class for each file.
func writeCobertura(w io.Writer, c *Coverage, _ Options) error {
	all := coberturaCoverage{Version: name(c.Tool.Name) + " " + name(c.Tool.Version), Sources: []string{"."}, BranchesCovered: c.Summary.Covered, BranchesValid: c.Summary.Branches}
	p := coberturaPackage{Name: "policies", BranchRate: rate(c.Summary.Covered, c.Summary.Branches)}
	for _, f := range c.files() {
		n := f.count()
		class := coberturaClass{
			Name: visible(f.name, maxMessage), Filename: visible(f.name, maxMessage),
			LineRate: rate(f.hitLines(), len(f.lines)), BranchRate: rate(n.Covered, n.Branches),
		}
		for _, l := range f.lines {
			k := l.count()
			class.Lines = append(class.Lines, coberturaLine{l.line, l.hits(), true, fmt.Sprintf("%.0f%% (%d/%d)", k.Percent(), k.Covered, k.Branches)})
		}
		all.LinesCovered, all.LinesValid = all.LinesCovered+f.hitLines(), all.LinesValid+len(f.lines)
		p.Classes = append(p.Classes, class)
	}
	p.LineRate = rate(all.LinesCovered, all.LinesValid)
	all.LineRate, all.BranchRate = p.LineRate, p.BranchRate
	all.Packages = []coberturaPackage{p}
	var b strings.Builder
	enc := xml.NewEncoder(&b)
	enc.Indent("", " ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, xml.Header+b.String()+"\n")
	return err
}

func rate(part, of int) string {
	if of == 0 {
		return "1"
	}
	return strconv.FormatFloat(float64(part)/float64(of), 'f', 4, 64)
}

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
