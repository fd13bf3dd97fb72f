package report

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// The html format is one file for auditors and artifacts. It asks for nothing
// from anywhere, and its own policy (CSP) has the browser hold it to that: one
// style and one script, by their hashes. Without scripts all is there but the
// filter. What is not ours is text to html/template, after visible.
//
// Browsers take long over half a million elements, so this ends at 8 MiB. A part that
// does not fit its share says how much of it is missing, as the head does.
const (
	maxPage  = 8 << 20 // bytes, but for the last item
	maxFacts = 50      // objects, places or messages of a finding
)

//go:embed page/page.css
var pageCSS string

//go:embed page/page.js
var pageJS string

//go:embed page/page.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A pageWriter writes the parts of a page. It is an error's witness: the first
// stays in err.
type pageWriter struct {
	*digest
	buf   bytes.Buffer
	text  *printer
	parts []pagePart
	kinds []string
	cut   bool
	err   error
}

type pagePart struct {
	ID, Title string
	N, Left   int
	head      string // of the table, if it is one
}

func writeHTML(w io.Writer, r *Report, _ Options) error {
	p := &pageWriter{digest: newDigest(r)}
	p.text = newEmbedded(&bytes.Buffer{}, r)
	p.body()
	main := p.buf.String()
	p.buf.Reset()
	p.head()
	if p.err != nil {
		return p.err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	out.WriteString(p.preamble())
	for line := range strings.Lines(p.buf.String() + "<main>\n" + main + "</main>\n") {
		out.WriteString(guard(line))
	}
	out.WriteString("<script>" + pageJS + "</script>\n</body>\n</html>\n")
	return out.Flush()
}

// preamble is all before what is seen.
func (p *pageWriter) preamble() string {
	csp := "default-src 'none'; style-src " + cspHash(pageCSS) + "; script-src " + cspHash(pageJS) + "; base-uri 'none'; form-action 'none'"
	return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"" + csp + "\">\n" +
		"<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
		"<title>preadmit: " + xmlText(p.tally.String()) + "</title>\n<style>" + pageCSS + "</style>\n</head>\n<body>\n"
}

func cspHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p *pageWriter) head() {
	change := ""
	if p.Base != nil {
		change = changeCount(p.Changes) + ", from " + name(p.Base.Revision) + " (" + name(shortCommit(p.Base.Commit)) + ")"
	}
	p.render("head", map[string]any{
		"Tally": p.tally.String(), "Judged": p.judged(), "Change": change, "Nothing": p.nothing(),
		"Cut": p.cut, "Parts": p.parts, "Kinds": p.kinds,
	})
}

func (p *pageWriter) render(name string, data any) {
	if err := page.ExecuteTemplate(&p.buf, name, data); err != nil && p.err == nil {
		p.err = err
	}
}

// body writes the parts, those that say what was not looked at first.
func (p *pageWriter) body() {
	p.units("not-whole", "Not rendered, or not whole", endNotWhole, p.notWhole)
	p.findings("in-error", "In error", endBroken, broken)
	p.findings("not-decided", "Not decided", endUndecided, undecided)
	p.findings("denied", "Denied", endDenied, denied)
	p.findings("warned", "Warned", endWarned, warned)
	p.findings("audited", "Audited", endAudited, audited)
	p.changed()
	p.lines("newly", "Newly found by the proposed policies", "", endNewly, p.newly)
	p.lines("no-longer", "No longer found by the proposed policies", "", endNoLonger, p.noLonger)
	p.lines("fixed", "Fixed", "fixed", endFixed, p.fixed)
	p.lines("suppressed", "Suppressed", "suppressed", endSuppressed, p.suppressed)
	p.lines("unreached", "In what nothing found here deploys", "unreached", endUnchanged, p.unreached)
	p.lines("unchanged", "There before, and unchanged", "unchanged", endUnchanged, p.unchanged)
	p.part("notes", "Notes", endNotes, len(p.Notes), func(i int) { p.render("note", prose(p.Notes[i])) })
	p.units("units", "Units", endUnits, p.Units)
	p.rules()
}

// part writes a part of n items, as many as fit before the end of its share.
func (p *pageWriter) part(id, title string, end, n int, item func(i int)) {
	p.table(pagePart{ID: id, Title: title}, end, n, one, item)
}

