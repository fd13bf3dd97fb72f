package tui

import (
	"errors"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// Update takes a message and says what is to be done next.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.paneTop = -1 // what is at fault is to be seen
		m.lay()
		return m, m.want()
	case tea.BackgroundColorMsg:
		m.theme = newTheme(msg.IsDark())
	case tea.KeyPressMsg:
		m.touched = true
		cmd := m.press(msg)
		m.lay()
		return m, tea.Batch(cmd, m.want())
	case tea.PasteMsg:
		return m, m.paste(msg)
	case tea.MouseClickMsg:
		m.touched = true
		cmd := m.click(msg.Mouse())
		return m, tea.Batch(cmd, m.want())
	case tea.MouseWheelMsg:
		m.touched = true
		m.wheel(msg.Mouse())
		return m, m.want()
	default:
		return m, m.told(msg)
	}
	return m, nil
}

// told takes what other goroutines say.
func (m *model) told(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case progressMsg:
		return m.progressed(msg)
	case evaluatedMsg:
		return m.evaluated(msg)
	case changedMsg:
		m.watching = false
		if msg.err != nil {
			return nil // it is over
		}
		return m.evaluate()
	case arranged:
		m.arranged(msg)
		return m.want()
	case fetchedMsg:
		return m.fetchedOne(msg)
	case proposedMsg:
		m.review(msg)
	case writtenMsg:
		return m.written(msg)
	case editedMsg:
		return m.edited(msg)
	case copiedMsg:
		return m.copied(msg)
	}
	return nil
}

// review shows the diff.
func (m *model) review(msg proposedMsg) {
	if msg.err != nil {
		m.fail(msg.err)
		m.mode = modeList
		return
	}
	if m.mode != modeReview {
		return // the person went back
	}
	m.change, m.scroll = msg.change, 0
	if msg.note != "" {
		m.fail(errors.New(msg.note))
	}
}

func (m *model) written(msg writtenMsg) tea.Cmd {
	switch {
	case errors.Is(msg.err, ErrChanged):
		return m.propose(msg.err.Error() + ": this is the diff to what it is now")
	case msg.err != nil:
		m.fail(msg.err)
		m.mode = modeList
		return nil
	}
	m.say("wrote %s to %s", counted(m.session.staged.Len(), "decision"), msg.change.File)
	m.session.settled()
	m.mode, m.change = modeList, nil
	return m.evaluate()
}

func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	if m.layout.tooSmall {
		if key.Matches(msg, m.keys.Quit) {
			return m.quit()
		}
		return nil
	}
	switch m.mode {
	case modeFilter:
		return m.filterKey(msg)
	case modeForm:
		return m.formKey(msg)
	case modeReview:
		return m.reviewKey(msg)
	case modeHelp:
		return m.helpKey(msg)
	case modeCopy:
		return m.copyKey(msg)
	case modeQuit:
		return m.quitKey(msg)
	}
	for _, keys := range []func(tea.KeyPressMsg) (tea.Cmd, bool){m.paneKey, m.moveKey, m.showKey, m.decideKey, m.doKey} {
		if cmd, ok := keys(msg); ok {
			return cmd
		}
	}
	return nil
}

// paneKey are the keys of the preview when it has the focus.
func (m *model) paneKey(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k := &m.keys
	page := max(1, m.layout.paneHeight())
	switch {
	case key.Matches(msg, k.ScrollDown):
		m.scrollPane(1)
	case key.Matches(msg, k.ScrollUp):
		m.scrollPane(-1)
	case !m.focusPreview:
		return nil, false
	case key.Matches(msg, k.Down):
		m.scrollPane(1)
	case key.Matches(msg, k.Up):
		m.scrollPane(-1)
	case key.Matches(msg, k.PageDown):
		m.scrollPane(page)
	case key.Matches(msg, k.PageUp):
		m.scrollPane(-page)
	case key.Matches(msg, k.HalfDown):
		m.scrollPane(page / 2)
	case key.Matches(msg, k.HalfUp):
		m.scrollPane(-page / 2)
	case key.Matches(msg, k.Top):
		m.paneTop = 0
	case key.Matches(msg, k.Bottom):
		m.scrollPane(len(m.built.lines))
	case key.Matches(msg, k.Fold), key.Matches(msg, k.Clear):
		m.focusPreview = false
	default:
		return nil, false
	}
	return nil, true
}

func (m *model) scrollPane(by int) {
	m.paneTop = max(0, min(max(m.paneTop, 0)+by, len(m.built.lines)-1))
}

