package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// run performs an action at the cursor.
func (m *model) run(a action) tea.Cmd {
	parts := []func(action) (tea.Cmd, bool){m.inPane, m.move, m.show, m.look, m.decide, m.do}
	if m.inGraph() {
		parts = []func(action) (tea.Cmd, bool){m.onGraph, m.show, m.do}
	}
	for _, part := range parts {
		if cmd, ok := part(a); ok {
			return cmd
		}
	}
	return nil
}

// inPane scrolls the preview. If the preview has the focus, it takes other keys
// too.
func (m *model) inPane(a action) (tea.Cmd, bool) {
	page := max(1, m.layout.paneHeight())
	by := map[action]int{
		actDown: 1, actUp: -1, actPageDown: page, actPageUp: -page, actHalfDown: page / 2, actHalfUp: -page / 2,
		actTop: -len(m.built.lines), actBottom: len(m.built.lines),
	}
	switch {
	case a == actScrollDown:
		m.scrollPane(1)
	case a == actScrollUp:
		m.scrollPane(-1)
	case !m.focusPreview:
		return nil, false
	case by[a] != 0:
		m.scrollPane(by[a])
	case a == actFold || a == actClear && !m.zoom:
		m.focusPreview = false
	default:
		return nil, false
	}
	return nil, true
}

func (m *model) scrollPane(by int) {
	m.paneTop = max(0, min(max(m.paneTop, 0)+by, len(m.built.lines)-1))
}

func (m *model) move(a action) (tea.Cmd, bool) {
	l := m.list
	switch a {
	case actNextGroup:
		l.nextGroup(1)
	case actPrevGroup:
		l.nextGroup(-1)
	default:
		by, ok := rowsBy(a, l.height, len(l.rows))
		if ok {
			l.move(by)
		}
		return nil, ok
	}
	return nil, true
}

// rowsBy returns how many rows an action moves the cursor in a list of n rows, height
// of which fit on the screen.
func rowsBy(a action, height, n int) (by int, ok bool) {
	switch a {
	case actDown:
		return 1, true
	case actUp:
		return -1, true
	case actPageDown:
		return height, true
	case actPageUp:
		return -height, true
	case actHalfDown:
		return max(1, height/2), true
	case actHalfUp:
		return -max(1, height/2), true
	case actTop:
		return -n, true
	case actBottom:
		return n, true
	}
	return 0, false
}

// show performs the actions that choose what is shown.
func (m *model) show(a action) (tea.Cmd, bool) {
	switch a {
	case actFilter:
		m.focusPreview = false
		m.mode = modeFilter
		return m.leaveGraph(), true
	case actCommand:
		m.mode = modeCommand
		m.palette.open(m)
	case actClear:
		return m.clear(), true
	case actNextSection:
		return m.nextSection(1), true
	case actPrevSection:
		return m.nextSection(-1), true
	case actGraph:
		return m.toggleGraph(), true
	case actInGraph:
		return m.showInGraph(), true
	case actGroup:
		return m.groupBy((m.grouping + 1) % numGroupings), true
	case actSort:
		return m.sortBy((m.ordering + 1) % numOrderings), true
	case actFold:
		m.list.fold(true)
	case actUnfold:
		m.unfold()
	case actFoldAll:
		m.list.foldAll(true)
	case actUnfoldAll:
		m.list.foldAll(false)
	default:
		return nil, false
	}
	return nil, true
}

func (m *model) groupBy(g grouping) tea.Cmd {
	m.grouping = g
	m.say("by %s", groupingNames[g])
	return m.arrange()
}

func (m *model) sortBy(o ordering) tea.Cmd {
	m.ordering = o
	m.say("%s", orderingNames[o])
	return m.arrange()
}

// look performs the actions of the preview.
func (m *model) look(a action) (tea.Cmd, bool) {
	switch a {
	case actOpen:
		m.open()
		return nil, true
	case actFocus:
		m.focusPreview = !m.focusPreview
		return nil, true
	case actZoom:
		m.zoom = !m.zoom
		m.focusPreview = m.zoom
		return nil, true
	case actNextPane:
		m.pane = (m.pane + 1) % numPanes
	case actPrevPane:
		m.pane = (m.pane + numPanes - 1) % numPanes
	case actSource, actObject, actOrigins, actRule, actExplain, actDiff:
		m.pane = paneSource + paneKind(a-actSource)
	default:
		return nil, false
	}
	if m.layout.single {
		m.focusPreview = true
	}
	return nil, true
}

// clear goes one step back: from the graph, the preview, a range, marks, the
// filter.
func (m *model) clear() tea.Cmd {
	switch {
	case m.inGraph() && m.focusPreview:
		m.focusPreview = false
	case m.inGraph():
		return m.toSection(m.before)
	case m.zoom:
		m.zoom, m.focusPreview = false, false
	case m.list.anchor >= 0:
		m.list.anchor = -1
	case m.session.marked > 0:
		m.unmark()
	case m.filtered != "":
		m.input, m.filtered = field{}, ""
		return m.arrange()
	}
	return nil
}

// toSection goes to a section.
func (m *model) toSection(s section) tea.Cmd {
	if s == sectionGraph && !m.inGraph() {
		m.before = m.section
	}
	m.section = s
	if m.inGraph() {
		m.focusPreview, m.zoom = false, false
	}
	return m.arrange()
}

// nextSection goes to the next section that is shown.
func (m *model) nextSection(by section) tea.Cmd {
	next := m.section
	for {
		next = (next + numSections + by) % numSections
		if next.shown(&m.session.index) {
			return m.toSection(next)
		}
	}
}

// inGraph reports whether the graph is shown instead of results.
func (m *model) inGraph() bool { return m.section == sectionGraph }

