package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The markdown format is GitHub's job summary, and good for comments. GitHub
// drops a summary of more than 1 MiB as a whole ("supports content up to a size
// of 1024k", November 2026), so this ends at 900 KiB whatever the report, or at
// less where less is asked for: a comment holds 65536 characters. Where there is
// no room for all, the first findings of each section are shown whole, others on
// a line each, and the head counts those left out.
//
// Text of the tree is in blocks and spans of code, or is escaped.

// MaxMarkdown and MinMarkdown bound [Options.Limit], in bytes.
const (
	MaxMarkdown = 900 << 10
	MinMarkdown = 32 << 10
)

const (
	markdownTitles     = 8 << 10 // bytes for the head and the titles
	maxMarkdownChanges = 20      // units, or objects of a unit, that are not folded
	maxFolded          = 200     // names in a folded list
	maxPicture         = 30      // units and objects that are drawn
	maxPictureObjects  = 5       // objects of a unit that are drawn
	maxBrief           = 200     // bytes of a message on a line of its own
)

// A markdownWriter writes the sections of a summary.
type markdownWriter struct {
	*digest
	frame    bytes.Buffer
	text     *printer // writes to frame
	limit    int
	sections []*section
	links    links
}

func writeMarkdown(w io.Writer, r *Report, o Options) error {
	m := &markdownWriter{digest: newDigest(r), limit: MaxMarkdown, links: newLinks(o, r)}
	if o.Limit > 0 {
		m.limit = max(MinMarkdown, min(o.Limit, MaxMarkdown))
	}
	m.text = newEmbedded(&m.frame, r)
	m.text.repeated = m.repeated
	m.losses()
	m.findings("Denied", shareDenied, m.found[denied])
	m.findings("In error", shareBroken, m.found[broken])
	m.findings("Not decided", shareUndecided, m.found[undecided])
	m.missing()
	m.findings("Warned", shareWarned, m.found[warned])
	m.findings("Audited", shareAudited, m.found[audited])
	m.unitsWithFindings()
	m.notRendered()
	m.reach()
	m.clusterChanges()
	m.diffs()
	m.proposals("Newly found by the proposed policies", shareNewly, m.newly)
	m.proposals("No longer found by the proposed policies", shareNoLonger, m.noLonger)
	m.accepted()
	m.notes()
	allot(m.limit-markdownTitles, m.sections)
	var body strings.Builder
	for _, s := range m.sections {
		m.write(&body, s)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	for line := range strings.Lines(m.head() + body.String()) {
		out.WriteString(guard(line))
	}
	return out.Flush()
}

// write writes a section with the items that fit.
func (m *markdownWriter) write(b *strings.Builder, s *section) {
	fmt.Fprintf(b, "\n### %s (%d)\n\n", s.title, s.total())
	s.fit(func(text string) { b.WriteString(text) })
	if s.left > 0 {
		fmt.Fprintf(b, "\n**%d of these %d are not shown here.**\n", s.left, s.total())
	}
}

// head returns the head, which is written last because it counts the findings that are
// missing below.
func (m *markdownWriter) head() string {
	var b strings.Builder
	b.WriteString("## preadmit: " + m.tally.String() + "\n\n" + m.evaluated() + "\n")
	if m.Base != nil {
		b.WriteString(m.changeSummary())
	}
	b.WriteString(m.rehearsal())
	if why := m.cutShort(); why != "" {
		b.WriteString("\n**Incomplete**: " + plainText(why) + ".\n")
	}
	if m.nothing() {
		b.WriteString("\n**Nothing was checked**: this says nothing about what is in the tree.\n")
	}
	if left := leftOut(m.sections); left != "" {
		fmt.Fprintf(&b, "\n**Not all is shown below**, which ends at %d KiB. Left out: %s. The numbers above count everything, and the JSON report (`-o json`) has it.\n", m.limit>>10, left)
	}
	return b.String()
}

// section adds a section of n items. Without items there is none.
func (m *markdownWriter) section(title string, share, n int, item func(i int) string) *section {
	s := &section{title: title, share: share, n: n, item: item}
	if n > 0 {
		m.sections = append(m.sections, s)
	}
	return s
}

func (m *markdownWriter) notRendered() {
	var items []string
	for _, u := range m.notWhole {
		items = append(items, unitItem(u))
	}
	if n := m.beforeCut; n > 0 {
		items = append(items, "- "+policy.Plural(n, "unit")+", as before the change\n")
	}
	if n := m.unreachedCut; n > 0 {
		items = append(items, "- "+policy.Plural(n, "unit")+" that nothing found here deploys\n")
	}
	m.section("Not rendered, or only partly", shareNotWhole, len(items), func(i int) string { return items[i] })
}

// placeOf returns a link to the place of a finding, or "" if files of the tree have no address.
func (m *markdownWriter) placeOf(x *policy.Result) string {
	if s := place(x).Span; m.links.head != "" && s.File != "" {
		return " at " + placeLink(s, m.links.to(s))
	}
	return ""
}

func unitItem(u Unit) string {
	item := "- " + code(visible(u.Identity(), maxMessage)) + " (" + plainText(name(u.Kind)) + ", " + plainText(name(u.Status)) + ")"
	if u.Reason != "" {
		item += ": " + plainText(prose(u.Reason))
	}
	return item + "\n"
}

// findings adds groups with their source lines and the places that set the value. Groups for which
// there is no room are on a line each.
func (m *markdownWriter) findings(title string, share int, found []*group) {
	s := m.section(title, share, len(found), func(i int) string {
		g := found[i]
		body := m.text.embed(&m.frame, func() { m.text.details(g) })
		return "**" + classes[g.class].word + "**: " + plainText(headlineOf(g.first())) + m.placeOf(g.first()) + "\n\n" + fenced(body) + "\n" + strings.Repeat("\n", min(1, len(found)-1-i))
	})
	s.weight = weights(found)
	s.brief = func(i int) string {
		g := found[i]
		x := *g.first()
		x.Message = render.Cut(prose(x.Message), maxBrief)
		item := m.item(&x, classes[g.class].word)
		if more := g.results.len() - 1; more > 0 {
			item = strings.TrimSuffix(item, "\n") + ", and " + strconv.Itoa(more) + " more\n"
		}
		return item
	}
}

// missing writes the missing objects and settings of undecided findings, with
// the names of those findings folded.
func (m *markdownWriter) missing() {
	m.section("Missing", shareMissing, len(m.missingKinds), func(i int) string {
		l := m.missingKinds[i]
		body := m.text.embed(&m.frame, func() { m.text.missingDetails(l) })
		return "**" + classes[l.class].word + "**: " + plainText(l.headline()) + "\n\n" + fenced(body) + "\n\n" + folded(l) + strings.Repeat("\n", min(1, len(m.missingKinds)-1-i))
	})
}

// folded lists the findings that need each missing object, below a line that
// unfolds them.
func folded(l *missingKind) string {
	var b strings.Builder
	b.WriteString("<details><summary>needed by</summary>\n\n")
	n := 0
	for i, t := range l.items {
		names := t.neededBy()
		if n += len(names); n > maxFolded {
			fmt.Fprintf(&b, "- … and %s\n", policy.Plural(len(l.items)-i, "other"))
			break
		}
		for j := range names {
			names[j] = code(names[j])
		}
		fmt.Fprintf(&b, "- %s: %s\n", code(t.name), strings.Join(names, ", "))
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

// unitsWithFindings counts the findings of each unit, if there are several.
func (m *markdownWriter) unitsWithFindings() {
	if len(m.byUnit) < 2 {
		return
	}
	units := m.findingsByUnit()
	item := func(i int) string {
		return "- " + code(visible(units[i].unit, maxMessage)) + ": " + classCount(units[i].counts) + "\n"
	}
	s := m.section("Findings by unit", shareByUnit, min(len(units), maxMarkdownChanges+1), func(i int) string {
		if i < maxMarkdownChanges {
			return item(i)
		}
		return "\n" + foldedItems("", "more unit", i, len(units), item)
	})
	s.weight = func(i int) int {
		if i < maxMarkdownChanges {
			return 1
		}
		return len(units) - i
	}
}

// reach draws what the change reaches.
func (m *markdownWriter) reach() {
	if picture := m.picture(maxPicture, maxPictureObjects); picture != nil {
		s := m.section("What this change reaches", shareReach, 1, func(int) string { return "```mermaid\n" + mermaid(picture) + "\n```\n" })
		s.weight = func(int) int { return len(m.changes) }
	}
}

func (m *markdownWriter) clusterChanges() {
	title := "What changes on the cluster"
	m.section(title, shareChanges, len(m.changes), func(i int) string {
		u := &m.changes[i]
		var b strings.Builder
		fmt.Fprintf(&b, "- %s: %s\n", u.onCluster(code), changeCount(u.changes))
		item := func(j int) string { return "- " + m.changeItem(&u.changes[j]) + "\n" }
		n := len(u.changes)
		if i >= maxMarkdownChanges {
			return b.String() + foldedItems("  ", "object", 0, n, item)
		}
		for j := range min(n, maxMarkdownChanges) {
			b.WriteString("  " + item(j))
		}
		if n > maxMarkdownChanges {
			fmt.Fprintf(&b, "  - … and %d more\n", n-maxMarkdownChanges)
		}
		return b.String()
	})
}

// foldedItems lists the items from one to another below a line that unfolds them and counts them by a noun. It lists
// only the first, because a section without room for the whole text leaves it out.
func foldedItems(indent, noun string, from, to int, item func(i int) string) string {
	var b strings.Builder
	b.WriteString(indent + "<details><summary>" + policy.Plural(to-from, noun) + "</summary>\n\n")
	for i := from; i < to; i++ {
		if i == from+maxMarkdownChanges {
			fmt.Fprintf(&b, "%s- … and %d more\n", indent, to-i)
			break
		}
		b.WriteString(indent + item(i))
	}
	return b.String() + "\n" + indent + "</details>\n"
}

func (m *markdownWriter) changeItem(c *Change) string {
	item := c.happens() + ": " + code(full(c.Object))
	if from := c.from(); from != "" {
		item += ", was " + code(from)
	}
	if c.Origin != nil {
		item += " at " + placeLink(*c.Origin, m.links.of(c))
	}
	return item
}

func (m *markdownWriter) proposals(title string, share int, all []proposal) {
	m.section(title, share, len(all), func(i int) string {
		return strings.TrimSuffix(m.item(all[i].results[0], all[i].word), "\n") + all[i].others() + "\n"
	})
}

func (m *markdownWriter) accepted() {
	word, deletes := m.fixedWord(), m.deletes()
	m.list(strings.ToUpper(word[:1])+word[1:], shareFixed, m.fixed, func(x *policy.Result) string { return word + withObject(deletes[x.Object]) + ": " + wordOf(x) })
	m.list("Suppressed", shareSuppressed, m.suppressed, func(x *policy.Result) string {
		return "suppressed until " + plainText(name(x.Suppression.Expires)) + " (" + plainText(prose(x.Suppression.Reason)) + "): " + wordOf(x)
	})
	m.grouped("In units that nothing found here deploys", shareUnreached, m.unreached)
	m.grouped("There before, and unchanged", shareUnchanged, m.unchanged)
}

func (m *markdownWriter) notes() {
	repeated := mostRepeated(m.repeated)
	m.section("Assumed", shareAssumed, len(repeated), func(i int) string {
		return "- " + plainText(prose(repeated[i])) + " (" + policy.Plural(m.repeated[repeated[i]], "finding") + ")\n"
	})
	m.section("Notes", shareNotes, len(m.Notes), func(i int) string { return "- " + plainText(prose(m.Notes[i])) + "\n" })
}

// list adds a section with a line for each result.
func (m *markdownWriter) list(title string, share int, results selection, word func(*policy.Result) string) {
	m.section(title, share, results.len(), func(i int) string { return m.item(results.at(i), word(results.at(i))) })
}

// grouped adds a section with a line for each rule and message.
func (m *markdownWriter) grouped(title string, share int, results selection) {
	same := sameMessage(results)
	s := m.section(title, share, len(same), func(i int) string {
		item := m.item(same[i].at(0), wordOf(same[i].at(0)))
		if more := same[i].len() - 1; more > 0 {
			item = strings.TrimSuffix(item, "\n") + ", and " + strconv.Itoa(more) + " more\n"
		}
		return item
	})
	s.weight = func(i int) int { return same[i].len() }
}

// item formats a result on one line.
func (m *markdownWriter) item(x *policy.Result, word string) string {
	item := "- " + word + ": "
	if x.Object.Kind != "" || x.Object.Unit != "" {
		item += code(strings.TrimSuffix(subject(x.Object), ": ")) + ": "
	}
	item += plainText(headlineOf(x)) + " [" + code(ruleName(x.Engine, x.Policy, x.Rule)) + "]"
	if s := place(x).Span; s.File != "" {
		item += " at " + placeLink(s, m.links.to(s))
	}
	return item + "\n"
}

// losses adds the section of deletions that delete more than the object.
func (m *markdownWriter) losses() {
	found := losses(m.Report)
	m.section("Deletions that delete more than the object itself", shareChanges, len(found), func(i int) string {
		perhaps := ""
		if found[i].Dropped {
			perhaps = "perhaps deleted; "
		}
		return "- " + perhaps + m.changeItem(found[i]) + ", and with it " + plainText(prose(found[i].Takes)) + "\n"
	})
}

// diffs adds the differences of objects, each folded.
func (m *markdownWriter) diffs() {
	changed := slices.DeleteFunc(alike(m.changes), func(same []*Change) bool { return same[0].Diff == "" })
	s := m.section("What changes in objects", shareDiffs, len(changed), func(i int) string {
		c := changed[i][0]
		block := fenced(strings.Join(c.diffLines(), "\n"))
		fence, rest, _ := strings.Cut(block, "\n")
		place := ""
		if c.Origin != nil {
			place = " at " + placeLink(*c.Origin, m.links.of(c))
		}
		if more := len(changed[i]) - 1; more > 0 {
			place += ", and the same lines in " + policy.Plural(more, "more object")
		}
		return "**" + c.happens() + "**: " + code(full(c.Object)) + place + "\n\n<details><summary>what changes</summary>\n\n" +
			fence + "diff\n" + rest + "\n\n</details>\n" + strings.Repeat("\n", min(1, len(changed)-1-i))
	})
	s.weight = func(i int) int { return len(changed[i]) }
}

// changeSummary counts the changes on each cluster, with a line for each if
// there are several.
func (m *markdownWriter) changeSummary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nChange: %s, from %s (%s).\n", m.changeCount(), code(name(m.Base.Revision)), code(name(shortCommit(m.Base.Commit))))
	shares := changeShares(m.changes)
	if len(shares) < 2 {
		return b.String()
	}
	b.WriteByte('\n')
	for i := range shares {
		s := &shares[i]
		if i == maxMarkdownChanges {
			fmt.Fprintf(&b, "- … and %d more clusters\n", len(shares)-i)
			break
		}
		where := "no cluster named"
		if s.cluster != "" {
			where = code(name(s.cluster))
		}
		fmt.Fprintf(&b, "- %s: %s in %s\n", where, s.count, policy.Plural(len(s.units), "unit"))
	}
	return b.String()
}

// rehearsal returns the head of a rehearsal's markdown, with the table.
func (m *markdownWriter) rehearsal() string {
	h := m.Rehearsal
	if h == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nRehearsal: " + plainText(h.title()+": "+m.outcome()) + ".\n")
	for i, row := range h.Rows {
		if i == 0 {
			b.WriteString("\n| namespace | objects | failures | policies |\n| --- | ---: | ---: | --- |\n")
		}
		if i == maxRehearsalRows {
			fmt.Fprintf(&b, "\n%d more rows are in the JSON report.\n", len(h.Rows)-i)
			break
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", cell(row.Name), row.Objects, row.Failures, cell(policyList(row)))
	}
	return b.String()
}

// maxRehearsalRows is the most rows of the table in markdown, which is part of
// the head.
const maxRehearsalRows = 50

// cell formats text for a table of markdown.
func cell(text string) string { return strings.ReplaceAll(code(name(text)), "|", "\\|") }
