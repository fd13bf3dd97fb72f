package tui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// An action is the effect of a key. Each is also a command of the palette.
type action int

const (
	noAction action = iota
	actUp
	actDown
	actPageUp
	actPageDown
	actHalfUp
	actHalfDown
	actTop
	actBottom
	actNextGroup
	actPrevGroup
	actFilter
	actCommand
	actClear
	actNextSection
	actPrevSection
	actGraph
	actInGraph
	actGroup
	actSort
	actFold
	actUnfold
	actFoldAll
	actUnfoldAll
	actSource
	actObject
	actOrigins
	actRule
	actExplain
	actDiff
	actNextPane
	actPrevPane
	actScrollDown
	actScrollUp
	actFocus
	actZoom
	actOpen
	actMark
	actRange
	actAll
	actAccept
	actRemove
	actUndo
	actRedo
	actWrite
	actFix
	actEdit
	actEditRule
	actEvaluate
	actCopy
	actHelp
	actQuit
	numActions
)

// actions lists every action: its name in the palette and in the settings file, its
// help, the section of the help, and its default keys.
var actions = [numActions]struct {
	name, help, part string
	keys             []string
}{
	actUp:          {"up", "up", "move", []string{"k", "up"}},
	actDown:        {"down", "down", "move", []string{"j", "down"}},
	actPageUp:      {"page-up", "a page up", "move", []string{"pgup", "ctrl+b"}},
	actPageDown:    {"page-down", "a page down", "move", []string{"pgdown", "ctrl+f"}},
	actHalfUp:      {"half-page-up", "half a page up", "move", []string{"ctrl+u"}},
	actHalfDown:    {"half-page-down", "half a page down", "move", []string{"ctrl+d"}},
	actTop:         {"first", "first", "move", []string{"g", "home"}},
	actBottom:      {"last", "last", "move", []string{"G", "end"}},
	actNextGroup:   {"next-group", "next group", "move", []string{"n"}},
	actPrevGroup:   {"previous-group", "previous group", "move", []string{"N"}},
	actFilter:      {"filter", "filter", "show", []string{"/"}},
	actCommand:     {"command", "run a command", "show", []string{":"}},
	actClear:       {"back", "back, clear", "show", []string{"esc"}},
	actNextSection: {"next-section", "next section", "show", []string{"]"}},
	actPrevSection: {"previous-section", "previous section", "show", []string{"["}},
	actGraph:       {"graph", "what deploys what", "show", []string{"t"}},
	actInGraph:     {"deployed-by", "what deploys this", "show", []string{"T"}},
	actGroup:       {"group", "change grouping", "show", []string{"o"}},
	actSort:        {"sort", "change order", "show", []string{"s"}},
	actFold:        {"fold", "fold", "show", []string{"h", "left"}},
	actUnfold:      {"unfold", "unfold", "show", []string{"l", "right"}},
	actFoldAll:     {"fold-all", "fold all", "show", []string{"-"}},
	actUnfoldAll:   {"unfold-all", "unfold all", "show", []string{"+", "="}},
	actSource:      {"source", "source", "look", []string{"1"}},
	actObject:      {"object", "rendered object", "look", []string{"2"}},
	actOrigins:     {"origins", "origins", "look", []string{"3"}},
	actRule:        {"rule", "rule", "look", []string{"4"}},
	actExplain:     {"explain", "explain with values", "look", []string{"x", "5"}},
	actDiff:        {"diff", "diff to the base", "look", []string{"6"}},
	actNextPane:    {"next-preview", "next preview", "look", []string{"p"}},
	actPrevPane:    {"previous-preview", "previous preview", "look", []string{"P"}},
	actScrollDown:  {"scroll-down", "scroll the preview", "look", []string{"J", "shift+down"}},
	actScrollUp:    {"scroll-up", "scroll it back", "look", []string{"K", "shift+up"}},
	actFocus:       {"focus", "list or preview", "look", []string{"tab", "shift+tab"}},
	actZoom:        {"zoom", "zoom the preview", "look", []string{"z"}},
	actOpen:        {"open", "open", "look", []string{"enter"}},
	actMark:        {"mark", "mark", "decide", []string{"space"}},
	actRange:       {"range", "mark a range", "decide", []string{"v"}},
	actAll:         {"mark-all", "mark all shown", "decide", []string{"a"}},
	actAccept:      {"accept", "accept", "decide", []string{"w"}},
	actRemove:      {"remove", "remove the suppression", "decide", []string{"d"}},
	actUndo:        {"undo", "undo", "decide", []string{"u"}},
	actRedo:        {"redo", "redo", "decide", []string{"ctrl+r"}},
	actWrite:       {"write", "review and write", "decide", []string{"W"}},
	actFix:         {"fix", "fix", "do", []string{"f"}},
	actEdit:        {"edit", "edit at the line", "do", []string{"e"}},
	actEditRule:    {"edit-rule", "edit the rule", "do", []string{"E"}},
	actEvaluate:    {"evaluate", "evaluate again", "do", []string{"r"}},
	actCopy:        {"copy", "copy …", "do", []string{"y"}},
	actHelp:        {"help", "help", "do", []string{"?"}},
	actQuit:        {"quit", "quit", "do", []string{"q"}},
}

