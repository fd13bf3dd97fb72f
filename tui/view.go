package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// A layout holds the positions of the parts of the screen. From 120 columns on
// the preview is beside the list, from 80 on below it; on narrower screens only
// one of them is shown.
type layout struct {
	tooSmall bool
	single   bool // only the list or the preview is shown
	beside   bool
	onlyPane bool // if only one is shown, it is the preview
	body     int  // number of lines between the tabs and the status line
	list     rect
	preview  rect
	head     int      // number of lines of the preview above its tabs
	tabs     []tabPos // positions of the sections, in the first line
	panes    []tabPos // positions of the previews
	column   int      // width of the list's first column
}

type rect struct{ x, y, w, h int }

func (r rect) has(x, y int) bool { return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h }

// A tabPos is where a tab can be clicked.
type tabPos struct{ from, to, id int }

const (
	minWidth, minHeight = 40, 10
	besideWidth         = 120
	belowWidth          = 80
	belowHeight         = 18
)

// previews reports whether a preview is shown.
func (l *layout) previews() bool { return !l.tooSmall && (!l.single || l.onlyPane) }

// paneHeight returns the number of lines for a pane.
func (l *layout) paneHeight() int { return max(1, l.preview.h-l.head-1) }

// lay computes the layout.
func (m *model) lay() {
	l := &m.layout
	w, h := m.width, m.height
	*l = layout{tooSmall: w < minWidth || h < minHeight, body: max(0, h-3), tabs: l.tabs, panes: l.panes, head: l.head}
	l.beside = w >= besideWidth
	l.single = m.zoom || !l.beside && (w < belowWidth || h < belowHeight)
	l.onlyPane = l.single && (m.focusPreview || m.zoom)
	whole := rect{0, 1, w, l.body}
	switch {
	case l.single:
		l.list, l.preview = whole, whole
	case l.beside:
		left := w * 45 / 100
		l.list = rect{0, 1, left, l.body}
		l.preview = rect{left + 1, 1, w - left - 1, l.body}
	default:
		top := l.body * 2 / 5
		l.list = rect{0, 1, w, top}
		l.preview = rect{0, 1 + top, w, l.body - top}
	}
	if m.graph.height != l.list.h {
		m.graph.height = l.list.h
		m.graph.move(0)
	}
	if m.list.height != l.list.h {
		m.list.height = l.list.h
		m.list.window()
	}
}

// View returns the frame that Update drew.
func (m *model) View() tea.View {
	v := tea.NewView(m.screen)
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "preadmit triage"
	return v
}

// frame draws the screen as lines, each as wide as the screen.
func (m *model) frame() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	if m.layout.tooSmall {
		return m.small()
	}
	lines := make([]string, 0, m.height)
	lines = append(lines, m.header())
	lines = append(lines, m.bodyLines()...)
	lines = append(lines, m.status(), m.help())
	for i := range lines {
		lines[i] = fit(lines[i], m.width)
	}
	return lines
}

func (m *model) small() []string {
	text := fmt.Sprintf("preadmit triage needs %d columns and %d lines; this window has %d and %d. Make it larger, or q.", minWidth, minHeight, m.width, m.height)
	lines := strings.Split(ansi.Wrap(text, m.width, ""), "\n")
	lines = lines[:min(len(lines), m.height)]
	for i := range lines {
		lines[i] = fit(lines[i], m.width)
	}
	return lines
}

// header draws the sections with their counts.
func (m *model) header() string {
	var all []section
	for s := range numSections {
		if s.shown(&m.session.index) {
			all = append(all, s)
		}
	}
	line, tabs := m.sectionTabs(all)
	if ansi.StringWidth(line) > m.width {
		line, tabs = m.sectionTabs([]section{m.section})
		line += m.theme.dim.Render(fmt.Sprintf("  %s %d of %d %s", m.keys.first(actPrevSection), slices.Index(all, m.section)+1, len(all), m.keys.first(actNextSection)))
	}
	m.layout.tabs = tabs
	return line
}

func (m *model) sectionTabs(all []section) (string, []tabPos) {
	var b strings.Builder
	var tabs []tabPos
	x := 0
	for _, s := range all {
		text := fmt.Sprintf(" %s %d ", s.title(&m.session.index), m.session.sectionCount(s))
		tabs = append(tabs, tabPos{x, x + len(text), int(s)})
		x += len(text)
		if s == m.section {
			b.WriteString(m.theme.activeTab.Render(text))
		} else {
			b.WriteString(m.theme.tab.Render(text))
		}
	}
	return b.String(), tabs
}