func (m *model) moveKey(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k, l := &m.keys, m.list
	switch {
	case key.Matches(msg, k.Down):
		l.move(1)
	case key.Matches(msg, k.Up):
		l.move(-1)
	case key.Matches(msg, k.PageDown):
		l.move(l.height)
	case key.Matches(msg, k.PageUp):
		l.move(-l.height)
	case key.Matches(msg, k.HalfDown):
		l.move(max(1, l.height/2))
	case key.Matches(msg, k.HalfUp):
		l.move(-max(1, l.height/2))
	case key.Matches(msg, k.Top):
		l.move(-len(l.rows))
	case key.Matches(msg, k.Bottom):
		l.move(len(l.rows))
	case key.Matches(msg, k.NextGroup):
		l.nextGroup(1)
	case key.Matches(msg, k.PrevGroup):
		l.nextGroup(-1)
	default:
		return nil, false
	}
	return nil, true
}

func (m *model) showKey(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k := &m.keys
	switch {
	case key.Matches(msg, k.Filter):
		m.mode = modeFilter
		m.focusPreview = false
	case key.Matches(msg, k.Clear):
		return m.clear(), true
	case key.Matches(msg, k.NextSection):
		return m.toSection(1), true
	case key.Matches(msg, k.PrevSection):
		return m.toSection(-1), true
	case key.Matches(msg, k.Group):
		m.grouping = (m.grouping + 1) % numGroupings
		m.say("by %s", groupingNames[m.grouping])
		return m.arrange(), true
	case key.Matches(msg, k.Sort):
		m.ordering = (m.ordering + 1) % numOrderings
		m.say("%s", orderingNames[m.ordering])
		return m.arrange(), true
	case key.Matches(msg, k.Fold):
		m.list.fold(true)
	case key.Matches(msg, k.Unfold):
		m.unfold()
	case key.Matches(msg, k.FoldAll):
		m.list.foldAll(true)
	case key.Matches(msg, k.UnfoldAll):
		m.list.foldAll(false)
	case key.Matches(msg, k.Open):
		m.open()
	case key.Matches(msg, k.Focus):
		m.focusPreview = !m.focusPreview
	case key.Matches(msg, k.Zoom):
		m.zoom = !m.zoom
		m.focusPreview = m.zoom
	default:
		return m.chooseKey(msg)
	}
	return nil, true
}

// chooseKey are the keys that choose a preview.
func (m *model) chooseKey(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k := &m.keys
	switch {
	case key.Matches(msg, k.NextPane):
		m.pane = (m.pane + 1) % numPanes
	case key.Matches(msg, k.PrevPane):
		m.pane = (m.pane + numPanes - 1) % numPanes
	case key.Matches(msg, k.Pane):
		m.pane = paneKind(msg.String()[0] - '1')
	case key.Matches(msg, k.Explain):
		m.pane = paneExplain
	default:
		return nil, false
	}
	if m.layout.single {
		m.focusPreview = true
	}
	return nil, true
}

