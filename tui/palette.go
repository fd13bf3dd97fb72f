package tui

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

// A command is a command of the palette: one for every action, and some with an
// argument.
type command struct {
	name, help string
	action     action
	argument   string // its argument, as in the help; "" if it has none
	values     func(m *model) []string
	run        func(m *model, argument string) (tea.Cmd, error)
}

// withArgument returns the commands with an argument. If one has the name of an
// action, that action runs when there is no argument.
func withArgument() []command {
	words := func(w []string) func(*model) []string { return func(*model) []string { return w } }
	return []command{
		{name: "filter", help: "show what matches", argument: "WORDS", values: words(filterPrefixes()), run: (*model).filterBy},
		{name: "section", help: "go to a section", argument: "NAME", values: sectionWords, run: (*model).sectionNamed},
		{name: "group", help: "group by", argument: "BY", values: words(groupingNames[:]), run: (*model).groupNamed},
		{name: "sort", help: "sort by", argument: "BY", values: words(orderingWords[:]), run: (*model).sortNamed},
		{name: "theme", help: "colours for a background", argument: "BACKGROUND", values: words(themeWords), run: (*model).themeNamed},
		{name: "help", help: "help, or that of a command", argument: "[COMMAND]", values: commandNames, run: (*model).helpFor},
	}
}

func filterPrefixes() []string {
	var all []string
	for _, f := range filterFields {
		all = append(all, f.name+":")
	}
	return all
}

func commandNames(*model) []string {
	var names []string
	for _, c := range allCommands() {
		names = append(names, c.name)
	}
	return names
}

func (m *model) filterBy(words string) (tea.Cmd, error) {
	m.input = newField(words, "")
	return tea.Batch(m.leaveGraph(), m.refilter()), nil
}

func (m *model) sectionNamed(name string) (tea.Cmd, error) {
	for s := range numSections {
		if s.shown(&m.session.index) && sectionWord(s, &m.session.index) == name {
			return m.toSection(s), nil
		}
	}
	return nil, instead("section", name, sectionWords(m))
}

func (m *model) groupNamed(by string) (tea.Cmd, error) {
	i := slices.Index(groupingNames[:], by)
	if i < 0 {
		return nil, instead("group", by, groupingNames[:])
	}
	return tea.Batch(m.leaveGraph(), m.groupBy(grouping(i))), nil
}

func (m *model) sortNamed(by string) (tea.Cmd, error) {
	i := slices.Index(orderingWords[:], by)
	if i < 0 {
		return nil, instead("sort", by, orderingWords[:])
	}
	return tea.Batch(m.leaveGraph(), m.sortBy(ordering(i))), nil
}

func (m *model) themeNamed(name string) (tea.Cmd, error) {
	if !slices.Contains(themeWords, name) {
		return nil, instead("theme", name, themeWords)
	}
	m.theme = newTheme(name == "dark")
	return nil, nil
}

func (m *model) helpFor(name string) (tea.Cmd, error) {
	c, err := commandNamed(name)
	if err == nil {
		m.say("%s", m.describe(c))
	}
	return nil, err
}

var (
	orderingWords = [numOrderings]string{"worst", "most", "name"}
	themeWords    = []string{"dark", "light"}
	// shortCommands are short names of commands, as in vim.
	shortCommands = map[string]string{"q": "quit", "w": "write", "h": "help", "e": "edit", "f": "filter", "r": "evaluate"}
)

func sectionWord(s section, x *index) string {
	return strings.ReplaceAll(strings.ToLower(s.title(x)), " ", "-")
}

func sectionWords(m *model) []string {
	var all []string
	for s := range numSections {
		if s.shown(&m.session.index) {
			all = append(all, sectionWord(s, &m.session.index))
		}
	}
	return all
}

func instead(command, value string, values []string) error {
	return fmt.Errorf("%s: no %q; %s", command, value, render.Instead(value, values))
}

// allCommands returns the commands, sorted by name.
func allCommands() []command {
	all := withArgument()
	for a := noAction + 1; a < numActions; a++ {
		i := slices.IndexFunc(all, func(c command) bool { return c.name == actions[a].name })
		if i < 0 {
			all = append(all, command{name: actions[a].name, help: actions[a].help, action: a})
		} else {
			all[i].action = a
		}
	}
	slices.SortFunc(all, func(a, b command) int { return strings.Compare(a.name, b.name) })
	return all
}

