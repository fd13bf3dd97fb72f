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
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/policy"
)

// The html format is one file for auditors and artifacts. It loads nothing, and its
// Content-Security-Policy makes browsers enforce this: it allows one style and one script, by their
// hashes. Without scripts only the filter is missing. Text of the tree passes through visible and
// is then escaped by html/template. Browsers are slow with half a million elements, so a page ends
// at 8 MiB. A section that does not fit says how many of its items are left out, and so does the
// head.
const (
	maxPage        = 8 << 20 // bytes, but for the last item
	maxFacts       = 50      // objects, places or messages of a finding
	maxSet         = 200     // changes of a unit that are an item
	maxOpen        = 20      // units that are not folded, as in page.js
	maxReach       = 500     // units and objects in the picture of a change
	maxReachOfUnit = 20      // objects of a unit in it
)

//go:embed page/page.css
var pageCSS string

//go:embed page/page.js
var pageJS string

//go:embed page/page.tmpl
var pageText string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// A pageWriter writes the parts of a page. err is the first error.
type pageWriter struct {
	*digest
	text     *printer
	sections []*section
	kinds    []string
	links    links
	err      error
}

// A pagePart is the template's data for a section.
type pagePart struct {
	ID, Title string
	N, Left   int
}

func writeHTML(w io.Writer, r *Report, o Options) error {
	p := &pageWriter{digest: newDigest(r), links: newLinks(o, r)}
	p.text = newEmbedded(&bytes.Buffer{}, r)
	p.text.repeated = p.repeated
	p.body()
	allot(maxPage, p.sections)
	var main strings.Builder
	for _, s := range p.sections {
		p.write(&main, s)
	}
	head := p.head()
	if p.err != nil {
		return p.err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	out.WriteString(preamble(p.tally.String()))
	for line := range strings.Lines(head + "<main>\n" + main.String() + "</main>\n") {
		out.WriteString(guard(line))
	}
	out.WriteString("<script>" + pageJS + "</script>\n</body>\n</html>\n")
	return out.Flush()
}

// preamble returns everything before the visible part of a page.
func preamble(title string) string {
	csp := "default-src 'none'; style-src " + cspHash(pageCSS) + "; script-src " + cspHash(pageJS) + "; base-uri 'none'; form-action 'none'"
	return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"" + csp + "\">\n" +
		"<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
		"<title>preadmit: " + xmlText(title) + "</title>\n<style>" + pageCSS + "</style>\n</head>\n<body>\n"
}

func cspHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p *pageWriter) head() string {
	change := ""
	if p.Base != nil {
		change = p.changeCount() + ", from " + name(p.Base.Revision) + " (" + name(shortCommit(p.Base.Commit)) + ")"
	}
	var shares []string
	for _, s := range changeShares(p.changes) {
		if s.cluster != "" {
			shares = append(shares, name(s.cluster)+": "+s.count+" in "+policy.Plural(len(s.units), "unit"))
		}
	}
	var parts []pagePart
	for _, s := range p.sections {
		parts = append(parts, s.page())
	}
	return p.render("head", map[string]any{
		"Tally": p.tally.String(), "Evaluated": p.evaluated(), "Change": change, "Shares": shares, "Nothing": p.nothing(), "CutShort": p.cutShort(),
		"Left": leftOut(p.sections), "Parts": parts, "Kinds": p.kinds,
	})
}

func (s *section) page() pagePart { return pagePart{s.id, s.title, s.total(), s.left} }

func (p *pageWriter) render(name string, data any) string {
	var b strings.Builder
	if err := page().ExecuteTemplate(&b, name, data); err != nil && p.err == nil {
		p.err = err
	}
	return b.String()
}

