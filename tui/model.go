package tui

import (
	"context"
	"errors"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A mode is what keys are for.
type mode int

const (
	modeList   mode = iota
	modeFilter      // typing a filter
	modeForm        // accepting
	modeReview      // looking at the diff of what is staged
	modeHelp
	modeCopy    // choosing what to copy
	modeQuit    // decisions are not written: really?
	modeCommand // typing a command
)

// A model is the screen. It is changed in place, by Update alone, which makes the
// next frame too: View hands it out and changes nothing.
type model struct {
	Options
	ctx  context.Context
	host Host
	send func(tea.Msg) // to itself, from other goroutines

	session *session
	list    *list
	graph   *graph
	keys    keyMap
	theme   *theme

	width, height int
	mode          mode
	section       section
	before        section // that the graph was opened from
	grouping      grouping
	ordering      ordering
	input         field  // the filter
	filtered      string // the filter that is applied
	generation    int    // of what is arranged

	pane         paneKind
	built        builtPane
	paneTop      int
	focusPreview bool
	zoom         bool
	fetched      fetches

	form    form
	palette palette
	change  *Change
	scroll  int // of an overlay

	evaluating bool
	again      bool // evaluate once more when done
	touched    bool // the person did something
	watching   bool // somebody waits for a file to change
	whole      bool // the report is not one of a run that goes on
	progress   Progress
	message    string
	bad        bool // the message is an error

	layout layout
	screen string // what View shows
}

func newModel(ctx context.Context, host Host, o Options) *model {
	m := &model{
		Options: o, ctx: ctx, host: host, send: func(tea.Msg) {},
		session: newSession(o.Today), list: newList(), graph: newGraph(), keys: newKeyMap(o.Keys), theme: newTheme(o.Theme != "light"),
		input: newField(o.Filter, ""), fetched: newFetches(),
	}
	m.filtered = m.input.String()
	return m
}

// Init asks for the results, and for the terminal's background.
func (m *model) Init() tea.Cmd {
	if m.Theme == "light" || m.Theme == "dark" {
		return m.evaluate()
	}
	return tea.Batch(tea.RequestBackgroundColor, m.evaluate())
}

// say shows a message on the status line until the next key.
func (m *model) say(format string, args ...any) {
	m.message, m.bad = report.Message(fmt.Sprintf(format, args...)), false
}

func (m *model) fail(err error) {
	m.message, m.bad = report.Message(err.Error()), true
}

// What other goroutines say.
type (
	progressMsg struct {
		Progress
		index index // of the results so far; without a report when nothing is new
	}
	evaluatedMsg struct {
		index index
		err   error
	}
	changedMsg struct{ err error }
	arranged   struct {
		generation  int
		arrangement arrangement
	}
	proposedMsg struct {
		change *Change
		note   string
		err    error
	}
	writtenMsg struct {
		change *Change
		err    error
	}
	unwrittenMsg struct {
		change *Change
		err    error
	}
	editedMsg struct {
		name, note string
		err        error
	}
	copiedMsg struct {
		what, text string
		err        error
	}
)

// evaluate asks the host for results. While it is at it, another wish to do so
// is remembered.
func (m *model) evaluate() tea.Cmd {
	if m.evaluating {
		m.again = true
		return nil
	}
	m.evaluating, m.progress = true, Progress{Step: "starting"}
	return func() tea.Msg {
		r, err := m.host.Evaluate(m.ctx, func(p Progress) {
			msg := progressMsg{Progress: p}
			if p.Report != nil {
				msg.index = newIndex(p.Report)
			}
			m.send(msg)
		})
		if err != nil {
			return evaluatedMsg{err: err}
		}
		return evaluatedMsg{index: newIndex(r)}
	}
}

func (m *model) evaluated(msg evaluatedMsg) tea.Cmd {
	m.evaluating = false
	if msg.err != nil {
		m.fail(msg.err)
	} else {
		m.whole = true
		if !m.again { // else it began before what was written last
			m.session.applied = nil
		}
		m.load(msg.index)
	}
	if m.again {
		m.again = false
		return m.evaluate()
	}
	cmds := []tea.Cmd{m.arrange()}
	if m.Watch && !m.watching {
		m.watching = true
		cmds = append(cmds, func() tea.Msg { return changedMsg{m.host.Watch(m.ctx)} })
	}
	return tea.Batch(cmds...)
}

// progressed shows how far it is, and the first results as they come.
func (m *model) progressed(p progressMsg) tea.Cmd {
	m.progress = p.Progress
	if p.index.report == nil || m.whole {
		return nil
	}
	m.load(p.index)
	return m.arrange()
}

func (m *model) load(x index) {
	m.session.load(x)
	m.graph.load(x.report)
	m.fetched = newFetches()
	m.built = builtPane{}
}

// arrangeAtOnce is the number of results that are arranged between two frames.
const arrangeAtOnce = 4096

// arrange makes the list anew, apart from the screen's goroutine when it takes
// longer than a frame.
func (m *model) arrange() tea.Cmd {
	m.generation++
	if m.inGraph() {
		m.graph.count(m.session.entries)
		return nil
	}
	f := parseFilter(m.filtered)
	s := spec{m.section, f, m.grouping, m.ordering}
	entries, generation := m.session.entries, m.generation
	if len(entries) <= arrangeAtOnce || f.live() {
		m.arranged(arranged{generation, arrange(entries, s)})
		return m.want()
	}
	return func() tea.Msg { return arranged{generation, arrange(entries, s)} }
}

// live says that a filter is about what this goroutine alone may look at.
func (f filter) live() bool {
	for _, t := range f {
		if t.field == "is" && (t.value == "marked" || t.value == "staged") {
			return true
		}
	}
	return false
}

func (m *model) arranged(a arranged) {
	if a.generation != m.generation {
		return // another is under way
	}
	if !m.touched { // results still come in above
		m.list.rows = nil
	}
	m.list.show(a.arrangement, m.grouping == ungrouped)
}

// selected is the result under the cursor, or the first of its group.
func (m *model) selected() *entry {
	if m.inGraph() {
		return nil
	}
	if e := m.list.entry(); e != nil {
		return e
	}
	if g := m.list.group(); g != nil {
		return g.items[0]
	}
	return nil
}

// propose asks what the staged decisions would make of the file.
func (m *model) propose(note string) tea.Cmd {
	d := m.session.staged.Decisions
	m.mode, m.change = modeReview, nil
	return func() tea.Msg {
		c, err := m.host.Propose(d)
		return proposedMsg{c, note, err}
	}
}

func (m *model) write() tea.Cmd {
	c, host := m.change, m.host
	return func() tea.Msg { return writtenMsg{c, host.Write(c)} }
}

// undo takes back what was staged last, or else what was written last.
func (m *model) undo() tea.Cmd {
	c, host := m.session.lastWrite(), m.host
	if c == nil {
		return m.step("took back", m.session.undo)
	}
	return func() tea.Msg { return unwrittenMsg{c, host.Write(c.reverse())} }
}

func (m *model) unwritten(msg unwrittenMsg) tea.Cmd {
	if msg.change != m.session.lastWrite() {
		return nil // asked for twice
	}
	switch {
	case errors.Is(msg.err, ErrChanged):
		m.fail(fmt.Errorf("%s was changed since it was written here: it is left as it is", msg.change.File))
		return nil
	case msg.err != nil:
		m.fail(msg.err)
		return nil
	}
	m.session.unwritten()
	m.say("%s is as it was before the write; %s stages its decisions again", msg.change.File, m.keys.of(actRedo))
	return tea.Batch(m.arrange(), m.evaluate())
}

// step undoes or redoes something that is staged.
func (m *model) step(word string, step func() (string, bool)) tea.Cmd {
	did, ok := step()
	if !ok {
		m.say("nothing to take back or do again")
		return nil
	}
	m.say("%s: %s; %s", word, did, counted(m.session.staged.Len(), "decision")+" staged")
	return m.arrange()
}

// edit opens the editor at a place, and evaluates again when it is done.
func (m *model) edit(at render.Span) tea.Cmd {
	if m.ReadOnly {
		m.say("--readonly: nothing is edited")
		return nil
	}
	ed, err := m.host.Edit(at)
	if err != nil {
		m.fail(err)
		return nil
	}
	name, note := at.String(), ed.Note
	if !ed.Window {
		return tea.ExecProcess(ed.Cmd, func(err error) tea.Msg { return editedMsg{name, note, err} })
	}
	m.say("the editor was asked to open %s%s", name, note)
	return func() tea.Msg { return editedMsg{name, note, ed.Cmd.Run()} }
}

func (m *model) edited(msg editedMsg) tea.Cmd {
	if msg.err != nil {
		m.fail(fmt.Errorf("the editor failed (%w); nothing here changed", msg.err))
	} else {
		m.say("edited %s: evaluating again%s", msg.name, msg.note)
	}
	return tea.Batch(tea.ClearScreen, m.evaluate()) // whatever the editor left there
}

// maxCopied bounds what is given to the terminal's clipboard: terminals drop
// longer ones in silence.
const maxCopied = 48 << 10

func (m *model) copied(msg copiedMsg) tea.Cmd {
	switch {
	case msg.err != nil:
		m.fail(msg.err)
		return nil
	case len(msg.text) > maxCopied:
		m.fail(fmt.Errorf("the %s has %d KiB, more than terminals take", msg.what, len(msg.text)>>10))
		return nil
	}
	m.say("copied the %s: %s", msg.what, msg.text)
	return tea.SetClipboard(msg.text)
}

// copySuppression is the YAML that would accept a result.
func (m *model) copySuppression(e *entry) string {
	a := m.form.last
	if a.reason == "" {
		a.reason = "TODO"
	}
	if a.expires == "" {
		a.expires = m.Today.AddDate(0, 0, 90).Format("2006-01-02")
	}
	if x := e.held; x != nil {
		return string(policy.WriteSuppressions([]policy.Suppression{*x}))
	}
	return string(policy.WriteSuppressions([]policy.Suppression{m.session.suppression(e, a)}))
}