// bodyLines draws the list and the preview, or an overlay.
func (m *model) bodyLines() []string {
	lines := m.mainLines()
	if m.mode == modeCommand {
		offered := m.commandLines(m.width, m.layout.body)
		lines = append(lines[:len(lines)-len(offered)], offered...)
	}
	return lines
}

func (m *model) mainLines() []string {
	l := &m.layout
	switch {
	case m.mode == modeHelp:
		return m.overlay("Keys", m.helpLines(m.width))
	case m.mode == modeReview && m.change == nil:
		return block([]string{"…"}, m.width, l.body)
	case m.mode == modeReview:
		title := "This would be written to " + report.Visible(m.change.files(), maxLine)
		if m.change.Fix != "" {
			title = report.Visible(m.change.Fix, maxLine) + ": this would be written to " + report.Visible(m.change.files(), maxLine)
		}
		return m.overlay(title, m.diffLines())
	case m.mode == modeForm && l.single:
		return block(m.formLines(l.preview.w), l.preview.w, l.body)
	case l.onlyPane:
		return m.previewLines(l.preview)
	case l.single:
		return m.listLines()
	}
	list, preview := m.listLines(), m.previewLines(l.preview)
	if m.mode == modeForm {
		preview = block(m.formLines(l.preview.w), l.preview.w, l.preview.h)
	}
	if !l.beside {
		return append(list, preview...)
	}
	bar := m.theme.dim.Render("│")
	for i := range list {
		list[i] = fit(list[i], l.list.w) + bar + preview[i]
	}
	return list
}

// overlay draws a window on lines under a title.
func (m *model) overlay(title string, lines []string) []string {
	n := max(1, m.layout.body-1)
	m.scroll = max(0, min(m.scroll, len(lines)-n))
	shown := lines[m.scroll:min(len(lines), m.scroll+n)]
	if rest := len(lines) - m.scroll - len(shown); rest > 0 {
		title += fmt.Sprintf("  (%d lines below: j, pgdn)", rest)
	}
	return block(append([]string{m.theme.title.Render(title)}, shown...), m.width, m.layout.body)
}

func (m *model) diffLines() []string {
	var lines []string
	for l := range strings.SplitSeq(strings.TrimRight(m.change.Diff, "\n"), "\n") {
		lines = append(lines, m.theme.diff(clean(l)))
	}
	return lines
}

// listLines draws the rows in the window.
func (m *model) listLines() []string {
	l, r := m.list, m.layout.list
	if m.inGraph() {
		return m.graphLines(r)
	}
	if len(l.rows) == 0 {
		return block(m.nothing(r.w), r.w, r.h)
	}
	lines := make([]string, 0, r.h)
	end := min(len(l.rows), l.top+r.h)
	m.layout.column = m.columnWidth(l.top, end, r.w)
	for i := l.top; i < end; i++ {
		lines = append(lines, m.rowLine(i, r.w))
	}
	return block(lines, r.w, r.h)
}

// nothing explains why the list is empty.
func (m *model) nothing(width int) []string {
	r := m.session.report
	text := ""
	switch {
	case r.Schema == "" && m.evaluating:
		text = "Rendering and evaluating …"
	case r.Schema == "":
		text = fmt.Sprintf("No results: %s tries again.", m.keys.of(actEvaluate))
	case m.filtered != "":
		text = fmt.Sprintf("Nothing matches the filter: %s clears it.", m.keys.of(actClear))
	case m.section == sectionNew && r.Summary.Objects*r.Summary.Rules == 0:
		text = "Nothing was evaluated: this says nothing about what is in the tree."
	case m.section == sectionNew && r.Incomplete() > 0:
		text = fmt.Sprintf("No failures here, but %s not decided, in the section Not evaluated. %s shows the next section.", policy.Plural(r.Incomplete(), "result"), m.keys.of(actNextSection))
	case m.section == sectionNew:
		text = fmt.Sprintf("Nothing to decide here: %d objects of %d units, %d rules. %s shows the other sections.", r.Summary.Objects, r.Summary.Rendered, r.Summary.Rules, m.keys.of(actNextSection))
	default:
		text = fmt.Sprintf("Nothing here. %s shows the next section.", m.keys.of(actNextSection))
	}
	return append([]string{""}, wrapStyled(m.theme.dim, text, width)...)
}

// columnWidth returns the width of the first column of the visible rows: half
// of the room, less if no row needs that much, or more if the second column
// leaves it.
func (m *model) columnWidth(from, to, width int) int {
	first, second := 0, 0
	for i := from; i < to; i++ {
		if e := m.list.at(i); e != nil {
			a, b := m.columns(e)
			first = max(first, len(indent(m.list.rows[i].group, width))+ansi.StringWidth(a))
			second = max(second, ansi.StringWidth(b))
		}
	}
	room := max(1, width-6)
	return min(first, max(room/2, room-second-2))
}