// body adds the sections, findings first.
func (p *pageWriter) body() {
	p.losses()
	p.findings("denied", "Denied", shareDenied, denied)
	p.findings("in-error", "In error", shareBroken, broken)
	p.findings("not-decided", "Not decided", shareUndecided, undecided)
	p.missing()
	p.findings("warned", "Warned", shareWarned, warned)
	p.findings("audited", "Audited", shareAudited, audited)
	p.units("not-whole", "Not rendered, or only partly", shareNotWhole, p.notWhole)
	p.reach()
	p.changed()
	p.proposals("newly", "Newly found by the proposed policies", shareNewly, p.newly)
	p.proposals("no-longer", "No longer found by the proposed policies", shareNoLonger, p.noLonger)
	p.lines("fixed", "Fixed", "fixed", shareFixed, p.fixed)
	p.lines("suppressed", "Suppressed", "suppressed", shareSuppressed, p.suppressed)
	p.grouped("unreached", "In units that nothing found here deploys", shareUnreached, p.unreached)
	p.grouped("unchanged", "There before, and unchanged", shareUnchanged, p.unchanged)
	p.assumed()
	p.section("notes", "Notes", shareNotes, len(p.Notes), func(i int) string { return p.render("note", prose(p.Notes[i])) })
	p.units("units", "Units", shareUnits, p.Units)
	p.rules()
}

// section adds a section of n items. Without items there is none.
func (p *pageWriter) section(id, title string, share, n int, item func(i int) string) *section {
	s := &section{id: id, title: title, share: share, n: n, item: item}
	if n > 0 {
		p.sections = append(p.sections, s)
	}
	return s
}

// write writes a section with the items that fit, in a table if it has a head.
func (p *pageWriter) write(b *strings.Builder, s *section) {
	b.WriteString(p.render("part", s.page()))
	if s.head != "" {
		b.WriteString(p.render(s.head, nil))
	}
	s.fit(func(text string) { b.WriteString(text) })
	if s.head != "" {
		b.WriteString(p.render("endTable", nil))
	}
	if s.left > 0 {
		b.WriteString(p.render("left", s.page()))
	}
	b.WriteString("</section>\n")
}

func (p *pageWriter) assumed() {
	repeated := mostRepeated(p.repeated)
	p.section("assumed", "Assumed", shareAssumed, len(repeated), func(i int) string {
		return p.render("note", prose(repeated[i])+" ("+policy.Plural(p.repeated[repeated[i]], "finding")+")")
	})
}

func (p *pageWriter) findings(id, title string, share int, c class) {
	found := p.found[c]
	if len(found) > 0 {
		p.kinds = append(p.kinds, classes[c].word)
	}
	s := p.section(id, title, share, len(found), func(i int) string { return p.render("finding", p.finding(found[i])) })
	s.weight = weights(found)
}

// reach draws what the change reaches, as nested lists.
func (p *pageWriter) reach() {
	if picture := p.picture(maxReach, maxReachOfUnit); picture != nil {
		s := p.section("reach", "What this change reaches", shareReach, 1, func(int) string { return p.render("reach", picture) })
		s.weight = func(int) int { return len(p.changes) }
	}
}

// changed adds the changes of each unit, in sets that can be folded.
func (p *pageWriter) changed() {
	type set struct {
		unit    int
		changes []Change
	}
	var all []set
	for i := range p.changes {
		for part := range slices.Chunk(p.changes[i].changes, maxSet) {
			all = append(all, set{i, part})
		}
	}
	s := p.section("changes", "What changes on the cluster", shareChanges, len(all), func(i int) string {
		var b strings.Builder
		for j := range all[i].changes {
			b.WriteString(p.change(&all[i].changes[j]))
		}
		u := &p.changes[all[i].unit]
		return p.render("set", map[string]any{
			"Name": u.onCluster(strings.TrimSpace), "Count": changeCount(all[i].changes), "Open": all[i].unit < maxOpen, "Items": template.HTML(b.String()),
		})
	})
	s.weight = func(i int) int { return len(all[i].changes) }
}

// lines adds a section with a line for each result. word comes before the word of the result's
// class.
func (p *pageWriter) lines(id, title, word string, share int, results selection) {
	p.section(id, title, share, results.len(), func(i int) string {
		x := results.at(i)
		why := ""
		if s := x.Suppression; s != nil && x.Baseline != policy.Absent {
			why = "until " + name(s.Expires) + ": " + prose(s.Reason)
		}
		return p.line(x, word, why)
	})
}