func (m *model) toggleGraph() tea.Cmd {
	switch {
	case m.inGraph():
		return m.toSection(m.before)
	case !sectionGraph.shown(&m.session.index) && !m.whole:
		m.say("nothing is rendered yet")
		return nil
	case !sectionGraph.shown(&m.session.index):
		m.say("the report names no units")
		return nil
	}
	return m.toSection(sectionGraph)
}

func (m *model) leaveGraph() tea.Cmd {
	if !m.inGraph() {
		return nil
	}
	return m.toSection(m.before)
}

// showInGraph goes to the unit of the result under the cursor in the graph.
func (m *model) showInGraph() tea.Cmd {
	e := m.selected()
	switch {
	case e == nil:
		return nil
	case !m.graph.to(e.Object.Unit):
		m.say("the report does not name the unit of this")
		return nil
	}
	return m.toSection(sectionGraph)
}

// onGraph performs the actions that differ in the graph from the list.
func (m *model) onGraph(a action) (tea.Cmd, bool) {
	g := m.graph
	switch a {
	case actOpen:
		return m.openNode(), true
	case actFold:
		g.fold(true)
	case actUnfold:
		if n := g.node(); n != nil && !g.folded[n.key] {
			g.move(1)
		} else {
			g.fold(false)
		}
	case actFoldAll:
		g.foldAll(true)
	case actUnfoldAll:
		g.foldAll(false)
	case actNextGroup:
		g.next(1)
	case actPrevGroup:
		g.next(-1)
	case actFocus, actZoom:
		m.focusPreview = !m.focusPreview
	case actScrollDown:
		g.scroll++
	case actScrollUp:
		g.scroll--
	case actUndo, actRedo, actWrite:
		return m.decide(a)
	case actInGraph, actGroup, actSort, actFix, actEdit, actEditRule, actCopy:
		return nil, true
	default:
		by, ok := rowsBy(a, g.height, len(g.rows))
		if ok {
			g.move(by)
		}
		return nil, ok
	}
	return nil, true
}

// openNode shows the results of the unit under the cursor, or folds a heading.
func (m *model) openNode() tea.Cmd {
	n := m.graph.node()
	switch {
	case n == nil:
		return nil
	case n.unit == nil:
		m.graph.fold(!m.graph.folded[n.key])
		return nil
	case n.own == tally{}:
		m.say("nothing is open in %s itself", n.unit.Identity())
		return nil
	}
	s := sectionNew
	if n.own.undecided > 0 || n.unitUnreached() {
		s = sectionAll
	}
	m.input = newField(`unit:="`+n.unit.Identity()+`"`, "")
	m.filtered = m.input.String()
	m.say("results of %s; %s goes back to the graph", n.unit.Identity(), m.keys.of(actGraph))
	return m.toSection(s)
}

// open opens a group, or the preview of a result.
func (m *model) open() {
	if m.list.entry() == nil {
		if g := m.list.group(); g != nil {
			m.list.fold(!m.list.folded[g.key])
		}
		return
	}
	m.focusPreview = true
}

// unfold opens a group, or goes to the preview.
func (m *model) unfold() {
	if g := m.list.group(); g != nil && m.list.entry() == nil && m.list.folded[g.key] {
		m.list.fold(false)
		return
	}
	if m.list.entry() != nil {
		m.focusPreview = true
		return
	}
	m.list.move(1)
}

// decide performs the actions that choose results and decide about them.
func (m *model) decide(a action) (tea.Cmd, bool) {
	switch a {
	case actMark:
		m.mark()
	case actRange:
		m.rangeKey()
	case actAll:
		m.markAll()
	case actAccept:
		m.accept()
		return nil, true
	case actRemove:
		return m.takeBack(), true
	case actUndo:
		return m.undo(), true
	case actRedo:
		return m.step("again", m.session.redo), true
	case actWrite:
		if m.session.staged.Len() == 0 {
			m.say("nothing is staged: %s accepts what is under the cursor", m.keys.of(actAccept))
			return nil, true
		}
		return m.propose(""), true
	default:
		return nil, false
	}
	return nil, true
}

// mark marks the row under the cursor, or the range, and moves on.
func (m *model) mark() {
	l := m.list
	if l.anchor >= 0 {
		m.session.mark(l.ranged())
		l.anchor = -1
		return
	}
	m.session.mark(l.under(l.cursor))
	if l.entry() != nil {
		l.move(1)
	}
}

func (m *model) rangeKey() {
	if m.list.anchor >= 0 {
		m.list.anchor = -1
		return
	}
	m.list.anchor = m.list.cursor
	m.say("a range begins here: %s marks it, %s accepts it, %s ends it", m.keys.of(actMark), m.keys.of(actAccept), m.keys.of(actClear))
}

func (m *model) markAll() {
	var all []*entry
	for _, g := range m.list.groups {
		all = append(all, g.items...)
	}
	m.session.mark(all)
	m.say("%s marked", policy.Plural(m.session.marked, "result"))
}

// do performs the actions that leave the screen or open an overlay.
func (m *model) do(a action) (tea.Cmd, bool) {
	e := m.selected()
	switch a {
	case actFix:
		if e == nil {
			return nil, true
		}
		return m.fix(e), true
	case actEdit:
		if e == nil {
			return nil, true
		}
		return m.edit(report.Place(e.Result).Span), true
	case actEditRule:
		if e == nil {
			return nil, true
		}
		return m.edit(e.PolicyOrigin), true
	case actEvaluate:
		return m.evaluate(), true
	case actCopy:
		if e != nil {
			m.mode = modeCopy
		}
	case actHelp:
		m.mode, m.scroll = modeHelp, 0
	case actQuit:
		return m.quit(), true
	default:
		return nil, false
	}
	return nil, true
}
