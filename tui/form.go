package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// A form asks for the fields of a suppression. It begins with the last input.
type form struct {
	targets []*entry
	fields  [3]field // reason, expires, owner
	scope   scope
	at      int // the focused field; the scope is the last
	err     error
	last    acceptance
	would   []policy.Suppression // the suppressions that would be staged, without the input
}

var fieldNames = [4]string{"reason", "expires", "owner", "scope"}

const scopeField = 3

// open begins a form for entries.
func (f *form) open(targets []*entry, o *Options) {
	if f.last.expires == "" {
		f.last.expires = o.Today.AddDate(0, 0, 90).Format(time.DateOnly)
	}
	f.targets, f.at, f.err, f.scope = targets, 0, nil, thisObject
	f.fields = [3]field{
		newField(f.last.reason, "why is this all right for now?"),
		newField(f.last.expires, "2027-03-31, 90d, 6m"),
		newField(f.last.owner, "who answers for it"),
	}
}

func (f *form) focus(at int) {
	n := len(fieldNames)
	f.at = (at + n) % n
}

// answer returns the checked input.
func (f *form) answer(today time.Time) (acceptance, error) {
	a := acceptance{f.fields[0].String(), f.fields[1].String(), f.fields[2].String(), f.scope}
	err := a.check(today)
	return a, err
}

// accept opens the form for the chosen results.
func (m *model) accept() {
	if m.ReadOnly {
		m.say("--readonly: nothing is accepted")
		return
	}
	var targets []*entry
	for _, e := range m.list.chosen(m.session.entries) {
		if e.acceptable() {
			targets = append(targets, e)
		}
	}
	if len(targets) == 0 {
		m.say("nothing to accept here")
		return
	}
	m.mode = modeForm
	m.form.open(targets, &m.Options)
	m.form.would = m.session.accept(targets, acceptance{})
}

func (m *model) formKey(msg tea.KeyPressMsg) tea.Cmd {
	f := &m.form
	f.err = nil
	switch s := msg.String(); s {
	case "esc", "ctrl+c":
		m.mode = modeList
		m.say("nothing was accepted")
	case "tab", "down":
		f.focus(f.at + 1)
	case "shift+tab", "up":
		f.focus(f.at - 1)
	case "enter", "ctrl+s":
		return m.submit()
	default:
		if f.at == scopeField {
			switch s {
			case "left", "h":
				f.scope = (f.scope + numScopes - 1) % numScopes
			case "right", "l", "space":
				f.scope = (f.scope + 1) % numScopes
			}
			f.would = m.session.accept(f.targets, acceptance{scope: f.scope})
			return nil
		}
		f.fields[f.at].press(msg)
	}
	return nil
}

// submit stages the form's suppressions and moves to the next result.
func (m *model) submit() tea.Cmd {
	f := &m.form
	a, err := f.answer(m.Today)
	if err != nil {
		f.err = err
		return nil
	}
	f.last = a
	add := m.session.accept(f.targets, a)
	did := "accepting " + policy.Plural(len(f.targets), "result")
	n := m.session.stage(did, Decisions{Add: add})
	m.mode = modeList
	m.unmark()
	if n == 0 {
		m.say("that is staged already")
		return nil
	}
	if len(f.targets) == 1 {
		m.list.next(func(e *entry) bool { return e.acceptable() })
	}
	m.say("staged %s: %s reviews and writes, %s takes it back", policy.Plural(n, "suppression"), m.keys.of(actWrite), m.keys.of(actUndo))
	return m.arrange()
}

// takeBack stages the removal of the suppressions of the chosen results.
func (m *model) takeBack() tea.Cmd {
	if m.ReadOnly {
		m.say("--readonly: nothing is removed")
		return nil
	}
	n, where := m.session.unaccept(m.list.chosen(m.session.entries))
	m.unmark()
	if n == 0 {
		m.say("%s", cmp.Or(where, "no suppression here"))
		return nil
	}
	m.say("staged the removal of %s: %s reviews and writes, %s takes it back", policy.Plural(n, "suppression"), m.keys.of(actWrite), m.keys.of(actUndo))
	return m.arrange()
}

func (m *model) unmark() {
	m.list.anchor = -1
	for _, e := range m.session.entries {
		e.marked = false
	}
	m.session.marked = 0
}