func (p *pageWriter) proposals(id, title string, share int, all []proposal) {
	p.section(id, title, share, len(all), func(i int) string {
		return p.line(all[i].results[0], "", strings.TrimPrefix(all[i].instead+all[i].others(), ", "))
	})
}

// grouped adds a section with a line for each rule and message.
func (p *pageWriter) grouped(id, title string, share int, results selection) {
	same := sameMessage(results)
	s := p.section(id, title, share, len(same), func(i int) string {
		why := ""
		if more := same[i].len() - 1; more > 0 {
			why = "and " + strconv.Itoa(more) + " more"
		}
		return p.line(same[i].at(0), id, why)
	})
	s.weight = func(i int) int { return same[i].len() }
}

func (p *pageWriter) line(x *policy.Result, word, why string) string {
	return p.render("line", map[string]string{
		"Class": cmp.Or(word, wordOf(x)), "Word": strings.TrimPrefix(word+": "+wordOf(x), ": "), "Object": strings.TrimSuffix(subject(x.Object), ": "),
		"Message": headlineOf(x), "Rule": ruleName(x.Engine, x.Policy, x.Rule), "Place": p.text.place(place(x).Span), "Link": p.links.to(place(x).Span), "Why": why,
	})
}

func (p *pageWriter) units(id, title string, share int, units []Unit) {
	s := p.section(id, title, share, len(units), func(i int) string {
		u := &units[i]
		class := ""
		if u.Status != "rendered" {
			class = "error"
		}
		return p.render("unit", map[string]any{
			"Class": class, "Path": visible(u.Identity(), maxMessage), "Kind": name(u.Kind), "Status": name(u.Status), "Objects": u.Objects, "Reason": prose(u.Reason),
			"Findings": classCount(p.byUnit[u.Identity()]),
		})
	})
	s.head = "unitsTable"
}

// rules lists each rule with its counts, the only place that shows passes.
func (p *pageWriter) rules() {
	counts := make(map[ruleKey]*tally)
	of := func(x *policy.Result) *tally {
		k := ruleKeyOf(x)
		if counts[k] == nil {
			counts[k] = &tally{}
		}
		return counts[k]
	}
	for _, x := range p.results.all() {
		of(x).count(x)
	}
	for x, n := range p.Passes.Rules() {
		of(x).passed += n
	}
	rules := sortedRules(p.Report)
	s := p.section("rules", "Rules", shareRules, len(rules), func(i int) string {
		r := &rules[i]
		t := counts[ruleKey{r.Engine, r.Policy, r.Name}]
		if t == nil {
			t = &tally{}
		}
		return p.render("rule", map[string]any{
			"Name": ruleName(r.Engine, r.Policy, r.Name), "Engine": name(r.Engine), "Action": string(r.Action), "Severity": name(string(r.Severity)),
			"Passed": t.passed, "Skipped": t.skipped, "Failed": t.classes[denied] + t.classes[warned] + t.classes[audited], "Undecided": t.classes[undecided] + t.classes[broken],
			"Title": cmp.Or(prose(r.Title), prose(r.Description)), "Place": p.text.place(r.Origin), "Link": p.links.to(r.Origin),
		})
	})
	s.head = "rulesTable"
}

// losses adds the section of deletions that delete more than the object.
func (p *pageWriter) losses() {
	found := losses(p.Report)
	p.section("losses", "Deletions that delete more than the object itself", shareChanges, len(found), func(i int) string { return p.change(found[i]) })
}

func (p *pageWriter) change(c *Change) string {
	place := ""
	if c.Origin != nil {
		place = visible(c.Origin.String(), maxMessage)
	}
	return p.render("change", map[string]string{
		"Class": c.happens(), "Object": full(c.Object), "From": c.from(), "Place": place, "Link": p.links.of(c),
		"Takes": prose(c.Takes), "Diff": strings.Join(c.diffLines(), "\n"),
	})
}