// table writes a part, in a table if it has a head, whose items may count for
// more than one.
func (p *pageWriter) table(part pagePart, end, n int, weight func(i int) int, item func(i int)) {
	if n == 0 {
		return
	}
	part.N = sum(0, n, weight)
	p.parts = append(p.parts, part)
	p.render("part", part)
	if part.head != "" {
		p.render(part.head, nil)
	}
	for i := range n {
		if p.buf.Len() > end*(maxPage/1000) {
			part.Left = sum(i, n, weight)
			break
		}
		item(i)
	}
	if part.head != "" {
		p.render("endTable", nil)
	}
	if part.Left > 0 {
		p.cut = true
		p.render("left", part)
	}
	p.buf.WriteString("</section>\n")
}

func (p *pageWriter) findings(id, title string, end int, c class) {
	if len(p.found[c]) > 0 {
		p.kinds = append(p.kinds, classes[c].word)
	}
	p.table(pagePart{ID: id, Title: title}, end, len(p.found[c]), weights(p.found[c]), func(i int) { p.render("finding", p.finding(p.found[c][i])) })
}

func (p *pageWriter) changed() {
	n := 0
	for _, u := range p.changes {
		n += len(u.changes)
	}
	unit, next := 0, 0
	p.part("changes", "What changes on the cluster", endChanges, n, func(int) {
		u := &p.changes[unit]
		if next == 0 {
			p.render("unitOfChanges", map[string]string{"Unit": cmp.Or(visible(u.unit, maxMessage), "(no unit)"), "Count": changeCount(u.changes)})
		}
		c := &u.changes[next]
		p.render("change", map[string]string{"Class": c.happens(), "Object": full(c.Object), "From": c.from()})
		if next++; next == len(u.changes) {
			unit, next = unit+1, 0
		}
	})
}

// lines writes results on a line each; the word is before that of their class.
func (p *pageWriter) lines(id, title, word string, end int, results []*policy.Result) {
	p.part(id, title, end, len(results), func(i int) {
		x := results[i]
		why := ""
		if s := x.Suppression; s != nil && x.Baseline != policy.Absent {
			why = "until " + name(s.Expires) + ": " + prose(s.Reason)
		}
		p.render("line", map[string]string{
			"Class": cmp.Or(word, wordOf(x)), "Word": strings.TrimPrefix(word+": "+wordOf(x), ": "), "Object": strings.TrimSuffix(subject(x.Object), ": "),
			"Message": headlineOf(x), "Rule": ruleName(x.Engine, x.Policy, x.Rule), "Place": p.text.place(place(x).Span), "Why": why,
		})
	})
}

func (p *pageWriter) units(id, title string, end int, units []Unit) {
	p.table(pagePart{ID: id, Title: title, head: "unitsTable"}, end, len(units), one, func(i int) {
		u := &units[i]
		class := ""
		if u.Status != "rendered" {
			class = "error"
		}
		p.render("unit", map[string]any{
			"Class": class, "Path": visible(u.Path, maxMessage), "Kind": name(u.Kind), "Status": name(u.Status), "Objects": u.Objects, "Reason": prose(u.Reason),
		})
	})
}

// rules tells of each rule what it said, which is all that tells of passes.
func (p *pageWriter) rules() {
	counts := make(map[ruleKey]*tally)
	for i := range p.results {
		x := &p.results[i]
		k := ruleKey{x.Engine, x.Policy, x.Rule}
		if counts[k] == nil {
			counts[k] = &tally{}
		}
		counts[k].count(x)
	}
	rules := sortedRules(p.Report)
	p.table(pagePart{ID: "rules", Title: "Rules", head: "rulesTable"}, endRules, len(rules), one, func(i int) {
		r := &rules[i]
		t := counts[ruleKey{r.Engine, r.Policy, r.Name}]
		if t == nil {
			t = &tally{}
		}
		p.render("rule", map[string]any{
			"Name": ruleName(r.Engine, r.Policy, r.Name), "Engine": name(r.Engine), "Action": string(r.Action), "Severity": name(string(r.Severity)),
			"Passed": t.passed, "Skipped": t.skipped, "Failed": t.classes[denied] + t.classes[warned] + t.classes[audited], "Undecided": t.classes[undecided] + t.classes[broken],
			"Title": cmp.Or(prose(r.Title), prose(r.Description)), "Place": p.text.place(r.Origin),
		})
	})
}
