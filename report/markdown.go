package report

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// The markdown format is GitHub's job summary, and good for comments. GitHub
// drops a summary of more than 1 MiB as a whole ("supports content up to a size
// of 1024k", November 2026), so this ends at 900 KiB whatever the report, or at
// less where less is asked for: a comment holds 65536 characters. A part that
// does not fit its share says how much of it is missing, as the head does.
//
// What others wrote stands in blocks and spans of code, or is escaped.

// MaxMarkdown and MinMarkdown bound [Options.Limit], in bytes.
const (
	MaxMarkdown = 900 << 10
	MinMarkdown = 32 << 10
)

const (
	markdownTitles     = 20 << 10 // bytes for the head and the titles
	maxMarkdownChanges = 20       // objects of a unit
)

// A markdownWriter writes the parts of a summary.
type markdownWriter struct {
	*digest
	buf   bytes.Buffer
	frame bytes.Buffer
	text  *printer // writes to frame
	parts int      // the most bytes of all parts
	cut   bool     // something is missing
}

func writeMarkdown(w io.Writer, r *Report, o Options) error {
	limit := MaxMarkdown
	if o.Limit > 0 {
		limit = max(MinMarkdown, min(o.Limit, MaxMarkdown))
	}
	m := &markdownWriter{digest: newDigest(r), parts: limit - markdownTitles}
	m.text = newEmbedded(&m.frame, r)
	m.incomplete()
	m.findings("Denied", endDenied, m.found[denied])
	m.findings("Warned", endWarned, m.found[warned])
	m.findings("Audited", endAudited, m.found[audited])
	m.clusterChanges()
	m.proposed()
	m.accepted()
	m.notes()
	out := bufio.NewWriterSize(w, 64<<10)
	for line := range strings.Lines(m.head() + m.buf.String()) {
		out.WriteString(guard(line))
	}
	return out.Flush()
}

// newEmbedded prints findings as text into another format.
func newEmbedded(b *bytes.Buffer, r *Report) *printer {
	return &printer{Options: Options{Width: defaultWidth}, out: bufio.NewWriter(b), src: newSource(r), embedded: true}
}

// embed is what print writes as text, without the last line end.
func (p *printer) embed(b *bytes.Buffer, print func()) string {
	b.Reset()
	print()
	p.out.Flush() // to a buffer: no error
	return strings.TrimSuffix(b.String(), "\n")
}

// head is written last, since it says what is missing below.
func (m *markdownWriter) head() string {
	var b strings.Builder
	b.WriteString("## preadmit: " + m.tally.String() + "\n\n" + m.judged() + "\n")
	if m.Base != nil {
		fmt.Fprintf(&b, "\nChange: %s, from %s (%s).\n", changeCount(m.Changes), code(name(m.Base.Revision)), code(name(shortCommit(m.Base.Commit))))
	}
	if m.nothing() {
		b.WriteString("\n**Nothing was judged**: this says nothing about what is in the tree.\n")
	}
	if m.cut {
		fmt.Fprintf(&b, "\n**Not all is shown below**, which ends at %d KiB. The numbers above count everything, and the JSON report (`-o json`) has it.\n", (m.parts+markdownTitles)>>10)
	}
	return b.String()
}

// part writes a part of n items, as many as fit before the end of its share.
// Without items it writes nothing.
func (m *markdownWriter) part(title string, end, n int, item func(i int) string) {
	m.weighed(title, end, n, one, item)
}

// weighed writes a part whose items count for more than one.
func (m *markdownWriter) weighed(title string, end, n int, weight func(i int) int, item func(i int) string) {
	if n == 0 {
		return
	}
	total := sum(0, n, weight)
	fmt.Fprintf(&m.buf, "\n### %s (%d)\n\n", title, total)
	for i := range n {
		text := item(i)
		if m.buf.Len()+len(text) > end*(m.parts/1000) {
			m.cut = true
			fmt.Fprintf(&m.buf, "\n**%d of these %d are not shown here.**\n", sum(i, n, weight), total)
			return
		}
		m.buf.WriteString(text)
	}
}