// clear goes a step back: from the preview, a range, marks, the filter.
func (m *model) clear() tea.Cmd {
	switch {
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

// toSection goes to the next section that is shown.
func (m *model) toSection(by section) tea.Cmd {
	for {
		m.section = (m.section + numSections + by) % numSections
		if m.section != sectionProposed || len(m.session.report.Proposed) > 0 {
			return m.arrange()
		}
	}
}

// open opens a group, or the preview of a result.
func (m *model) open() {
	if m.list.entry() == nil {
		g := m.list.group()
		if g != nil {
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

func (m *model) decideKey(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k := &m.keys
	switch {
	case key.Matches(msg, k.Mark):
		m.mark()
	case key.Matches(msg, k.Range):
		m.rangeKey()
	case key.Matches(msg, k.All):
		m.markAll()
	case key.Matches(msg, k.Accept):
		return m.accept(), true
	case key.Matches(msg, k.Remove):
		m.takeBack()
	case key.Matches(msg, k.Undo):
		m.tell("took back", m.session.undo)
	case key.Matches(msg, k.Redo):
		m.tell("again", m.session.redo)
	case key.Matches(msg, k.Write):
		if m.session.staged.Len() == 0 {
			m.say("nothing is staged: w accepts what is under the cursor")
			return nil, true
		}
		return m.propose(""), true
	default:
		return nil, false
	}
	return nil, true
}

func (m *model) tell(word string, step func() (string, bool)) {
	did, ok := step()
	if !ok {
		m.say("nothing to take back or do again")
		return
	}
	m.say("%s: %s; %s", word, did, counted(m.session.staged.Len(), "decision")+" staged")
}

// mark marks what is under the cursor, or the range, and goes on.
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
	m.say("a range begins here: space marks it, w accepts it, esc ends it")
}

func (m *model) markAll() {
	var all []*entry
	for _, g := range m.list.groups {
		all = append(all, g.items...)
	}
	m.session.mark(all)
	m.say("%s marked", counted(m.session.marked, "result"))
}

func (m *model) doKey(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k, e := &m.keys, m.selected()
	switch {
	case key.Matches(msg, k.Edit):
		if e == nil {
			return nil, true
		}
		return m.edit(report.Place(e.Result).Span), true
	case key.Matches(msg, k.EditRule):
		if e == nil {
			return nil, true
		}
		return m.edit(e.PolicyOrigin), true
	case key.Matches(msg, k.Evaluate):
		return m.evaluate(), true
	case key.Matches(msg, k.Copy):
		if e != nil {
			m.mode = modeCopy
		}
	case key.Matches(msg, k.Help):
		m.mode, m.scroll = modeHelp, 0
	case key.Matches(msg, k.Quit):
		return m.quit(), true
	default:
		return nil, false
	}
	return nil, true
}

func (m *model) quit() tea.Cmd {
	if m.session.staged.Len() > 0 && m.mode != modeQuit && !m.layout.tooSmall {
		m.mode = modeQuit
		return nil
	}
	return tea.Quit
}

func (m *model) quitKey(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "W", "w", "enter":
		return m.propose("")
	case "D":
		m.session.settled()
		return tea.Quit
	case "ctrl+c":
		return tea.Quit // what is staged is printed
	default:
		m.mode = modeList
	}
	return nil
}

// filterKey types a filter; each letter shows what it finds.
func (m *model) filterKey(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "esc":
		m.input, m.mode = field{}, modeList
	case "enter", "ctrl+c":
		m.mode = modeList
	case "down":
		m.list.move(1)
		return nil
	case "up":
		m.list.move(-1)
	default:
		m.input.press(msg)
	}
	return m.refilter()
}

func (m *model) refilter() tea.Cmd {
	if m.filtered == m.input.String() {
		return nil
	}
	m.filtered = m.input.String()
	return m.arrange()
}

func (m *model) paste(msg tea.PasteMsg) tea.Cmd {
	switch {
	case m.mode == modeFilter:
		m.input.insert(msg.Content)
		return m.refilter()
	case m.mode == modeForm && m.form.at != scopeField:
		m.form.fields[m.form.at].insert(msg.Content)
	}
	return nil
}

func (m *model) reviewKey(msg tea.KeyPressMsg) tea.Cmd {
	switch s := msg.String(); {
	case s == "esc" || s == "q" || s == "n" || s == "ctrl+c":
		m.mode = modeList
		m.say("not written: %s still staged", counted(m.session.staged.Len(), "decision"))
	case m.change == nil: // nobody writes what is not seen yet
	case s == "enter" || s == "y" || s == "W":
		return m.write()
	default:
		m.scrollKey(s, strings.Count(m.change.Diff, "\n"))
	}
	return nil
}

func (m *model) helpKey(msg tea.KeyPressMsg) tea.Cmd {
	switch s := msg.String(); s {
	case "esc", "q", "?", "enter":
		m.mode = modeList
	case "ctrl+c":
		m.mode = modeList
		return m.quit()
	default:
		m.scrollKey(s, len(m.helpLines(m.width)))
	}
	return nil
}

// scrollKey moves an overlay of n lines.
func (m *model) scrollKey(key string, n int) {
	page := max(1, m.layout.body-2)
	by := map[string]int{"j": 1, "down": 1, "k": -1, "up": -1, "pgdown": page, "space": page, "pgup": -page, "g": -n, "home": -n, "G": n, "end": n}[key]
	m.scroll = max(0, min(m.scroll+by, n-page))
}

func (m *model) copyKey(msg tea.KeyPressMsg) tea.Cmd {
	m.mode = modeList
	e := m.selected()
	if e == nil {
		return nil
	}
	switch msg.String() {
	case "p":
		return m.copied(copiedMsg{what: "place", text: report.Visible(e.place().String(), maxLine)})
	case "m":
		return m.copied(copiedMsg{what: "message", text: report.Message(e.Message)})
	case "s":
		return m.copied(copiedMsg{what: "suppression", text: m.copySuppression(e)})
	case "o":
		ctx, host := m.ctx, m.host
		return func() tea.Msg {
			f := get(ctx, host, fetchKey{e.key, false}, e)
			if f.err != nil {
				return copiedMsg{err: f.err}
			}
			return copiedMsg{what: "object", text: yamlOf(f.object)}
		}
	}
	return nil
}

func yamlOf(r *Rendered) string {
	var b strings.Builder
	for _, l := range r.Lines {
		b.WriteString(clean(l.Text))
		b.WriteByte('\n')
	}
	return b.String()
}

// place is the line to edit, with the file alone where no line is known.
func (e *entry) place() render.Span {
	at := report.Place(e.Result).Span
	at.EndLine, at.EndColumn = 0, 0
	return at
}