// formLines returns the drawn form.
func (m *model) formLines(width int) []string {
	f, t := &m.form, m.theme
	what := policy.Plural(len(f.targets), "result")
	if len(f.targets) == 1 {
		e := f.targets[0]
		what = report.RuleName(e.Result) + " for " + report.ObjectName(e.Object)
	}
	lines := []string{t.title.Render("Accept ") + what, ""}
	for i := range f.fields {
		lines = append(lines, m.label(i)+f.fields[i].view(t, width-12, i == f.at))
	}
	choice := "‹ " + scopeWords[f.scope] + " ›"
	if f.at == scopeField {
		choice = t.activeTab.Render(choice)
	}
	lines = append(lines, m.label(scopeField)+choice, "")
	if f.err != nil {
		lines = append(lines, wrapStyled(t.bad, f.err.Error(), width)...)
	}
	return append(lines, m.formPreview(width)...)
}

func (m *model) label(i int) string {
	s := pad(fieldNames[i], 8) + " "
	if i == m.form.at {
		return m.theme.key.Render("> " + s)
	}
	return "  " + s
}

// formPreview shows the suppressions that would be written.
func (m *model) formPreview(width int) []string {
	all := m.form.would
	lines := []string{m.theme.dim.Render(policy.Plural(len(all), "suppression") + ":")}
	for i, s := range all {
		if i == 5 {
			lines = append(lines, m.theme.dim.Render(fmt.Sprintf("… %d more", len(all)-i)))
			break
		}
		lines = append(lines, wrapStyled(m.theme.dim, report.Visible(described(s), maxLine), width)...)
	}
	return lines
}

// A field is a line of input. (Bubbles' own field runs programs to read the
// clipboard; pasting by the terminal is enough.)
type field struct {
	value []rune
	at    int // where the next character goes
	hint  string
}

const maxField = 1000

func newField(value, hint string) field {
	f := field{hint: hint}
	f.insert(value)
	return f
}

func (f *field) String() string { return string(f.value) }

// insert inserts text; invisible characters become spaces.
func (f *field) insert(s string) {
	for _, r := range s {
		if len(f.value) >= maxField {
			return
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		f.value = append(f.value[:f.at], append([]rune{r}, f.value[f.at:]...)...)
		f.at++
	}
}

// press handles the keys of a shell's line editor.
func (f *field) press(msg tea.KeyPressMsg) {
	switch msg.String() {
	case "left", "ctrl+b":
		f.at = max(0, f.at-1)
	case "right", "ctrl+f":
		f.at = min(len(f.value), f.at+1)
	case "home", "ctrl+a":
		f.at = 0
	case "end", "ctrl+e":
		f.at = len(f.value)
	case "backspace", "ctrl+h":
		f.remove(f.at-1, f.at)
	case "delete", "ctrl+d":
		f.remove(f.at, f.at+1)
	case "ctrl+u":
		f.remove(0, f.at)
	case "ctrl+k":
		f.remove(f.at, len(f.value))
	case "ctrl+w", "alt+backspace":
		f.remove(f.word(), f.at)
	default:
		f.insert(msg.Text)
	}
}

func (f *field) remove(from, to int) {
	from, to = max(0, from), min(to, len(f.value))
	if from >= to {
		return
	}
	f.value = append(f.value[:from], f.value[to:]...)
	f.at = from
}

// word returns where the word before the cursor begins.
func (f *field) word() int {
	i := f.at
	for i > 0 && f.value[i-1] == ' ' {
		i--
	}
	for i > 0 && f.value[i-1] != ' ' {
		i--
	}
	return i
}

// view draws the part around the cursor, reversed if the field is focused.
func (f *field) view(t *theme, width int, focused bool) string {
	width = max(width, 4)
	if len(f.value) == 0 && !focused {
		return t.dim.Render(ansi.Truncate(f.hint, width, "…"))
	}
	before, under, after := string(f.value[:f.at]), " ", ""
	if f.at < len(f.value) {
		under, after = string(f.value[f.at]), string(f.value[f.at+1:])
	}
	if n := ansi.StringWidth(before); n > width-2 {
		before = "…" + ansi.TruncateLeft(before, n-width+3, "")
	}
	if !focused {
		return ansi.Truncate(strings.TrimRight(before+under+after, " "), width, "…")
	}
	if len(f.value) == 0 {
		after = t.dim.Render(f.hint)
	}
	return ansi.Truncate(before+t.activeTab.Render(under)+after, width, "…")
}