func (m *model) rowLine(i, width int) string {
	l := m.list
	cursor := i == l.cursor
	inRange := l.anchor >= 0 && i >= min(l.anchor, l.cursor) && i <= max(l.anchor, l.cursor)
	sign := " "
	switch {
	case cursor:
		sign = ">"
	case inRange:
		sign = "|"
	}
	e := l.at(i)
	plain := cursor || inRange
	var line string
	if e == nil {
		line = sign + m.groupText(l.rows[i].group, width-1, plain)
	} else {
		line = sign + m.entryText(e, indent(l.rows[i].group, width), width-1, plain)
	}
	switch {
	case plain && !m.focusPreview:
		return m.theme.selected.Render(fit(line, width))
	case plain:
		return m.theme.unfocused.Render(fit(line, width))
	default:
		return fit(line, width)
	}
}

// groupText draws the head of a group: its name and its counts.
func (m *model) groupText(g *group, width int, plain bool) string {
	fold := indent(g, width) + "▾ "
	if m.list.folded[g.key] {
		fold = indent(g, width) + "▸ "
	}
	room := max(1, width-ansi.StringWidth(fold))
	var counts []string
	for s, n := range g.counts {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, m.session.word(state(s))))
		}
	}
	right := strings.Join(counts, " ")
	if len(right) > room/2 {
		right = fmt.Sprintf("%d", len(g.items))
	}
	name := elide(g.name, max(1, room-len(right)-2))
	gap := strings.Repeat(" ", max(1, room-ansi.StringWidth(name)-len(right)-1))
	if plain {
		return fold + name + gap + right
	}
	return fold + m.theme.title.Render(name) + gap + m.theme.dim.Render(right)
}

// indent returns the blanks before a group in directories, and before its entries.
func indent(g *group, width int) string { return strings.Repeat("  ", min(g.depth, width/8)) }

// entryText draws a row: its symbols, then what the group's head does not
// already say.
func (m *model) entryText(e *entry, indent string, width int, plain bool) string {
	mark, staged := " ", " "
	if e.marked {
		mark = "*"
	}
	switch {
	case e.accepted:
		staged = "+"
	case e.restored:
		staged = "-"
	}
	style, symbol := m.theme.class(e.rank)
	a, b := m.columns(e)
	room := max(1, width-5)
	if e.Message != "" && room >= 90 {
		b += "  " + report.Message(e.Message[:min(len(e.Message), 500)])
	}
	first := max(1, min(m.layout.column, room)-len(indent))
	a = pad(m.shorten(e, a, first), first)
	rest := room - len(indent) - first - 2
	if ansi.StringWidth(b) > rest && m.grouping != byFile && room < 90 {
		b = tail(b, rest)
	}
	if plain {
		return indent + mark + staged + symbol + " " + a + "  " + b
	}
	return indent + mark + staged + style.Render(symbol) + " " + a + "  " + m.theme.dim.Render(ansi.Truncate(b, max(rest, 0), "…"))
}

// columns returns the texts that distinguish an entry within its group.
func (m *model) columns(e *entry) (a, b string) {
	place := report.Visible(e.place().String(), 1024)
	object := shortObject(e)
	switch m.grouping {
	case byRule:
		return object, place
	case byFile:
		a = report.RuleName(e.Result)
		if e.line > 0 {
			a = fmt.Sprintf("%d: %s", e.line, a)
		}
		return a, object
	case byObject:
		return report.RuleName(e.Result), place
	default:
		return report.RuleName(e.Result) + " " + object, place
	}
}

// shorten cuts the first column in the middle. The kind of an object is kept.
func (m *model) shorten(e *entry, s string, width int) string {
	kind := " " + report.Name(e.Object.Kind)
	name, ok := strings.CutSuffix(s, kind)
	if room := width - ansi.StringWidth(kind); ok && m.grouping == byRule && room >= 4 {
		if cluster, rest, several := strings.Cut(name, ":"); several && e.cluster != "" { // the object says more
			name = ansi.Truncate(cluster, max(4, room-1-ansi.StringWidth(rest)), "…") + ":" + rest
		}
		return elide(name, room) + kind
	}
	return elide(s, width)
}

// elide cuts a text in the middle, since both ends distinguish it.
func elide(s string, width int) string {
	n := ansi.StringWidth(s)
	if n <= width || width < 4 {
		return ansi.Truncate(s, max(width, 0), "…")
	}
	right := (width - 1) / 2
	return ansi.Truncate(s, width-right, "…") + ansi.TruncateLeft(s, n-right, "")
}

