package tui

import (
	"errors"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// Update handles a message, draws the next frame, and returns the command to run.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.take(msg)
	m.lay()
	ask := m.want()
	m.screen = strings.Join(m.frame(), "\n")
	return m, tea.Batch(cmd, ask)
}

func (m *model) take(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.paneTop = -1 // scroll to the fault
	case tea.BackgroundColorMsg:
		m.theme = newTheme(msg.IsDark())
	case tea.KeyPressMsg:
		m.touched = true
		return m.press(msg)
	case tea.PasteMsg:
		return m.paste(msg)
	case tea.MouseClickMsg:
		m.touched = true
		return m.click(msg.Mouse())
	case tea.MouseWheelMsg:
		m.touched = true
		m.wheel(msg.Mouse())
	default:
		return m.received(msg)
	}
	return nil
}

// received handles messages from other goroutines.
func (m *model) received(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case progressMsg:
		return m.progressed(msg)
	case evaluatedMsg:
		return m.evaluated(msg)
	case changedMsg:
		m.watching = false
		if msg.err != nil {
			return nil // the run has ended
		}
		return m.evaluate()
	case arranged:
		m.arranged(msg)
	case fetchedMsg:
		return m.fetchedOne(msg)
	case proposedMsg:
		m.review(msg)
	case writtenMsg:
		return m.written(msg)
	case unwrittenMsg:
		return m.unwritten(msg)
	case editedMsg:
		return m.edited(msg)
	case copiedMsg:
		return m.copied(msg)
	}
	return nil
}

// review shows the diff.
func (m *model) review(msg proposedMsg) {
	if m.mode != modeReview || msg.number != m.reviews {
		return // the user has gone back
	}
	if msg.err != nil {
		m.fail(msg.err)
		m.mode = modeList
		return
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
	what := policy.Plural(m.session.staged.Len(), "decision")
	if msg.change.Fix != "" {
		what = "the fix"
	}
	m.say("wrote %s to %s; %s takes the file back", what, msg.change.files(), m.keys.of(actUndo))
	m.session.written(msg.change)
	m.mode, m.change = modeList, nil
	return tea.Batch(m.arrange(), m.evaluate())
}

func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	if msg.String() == "ctrl+z" {
		if suspends() {
			return tea.Suspend
		}
		m.say("no shell is there to continue it")
		return nil
	}
	a := m.keys.actions[msg.String()]
	if m.layout.tooSmall {
		if a == actQuit {
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
		return m.helpKey(msg, a)
	case modeCopy:
		return m.copyKey(msg)
	case modeQuit:
		return m.quitKey(msg)
	case modeCommand:
		return m.commandKey(msg)
	}
	return m.run(a)
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
		m.session.discard()
		return tea.Quit
	case "ctrl+c":
		return tea.Quit // the caller prints the staged decisions
	default:
		m.mode = modeList
	}
	return nil
}

// filterKey handles a key of the filter. The results are filtered after each
// letter.
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
	case m.mode == modeCommand:
		m.palette.insert(msg.Content)
	case m.mode == modeForm && m.form.at != scopeField:
		m.form.fields[m.form.at].insert(msg.Content)
	}
	return nil
}

func (m *model) reviewKey(msg tea.KeyPressMsg) tea.Cmd {
	switch s := msg.String(); {
	case s == "esc" || s == "q" || s == "n" || s == "ctrl+c":
		m.mode = modeList
		text := "not written"
		if n := m.session.staged.Len(); n > 0 {
			text += ": " + policy.Plural(n, "decision") + " still staged"
		}
		m.say("%s", text)
	case m.change == nil: // the diff must be seen before it is written
	case s == "enter" || s == "y" || s == "W":
		return m.write()
	default:
		m.scrollKey(s, strings.Count(m.change.Diff, "\n"))
	}
	return nil
}

func (m *model) helpKey(msg tea.KeyPressMsg, a action) tea.Cmd {
	switch s := msg.String(); {
	case s == "ctrl+c":
		m.mode = modeList
		return m.quit()
	case s == "esc" || s == "q" || s == "enter" || a == actHelp || a == actQuit:
		m.mode = modeList
	default:
		m.scrollKey(s, len(m.helpLines(m.width)))
	}
	return nil
}

// scrollKey scrolls an overlay of n lines.
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
			f := get(ctx, host, fetchKey{entry: e.key}, e)
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

// place returns the line to edit, or only the file if the line is unknown.
func (e *entry) place() render.Span {
	at := report.Place(e.Result).Span
	at.EndLine, at.EndColumn = 0, 0
	return at
}
