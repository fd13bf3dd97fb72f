package tui

import tea "charm.land/bubbletea/v2"

// click selects a row, a section or a preview.
func (m *model) click(at tea.Mouse) tea.Cmd {
	if m.mode != modeList || m.layout.tooSmall || at.Button != tea.MouseLeft {
		return nil
	}
	l := &m.layout
	if at.Y == 0 {
		if id, ok := tabAt(l.tabs, at.X); ok {
			return m.toSection(section(id))
		}
		return nil
	}
	if m.inGraph() {
		if l.list.has(at.X, at.Y) {
			return m.clickNode(m.graph.top + at.Y - l.list.y)
		}
		return nil
	}
	if l.previews() && l.preview.has(at.X, at.Y) {
		if at.Y == l.preview.y+l.head {
			if id, ok := tabAt(l.panes, at.X); ok {
				m.pane = paneKind(id)
			}
		}
		m.focusPreview = true
		return nil
	}
	if l.list.has(at.X, at.Y) && !l.onlyPane {
		m.clickRow(m.list.top + at.Y - l.list.y)
	}
	return nil
}

// clickRow selects a row; a second click on the head of a group folds it.
func (m *model) clickRow(i int) {
	if i >= len(m.list.rows) {
		return
	}
	m.focusPreview = false
	if i == m.list.cursor && m.list.at(i) == nil {
		m.open()
		return
	}
	m.list.cursor = i // the window stays, so that a second click hits the same row
}

// clickNode selects a node of the graph; a second click opens it.
func (m *model) clickNode(i int) tea.Cmd {
	if i >= len(m.graph.rows) {
		return nil
	}
	if i == m.graph.cursor {
		return m.openNode()
	}
	m.graph.cursor, m.graph.scroll = i, 0
	return nil
}

func tabAt(tabs []tabPos, x int) (id int, ok bool) {
	for _, t := range tabs {
		if x >= t.from && x < t.to {
			return t.id, true
		}
	}
	return 0, false
}

// wheel scrolls what is under the pointer.
func (m *model) wheel(at tea.Mouse) {
	by := 3
	if at.Button == tea.MouseWheelUp {
		by = -3
	}
	l := &m.layout
	switch {
	case m.mode == modeReview || m.mode == modeHelp:
		m.scroll = max(0, m.scroll+by)
	case m.mode != modeList || l.tooSmall:
	case m.inGraph() && l.previews() && l.preview.has(at.X, at.Y):
		m.graph.scroll += by
	case m.inGraph():
		m.graph.move(by)
	case l.previews() && l.preview.has(at.X, at.Y):
		m.scrollPane(by)
	default:
		m.list.move(by)
	}
}