func commandNamed(name string) (command, error) {
	if long, ok := shortCommands[name]; ok {
		name = long
	}
	for _, c := range allCommands() {
		if c.name == name {
			return c, nil
		}
	}
	if s := render.DidYouMean(name, commandNames(nil)); s != "" {
		return command{}, fmt.Errorf("no command %q; %s", name, s)
	}
	return command{}, fmt.Errorf("no command %q; tab completes, :help lists the keys", name)
}

// describe describes a command, with its argument and its key.
func (m *model) describe(c command) string {
	text := c.name
	if c.argument != "" {
		text += " " + c.argument
	}
	text += ": " + c.help
	if c.action != noAction && m.keys.first(c.action) != "" {
		text += " (" + m.keys.shown(c.action) + ")"
	}
	return text
}

// A palette is a line with a command being typed, and its completions.
type palette struct {
	field
	found    []string // completions of the line
	selected int      // index in found; -1 for none
	offer    func(typed string) []string
}

const maxOffered = 8

func (p *palette) open(m *model) {
	*p = palette{selected: -1, offer: m.offer}
	p.found = p.offer("")
}

// offer returns the completions: names that begin with the typed text before
// those that contain it, then values of the argument.
func (m *model) offer(typed string) []string {
	name, argument, hasArgument := strings.Cut(typed, " ")
	if !hasArgument {
		return completing(name, commandNames(m))
	}
	c, err := commandNamed(name)
	if err != nil || c.values == nil {
		return nil
	}
	cut := strings.LastIndexByte(argument, ' ') + 1
	var lines []string
	for _, v := range completing(argument[cut:], c.values(m)) {
		lines = append(lines, name+" "+argument[:cut]+v)
	}
	return lines
}

// completing returns the words that begin with the typed text, then those that
// contain it.
func completing(typed string, words []string) []string {
	var begin, hold []string
	for _, w := range words {
		switch i := strings.Index(w, typed); {
		case i == 0:
			begin = append(begin, w)
		case i > 0:
			hold = append(hold, w)
		}
	}
	return append(begin, hold...)
}

// commandKey handles a key: it edits the command, completes it, or runs it.
func (m *model) commandKey(msg tea.KeyPressMsg) tea.Cmd {
	p := &m.palette
	switch s := msg.String(); {
	case s == "esc" || s == "ctrl+c" || s == "backspace" && len(p.value) == 0:
		m.mode = modeList
	case s == "tab" || s == "down":
		p.choose(1)
	case s == "shift+tab" || s == "up":
		p.choose(-1)
	case s == "enter":
		m.mode = modeList
		cmd, err := m.command(p.line())
		if err != nil {
			m.fail(err)
		}
		return cmd
	default:
		p.press(msg)
		p.found, p.selected = p.offer(p.String()), -1
	}
	return nil
}

// choose puts the next completion into the line.
func (p *palette) choose(by int) {
	n := len(p.found)
	if n == 0 {
		return
	}
	if p.selected < 0 && by < 0 {
		p.selected = 0
	}
	p.selected = (p.selected + by + n) % n
	p.field = newField(p.found[p.selected], "")
}

// line returns the command to run: the typed text, or the only name that begins
// with it.
func (p *palette) line() string {
	typed := strings.TrimSpace(p.String())
	if _, err := commandNamed(typed); err != nil && typed != "" && !strings.Contains(typed, " ") {
		if found := completing(typed, p.found); len(found) > 0 && strings.HasPrefix(found[0], typed) {
			return found[0]
		}
	}
	return typed
}

func (p *palette) insert(text string) {
	p.field.insert(text)
	p.found, p.selected = p.offer(p.String()), -1
}