// helpParts are the parts of the help, in order.
var helpParts = []string{"move", "show", "look", "decide", "do"}

// Actions returns the names of the actions for which keys can be set.
func Actions() []string {
	var names []string
	for a := noAction + 1; a < numActions; a++ {
		names = append(names, actions[a].name)
	}
	return names
}

func actionNamed(name string) action {
	for a := noAction + 1; a < numActions; a++ {
		if actions[a].name == name {
			return a
		}
	}
	return noAction
}

// Keys maps names of actions to their keys. An action that is not in it keeps its
// default keys; one with an empty list has no key.
type Keys map[string][]string

// A KeyError describes what is wrong with the keys of an action.
type KeyError struct {
	Action string
	Err    error
}

func (k *KeyError) Error() string { return k.Action + ": " + k.Err.Error() }

// Check returns a *KeyError for the first action, in the order of names, with a key
// that does not exist or that another action already has. names must hold every
// name in k.
func (k Keys) Check(names []string) error {
	for _, name := range names {
		if actionNamed(name) == noAction {
			return &KeyError{name, fmt.Errorf("there is no such action")}
		}
		for _, key := range k[name] {
			if err := checkKey(key); err != nil {
				return &KeyError{name, err}
			}
		}
	}
	all := newKeyMap(k)
	for _, name := range names {
		for _, key := range k[name] {
			for a := noAction + 1; a < numActions; a++ {
				if other := actions[a].name; other != name && slices.Contains(all.keys[a], key) {
					return &KeyError{name, fmt.Errorf("the key %s does %s already; give %s another key, or none by %s: []", key, other, other, other)}
				}
			}
		}
	}
	return nil
}