func (m *markdownWriter) incomplete() {
	m.part("Not rendered, or not whole", endNotWhole, len(m.notWhole), func(i int) string { return unitItem(m.notWhole[i]) })
	m.findings("In error", endBroken, m.found[broken])
	m.findings("Not decided", endUndecided, m.found[undecided])
}

func unitItem(u Unit) string {
	item := "- " + code(visible(u.Path, maxMessage)) + " (" + plainText(name(u.Kind)) + ", " + plainText(name(u.Status)) + ")"
	if u.Reason != "" {
		item += ": " + plainText(prose(u.Reason))
	}
	return item + "\n"
}

// findings shows groups with their source lines and all that led there.
func (m *markdownWriter) findings(title string, end int, found []*group) {
	m.weighed(title, end, len(found), weights(found), func(i int) string {
		g := found[i]
		body := m.text.embed(&m.frame, func() { m.text.details(g) })
		return "**" + classes[g.class].word + "**: " + plainText(headlineOf(g.first())) + "\n\n" + fenced(body) + "\n" + strings.Repeat("\n", min(1, len(found)-1-i))
	})
}

// headlineOf is the message of a finding.
func headlineOf(x *policy.Result) string {
	return cmp.Or(prose(x.Message), "the rule gives no message")
}

func (m *markdownWriter) clusterChanges() {
	title := "What changes on the cluster"
	m.part(title, endChanges, len(m.changes), func(i int) string {
		u := &m.changes[i]
		var b strings.Builder
		fmt.Fprintf(&b, "- %s: %s\n", code(visible(u.unit, maxMessage)), changeCount(u.changes))
		for j := range u.changes {
			if j == maxMarkdownChanges {
				fmt.Fprintf(&b, "  - … and %d more\n", len(u.changes)-j)
				break
			}
			b.WriteString("  - " + changeItem(&u.changes[j]) + "\n")
		}
		return b.String()
	})
}

func changeItem(c *Change) string {
	item := c.happens() + ": " + code(full(c.Object))
	if from := c.from(); from != "" {
		item += ", was " + code(from)
	}
	return item
}

func (m *markdownWriter) proposed() {
	m.list("Newly found by the proposed policies", endNewly, m.newly, func(x *policy.Result) string { return "newly " + wordOf(x) })
	m.list("No longer found by the proposed policies", endNoLonger, m.noLonger, func(x *policy.Result) string { return "no longer " + wordOf(x) })
}

func (m *markdownWriter) accepted() {
	m.list("Fixed", endFixed, m.fixed, func(x *policy.Result) string { return "fixed: " + wordOf(x) })
	m.list("Suppressed", endSuppressed, m.suppressed, func(x *policy.Result) string {
		return "suppressed until " + plainText(name(x.Suppression.Expires)) + " (" + plainText(prose(x.Suppression.Reason)) + "): " + wordOf(x)
	})
	m.list("In what nothing found here deploys", endUnchanged, m.unreached, wordOf)
	m.list("There before, and unchanged", endUnchanged, m.unchanged, wordOf)
}

func (m *markdownWriter) notes() {
	m.part("Notes", endNotes, len(m.Notes), func(i int) string { return "- " + plainText(prose(m.Notes[i])) + "\n" })
}

// list writes results on a line each.
func (m *markdownWriter) list(title string, end int, results []*policy.Result, word func(*policy.Result) string) {
	m.part(title, end, len(results), func(i int) string {
		x := results[i]
		item := "- " + word(x) + ": "
		if x.Object.Kind != "" || x.Object.Unit != "" {
			item += code(strings.TrimSuffix(subject(x.Object), ": ")) + ": "
		}
		item += plainText(headlineOf(x)) + " [" + code(ruleName(x.Engine, x.Policy, x.Rule)) + "]"
		if p := m.text.place(place(x).Span); p != "" {
			item += " at " + code(p)
		}
		return item + "\n"
	})
}

func wordOf(x *policy.Result) string {
	c, _ := classOf(x)
	return classes[c].word
}