// command runs a line of the palette. A number moves to that row.
func (m *model) command(line string) (tea.Cmd, error) {
	name, argument, _ := strings.Cut(line, " ")
	argument = strings.TrimSpace(argument)
	if n, err := strconv.Atoi(name); err == nil {
		m.list.move(n - 1 - m.list.cursor)
		return nil, nil
	}
	switch {
	case line == "":
		return nil, nil
	case line == "q!":
		m.session.discard()
		return tea.Quit, nil
	}
	c, err := commandNamed(name)
	switch {
	case err != nil:
		return nil, err
	case argument != "" && c.run == nil:
		return nil, fmt.Errorf("%s takes nothing after its name", c.name)
	case argument != "":
		return c.run(m, argument)
	case c.action != noAction:
		return m.run(c.action), nil
	}
	return nil, errors.New(m.describe(c))
}

// commandLines returns the completions, with the selected one marked.
func (m *model) commandLines(width, height int) []string {
	p := &m.palette
	n := min(maxOffered, height-1, len(p.found))
	top := max(0, min(p.selected-n/2, len(p.found)-n))
	var lines []string
	for i := top; i < top+n; i++ {
		name, _, hasArgument := strings.Cut(p.found[i], " ")
		text := p.found[i]
		if c, err := commandNamed(name); err == nil && !hasArgument {
			rest, _ := strings.CutPrefix(m.describe(c), c.name)
			text = pad(c.name, 17) + " " + strings.TrimPrefix(strings.TrimPrefix(rest, ":"), " ")
		}
		sign, style := "  ", m.theme.unfocused
		if i == p.selected {
			sign, style = "> ", m.theme.selected
		}
		lines = append(lines, style.Render(fit(sign+text, width)))
	}
	return lines
}

// Settings are a person's own keys, editor and theme.
type Settings struct {
	Editor string
	Theme  string
	Keys   Keys
}

// ParseSettings parses the settings in data; errors name file and the line. check returns
// an error if the value of editor or theme is wrong.
func ParseSettings(file string, data []byte, check func(key, value string) error) (s Settings, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return s, render.SyntaxError(file, data, err)
	}
	if len(doc.Content) == 0 {
		return s, nil
	}
	at := func(n *yaml.Node, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %w", file, n.Line, fmt.Errorf(format, args...))
	}
	err = eachKey(doc.Content[0], at, func(key, value *yaml.Node) error {
		switch {
		case key.Value == "keys":
			s.Keys, err = parseKeys(value, at)
			return err
		case key.Value != "editor" && key.Value != "theme":
			return at(key, "unknown key %q; %s", key.Value, render.Instead(key.Value, []string{"editor", "keys", "theme"}))
		case value.Kind != yaml.ScalarNode:
			return at(value, "%s: want text", key.Value)
		}
		if err := check(key.Value, value.Value); err != nil {
			return at(value, "%w", err)
		}
		if key.Value == "theme" {
			s.Theme = value.Value
		} else {
			s.Editor = value.Value
		}
		return nil
	})
	return s, err
}

// eachKey calls f for each key of a mapping. A key that is there twice is an error.
func eachKey(n *yaml.Node, at func(*yaml.Node, string, ...any) error, f func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "want keys with values")
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			return at(key, "%s is set twice", key.Value)
		}
		seen[key.Value] = true
		if err := f(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// parseKeys reads the keys of actions: one, or a list.
func parseKeys(n *yaml.Node, at func(*yaml.Node, string, ...any) error) (Keys, error) {
	keys, lines := make(Keys), make(map[string]*yaml.Node)
	var names []string
	err := eachKey(n, at, func(action, value *yaml.Node) error {
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			list = value.Content
		}
		keys[action.Value] = []string{}
		for _, k := range list {
			if k.Kind != yaml.ScalarNode {
				return at(k, "%s: want a key or a list of keys", action.Value)
			}
			keys[action.Value] = append(keys[action.Value], k.Value)
		}
		names, lines[action.Value] = append(names, action.Value), action
		return nil
	})
	if err != nil {
		return nil, err
	}
	var wrong *KeyError
	if err := keys.Check(names); errors.As(err, &wrong) {
		if actionNamed(wrong.Action) == noAction {
			return nil, at(lines[wrong.Action], "keys: unknown action %q; %s", wrong.Action, render.Instead(wrong.Action, Actions()))
		}
		return nil, at(lines[wrong.Action], "keys: %w", wrong)
	}
	return keys, nil
}