// shortObject returns an object's name, beginning with the distinguishing part.
func shortObject(e *entry) string {
	if e.Object.Kind == "" {
		return report.ObjectName(e.Object)
	}
	name := report.Name(e.Object.Name)
	if e.Object.Namespace != "" {
		name = report.Name(e.Object.Namespace) + "/" + name
	}
	if e.cluster != "" {
		name = report.Name(e.cluster) + ":" + name
	}
	return name + " " + report.Name(e.Object.Kind)
}

// tail returns the end of a text. The end of a path says more than its
// beginning.
func tail(s string, width int) string {
	n := ansi.StringWidth(s)
	if n <= width || width < 2 {
		return s
	}
	return "…" + ansi.TruncateLeft(s, n-width+1, "")
}

// previewLines draws the message, and the pane below it.
func (m *model) previewLines(r rect) []string {
	if m.inGraph() {
		return m.nodeLines(r)
	}
	e := m.selected()
	if e == nil {
		return block(nil, r.w, r.h)
	}
	lines := m.headLines(e, r)
	m.layout.head = len(lines)
	p := m.preview(r.w)
	h := max(1, r.h-len(lines)-1)
	if m.paneTop < 0 {
		m.paneTop = max(0, min(p.focus-h/2, len(p.lines)-h))
	}
	m.paneTop = max(0, min(m.paneTop, len(p.lines)-1))
	lines = append(lines, m.paneTabs(r))
	for i := m.paneTop; i < len(p.lines) && len(lines) < r.h; i++ {
		lines = append(lines, m.paneLine(&p.lines[i], r.w))
	}
	return block(lines, r.w, r.h)
}

// headLines draws the message and the object.
func (m *model) headLines(e *entry, r rect) []string {
	style, symbol := m.theme.class(e.rank)
	state := ""
	switch {
	case e.accepted:
		state = " accepted, not written"
	case e.restored:
		state = " suppression removed, not written"
	case e.Unreached && e.state() == isKnown:
		state = " in units that nothing found here deploys"
	case e.state() == isKnown || e.state() == isSuppressed || e.state() == isFixed:
		state = " " + stateWords[e.state()]
	}
	lines := []string{fit(style.Render(symbol+" "+e.class)+m.theme.dim.Render(state)+" "+m.theme.title.Render(report.RuleName(e.Result)), r.w)}
	most := 2
	if r.h > 24 {
		most = 4
	}
	if r.h < 8 {
		most = 1
	}
	message := wrapped(report.Message(e.Message), r.w)
	if len(message) > most {
		message = append(message[:most-1:most-1], message[most-1]+" …")
	}
	lines = append(lines, message...)
	object := report.ObjectName(e.Object)
	if e.Object.Kind != "" && e.Object.Unit != "" {
		object += " in " + report.Visible(e.Object.Unit, 1024)
	}
	if x := e.held; x != nil {
		lines = append(lines, m.theme.note.Render("accepted until "+report.Name(x.Expires)+": ")+report.Message(x.Reason))
	}
	return append(lines, m.theme.dim.Render(elide(object, r.w)))
}

func (m *model) paneTabs(r rect) string {
	var b strings.Builder
	m.layout.panes = m.layout.panes[:0]
	x := r.x
	for k := range numPanes {
		text := fmt.Sprintf(" %d %s ", k+1, paneNames[k])
		if r.w < 60 && k != m.pane {
			text = fmt.Sprintf(" %d ", k+1)
		}
		m.layout.panes = append(m.layout.panes, tabPos{x, x + len(text), int(k)})
		x += len(text)
		style := m.theme.tab
		switch {
		case k == m.pane && m.focusPreview:
			style = m.theme.activeTab
		case k == m.pane:
			style = m.theme.title.Underline(true)
		}
		b.WriteString(style.Render(text))
	}
	return b.String()
}

func (m *model) paneLine(l *pline, width int) string {
	gutter := m.theme.dim.Render(l.gutter)
	switch l.look {
	case faultLine:
		return fit(m.theme.mark.Render(l.gutter)+m.theme.highlight(l.lang, l.text), width)
	case caretLine:
		return fit(gutter+m.theme.mark.Render(l.text), width)
	case titleLine:
		return fit(gutter+m.theme.title.Render(l.text), width)
	case dimLine:
		return fit(gutter+m.theme.dim.Render(l.text), width)
	default:
		return fit(gutter+m.theme.highlight(l.lang, ansi.Truncate(l.text, width, "…")), width)
	}
}

