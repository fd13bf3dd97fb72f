package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A mode selects what keys do.
type mode int

const (
	modeList   mode = iota
	modeFilter      // typing a filter
	modeForm        // accepting
	modeReview      // showing the diff of the staged decisions
	modeHelp
	modeCopy    // choosing what to copy
	modeQuit    // leaving with unwritten decisions
	modeCommand // typing a command
)

// A model is the screen. Only Update changes it, in place, and also draws the
// next frame; View returns the frame and changes nothing.
type model struct {
	Options
	ctx  context.Context
	host Host
	send func(tea.Msg) // sends a message from another goroutine

	session *session
	list    *list
	graph   *graph
	keys    keyMap
	theme   *theme

	width, height int
	mode          mode
	reviews       int // number of the last review
	section       section
	before        section // the section that was shown before the graph
	grouping      grouping
	ordering      ordering
	input         field  // the filter
	filtered      string // the filter in effect
	generation    int    // of the arranged results

	pane         paneKind
	built        builtPane
	paneTop      int
	focusPreview bool
	zoom         bool
	fetched      fetches

	form    form
	palette palette
	change  *Change
	scroll  int // scroll position of an overlay

	evaluating bool
	again      bool // evaluate once more afterwards
	touched    bool // the user has pressed a key
	watching   bool // a goroutine waits for a file to change
	whole      bool // the report is complete
	progress   Progress
	message    string
	bad        bool // the message is an error

	layout layout
	screen string // the frame that View returns
}

func newModel(ctx context.Context, host Host, o Options) *model {
	m := &model{
		Options: o, ctx: ctx, host: host, send: func(tea.Msg) {},
		session: newSession(), list: newList(), graph: newGraph(), keys: newKeyMap(o.Keys), theme: newTheme(o.Theme != "light"),
		input: newField(o.Filter, ""), fetched: newFetches(),
	}
	m.filtered = m.input.String()
	return m
}

// Init requests the results and the terminal's background colour.
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

// Messages from other goroutines.
type (
	progressMsg struct {
		Progress
		index index // the results so far; without a report if there are no new ones
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
		number int // of the review
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

// evaluate requests results from the host. If an evaluation is running, it
// requests another one after it.
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
		if !m.again { // otherwise it began before the last write
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

// progressed shows the progress, and the first results as they come.
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

// arrangeAtOnce is the number of results that can be arranged between two
// frames.
const arrangeAtOnce = 4096

// arrange arranges the list again, in another goroutine if it would take longer
// than a frame.
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

// live reports whether a filter depends on data that only this goroutine may
// read.
func (f filter) live() bool {
	return slices.ContainsFunc(f, func(t term) bool { return t.field == "is" && (t.value == "marked" || t.value == "staged") })
}

func (m *model) arranged(a arranged) {
	if a.generation != m.generation {
		return // another arrangement is running
	}
	if !m.touched { // results are still arriving above
		m.list.rows = nil
	}
	m.list.show(a.arrangement, m.grouping == ungrouped)
}

// selected returns the result under the cursor, or the first of its group.
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

// propose requests the change of the file that the staged decisions would make.
func (m *model) propose(note string) tea.Cmd {
	d := m.session.staged.Decisions
	return m.reviewOf(note, func() (*Change, error) { return m.host.Propose(d) })
}

// fix shows the fix of a result.
func (m *model) fix(e *entry) tea.Cmd {
	ctx, host := m.ctx, m.host
	return m.reviewOf("", func() (*Change, error) { return host.Fix(ctx, e.Result) })
}

// reviewOf shows a change once it is there.
func (m *model) reviewOf(note string, of func() (*Change, error)) tea.Cmd {
	m.mode, m.change = modeReview, nil
	m.reviews++
	n := m.reviews
	return func() tea.Msg {
		c, err := of()
		return proposedMsg{n, c, note, err}
	}
}

func (m *model) write() tea.Cmd {
	c, host := m.change, m.host
	return func() tea.Msg { return writtenMsg{c, host.Write(c)} }
}

// undo takes back the last staged decision, or else the last write.
func (m *model) undo() tea.Cmd {
	c, host := m.session.lastWrite(), m.host
	if c == nil {
		return m.step("took back", m.session.undo)
	}
	return func() tea.Msg { return unwrittenMsg{c, host.Write(c.reverse())} }
}

func (m *model) unwritten(msg unwrittenMsg) tea.Cmd {
	if msg.change != m.session.lastWrite() {
		return nil // requested twice
	}
	files := msg.change.files()
	switch {
	case errors.Is(msg.err, ErrChanged):
		m.fail(fmt.Errorf("%s was changed since it was written here: it is left as it is", files))
		return nil
	case msg.err != nil:
		m.fail(msg.err)
		return nil
	}
	m.session.unwritten()
	text := files + " is as it was before the write"
	if msg.change.Fix == "" {
		text += "; " + m.keys.of(actRedo) + " stages its decisions again"
	}
	m.say("%s", text)
	return tea.Batch(m.arrange(), m.evaluate())
}

// step undoes or redoes a staged decision.
func (m *model) step(word string, step func() (string, bool)) tea.Cmd {
	did, ok := step()
	if !ok {
		m.say("nothing to take back or do again")
		return nil
	}
	m.say("%s: %s; %s", word, did, policy.Plural(m.session.staged.Len(), "decision")+" staged")
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
		return tea.Exec(lateCommand{ed.Cmd}, func(err error) tea.Msg { return editedMsg{name, note, err} })
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
	return tea.Batch(tea.ClearScreen, m.evaluate()) // restore the screen after the editor
}

// maxCopied limits the text for the terminal's clipboard: terminals silently
// drop longer texts.
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

// copySuppression returns the YAML that would accept a result.
func (m *model) copySuppression(e *entry) string {
	a := m.form.last
	a.reason = cmp.Or(a.reason, "TODO")
	if a.expires == "" {
		a.expires = m.Today.AddDate(0, 0, 90).Format("2006-01-02")
	}
	if x := e.held; x != nil && x.Line == 0 {
		return string(policy.WriteSuppressions([]policy.Suppression{*x}))
	}
	return string(policy.WriteSuppressions([]policy.Suppression{m.session.suppression(e, a)}))
}