// namedKeys are the keys other than letters, digits and signs.
var namedKeys = []string{
	"up", "down", "left", "right", "home", "end", "pgup", "pgdown", "insert", "delete", "backspace", "enter", "esc", "tab", "space",
	"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

// checkKey returns an error if a text is not the name of a key.
func checkKey(key string) error {
	name, modified := key, false
	for _, m := range []string{"ctrl+", "alt+", "shift+"} {
		if rest, ok := strings.CutPrefix(name, m); ok && rest != "" {
			name, modified = rest, true
		}
	}
	r, size := utf8.DecodeRuneInString(name)
	switch {
	case key == "ctrl+c":
		return fmt.Errorf("ctrl+c always quits")
	case key == "ctrl+z":
		return fmt.Errorf("ctrl+z always suspends")
	case slices.Contains(namedKeys, name):
		return nil
	case size == 0 || size != len(name) || !unicode.IsPrint(r) || r == ' ':
		return fmt.Errorf("%q is no key; a key is a letter, a digit, a sign or one of %s, after ctrl+, alt+ or shift+ if need be", key, strings.Join(namedKeys[:15], ", "))
	case strings.HasPrefix(key, "shift+") && modified && unicode.IsLetter(r):
		return fmt.Errorf("%q: write a capital letter instead", key)
	}
	return nil
}

// A keyMap holds the keys of every action. The footer, the help and the palette
// are built from it, so they always show the real keys.
type keyMap struct {
	keys    [numActions][]string
	actions map[string]action
}

func newKeyMap(changed Keys) keyMap {
	m := keyMap{actions: make(map[string]action)}
	for a := noAction + 1; a < numActions; a++ {
		m.keys[a] = actions[a].keys
		if keys, ok := changed[actions[a].name]; ok {
			m.keys[a] = keys
		}
		for _, key := range m.keys[a] {
			m.actions[key] = a
		}
	}
	m.actions["ctrl+c"] = actQuit
	return m
}

// keyNames are short names of keys.
var keyNames = map[string]string{"up": "↑", "down": "↓", "left": "←", "right": "→", "pgdown": "pgdn"}

// first returns the first key of an action, or "".
func (k *keyMap) first(a action) string {
	if len(k.keys[a]) == 0 {
		return ""
	}
	return keyName(k.keys[a][0])
}

// of returns how a message names an action: by its key, or else its command.
func (k *keyMap) of(a action) string {
	if key := k.first(a); key != "" {
		return key
	}
	return ":" + actions[a].name
}

// shown returns the keys of an action that fit.
func (k *keyMap) shown(a action) string {
	text := k.first(a)
	for _, key := range k.keys[a][min(1, len(k.keys[a])):] {
		if next := text + " " + keyName(key); ansi.StringWidth(next) <= 8 {
			text = next
		}
	}
	return text
}

func keyName(key string) string {
	if name, ok := keyNames[key]; ok {
		return name
	}
	return key
}

// footer returns the actions that are useful at the moment, the most useful
// first.
func (m *model) footer() []action {
	switch {
	case m.inGraph():
		all := []action{actOpen, actFold, actUnfold, actNextSection, actGraph, actCommand}
		if m.layout.single {
			all = append([]action{actFocus}, all...)
		}
		return all
	case m.focusPreview:
		return []action{actClear, actDown, actUp, actNextPane, actEdit, actExplain, actCopy}
	}
	all := []action{actFilter}
	if m.session.staged.Len() > 0 {
		all = append(all, actWrite)
	}
	if m.session.canUndo() {
		all = append(all, actUndo)
	}
	if m.list.anchor >= 0 {
		all = append(all, actClear)
	}
	if e := m.list.entry(); e != nil && e.held != nil && !m.ReadOnly {
		all = append(all, actRemove)
	} else if !m.ReadOnly {
		all = append(all, actAccept)
	}
	if !m.ReadOnly {
		all = append(all, actEdit)
	}
	all = append(all, actExplain)
	if e := m.list.entry(); e != nil && e.acceptable() {
		all = append(all, actFix)
	}
	return append(all, actMark, actNextSection, actGroup, actCommand)
}

// helpLines returns the help, in as many columns as fit.
func (m *model) helpLines(width int) []string {
	var lines []string
	for _, part := range helpParts {
		var cells []string
		for a := noAction + 1; a < numActions; a++ {
			if actions[a].part == part {
				cells = append(cells, m.theme.key.Render(pad(m.keys.shown(a), 8))+" "+actions[a].help)
			}
		}
		lines = append(append(lines, m.theme.accent.Render(part)), inColumns(cells, width)...)
	}
	lines = append(lines, "", m.theme.accent.Render("filter")+"  words that must all be there, !word, \"two words\", open, and:")
	for _, f := range filterFields {
		lines = append(lines, "  "+m.theme.key.Render(pad(f.name+":", 8))+" "+f.doc)
	}
	lines = append(lines, "  "+pad("", 8)+" = after the colon wants all of it: unit:=apps/web")
	return append(lines, "", m.theme.accent.Render("signs")+"  ✗ denied  ! error  ? unknown  w warning  i audit  ✓ passed", "       * marked  + accepted, not written  - suppression removed, not written")
}

// inColumns arranges cells in columns, from top to bottom.
func inColumns(cells []string, width int) []string {
	columns := max(1, width/38)
	rows := (len(cells) + columns - 1) / columns
	var lines []string
	for r := range rows {
		var line strings.Builder
		for c := r; c < len(cells); c += rows {
			line.WriteString(fit(cells[c], width/columns))
		}
		lines = append(lines, line.String())
	}
	return lines
}

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