// status draws the line above the footer: the message or input, and the
// position.
func (m *model) status() string {
	switch m.mode {
	case modeCommand:
		return fit(":"+m.palette.view(m.theme, m.width-2, true), m.width)
	case modeFilter:
		return fit("/"+m.input.view(m.theme, m.width-13, true), m.width-12) + m.theme.dim.Render(fmt.Sprintf("%11d ", m.list.n))
	}
	left, style := m.message, lipgloss.NewStyle()
	if m.bad {
		style = m.theme.bad
	}
	if left == "" && m.evaluating {
		left = m.progress.String() + " …"
	}
	right := m.where()
	room := m.width - ansi.StringWidth(right) - 1
	if m.message != "" && ansi.StringWidth(left) > room {
		right, room = "", m.width
	}
	return m.theme.bar.Render(fit(style.Inherit(m.theme.bar).Render(ansi.Truncate(left, max(room-1, 1), "…")), max(room, 1)) + m.theme.bar.Render(right))
}

// where returns the position in the list.
func (m *model) where() string {
	var parts []string
	if n := m.session.staged.Len(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d staged", n))
	}
	if n := m.session.marked; n > 0 {
		parts = append(parts, fmt.Sprintf("%d marked", n))
	}
	if m.filtered != "" && !m.inGraph() {
		parts = append(parts, "/"+ansi.Truncate(report.Message(m.filtered), max(8, m.width/4), "…"))
	}
	if m.width >= 60 && !m.inGraph() {
		parts = append(parts, "by "+groupingNames[m.grouping]+", "+orderingNames[m.ordering])
	}
	if m.ReadOnly {
		parts = append(parts, "readonly")
	}
	at, n := m.list.cursor, len(m.list.rows)
	if m.inGraph() {
		at, n = m.graph.cursor, len(m.graph.rows)
	}
	parts = append(parts, fmt.Sprintf("%d of %d ", min(at+1, n), n))
	return strings.Join(parts, " · ")
}

func (p Progress) String() string {
	if p.Total == 0 {
		return p.Step
	}
	return fmt.Sprintf("%s %d of %d", p.Step, p.Done, p.Total)
}

// help draws the last line.
func (m *model) help() string {
	switch m.mode {
	case modeCommand:
		return m.theme.dim.Render("tab completes · enter runs · esc back · help COMMAND")
	case modeFilter:
		return m.theme.dim.Render("words, !word, rule: kind: ns: name: unit: file: sev: is: · enter keeps it, esc clears it")
	case modeForm:
		return m.theme.dim.Render("enter stages · tab next field · ‹ › scope · esc back")
	case modeReview:
		return m.theme.key.Render("enter") + " writes it · " + m.theme.key.Render("esc") + " back, what is staged stays"
	case modeHelp:
		return m.theme.dim.Render("esc back")
	case modeCopy:
		return m.theme.title.Render("copy: ") + "p place · m message · o object's YAML · s suppression · esc"
	case modeQuit:
		return m.theme.warn.Render(policy.Plural(m.session.staged.Len(), "decision")+" not written: ") + "W review and write · D discard · esc stay"
	}
	return m.keyLine(m.footer(), []action{actHelp, actQuit})
}

// keyLine draws as many keys as fit before those that are always shown.
func (m *model) keyLine(keys, always []action) string {
	text := func(a action) string {
		return m.theme.key.Render(m.keys.of(a)) + " " + m.theme.dim.Render(actions[a].help)
	}
	end := ""
	for _, k := range always {
		end += "  " + text(k)
	}
	line, room := "", m.width-ansi.StringWidth(end)
	for _, k := range keys {
		if next := line + "  " + text(k); ansi.StringWidth(next)-2 <= room && m.keys.first(k) != "" {
			line = next
		}
	}
	return strings.TrimPrefix(line+end, "  ")
}

// fit cuts or pads a line to a width.
func fit(s string, width int) string {
	n := ansi.StringWidth(s)
	if n > width {
		s = ansi.Truncate(s, width, "…")
		n = ansi.StringWidth(s)
	}
	return s + strings.Repeat(" ", max(0, width-n))
}

// pad pads a text to a width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// block cuts and pads lines to a rectangle.
func block(lines []string, width, height int) []string {
	out := make([]string, height)
	for i := range out {
		if i < len(lines) {
			out[i] = fit(lines[i], width)
		} else {
			out[i] = strings.Repeat(" ", width)
		}
	}
	return out
}

func wrapStyled(s lipgloss.Style, text string, width int) []string {
	lines := strings.Split(ansi.Wrap(report.Message(text), max(1, width), ""), "\n")
	for i := range lines {
		lines[i] = s.Render(lines[i])
	}
	return lines
}
