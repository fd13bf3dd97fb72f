package tui

import (
	"strings"

	"charm.land/bubbles/v2/key"
)

// A keyMap is every key of the screen: the footer and the overlay are made of
// it, so what they say is what the keys do.
type keyMap struct {
	Up, Down, PageUp, PageDown, HalfUp, HalfDown, Top, Bottom key.Binding
	NextGroup, PrevGroup, Fold, Unfold, FoldAll, UnfoldAll    key.Binding
	ScrollDown, ScrollUp                                      key.Binding
	Filter, Clear, NextSection, PrevSection, Sort, Group      key.Binding
	Mark, Range, All, Accept, Remove, Undo, Redo, Write       key.Binding
	NextPane, PrevPane, Pane, Explain, Zoom, Open, Focus      key.Binding
	Edit, EditRule, Evaluate, Copy, Help, Quit                key.Binding
}

func newKeyMap() keyMap {
	b := func(help string, show string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(show, help))
	}
	return keyMap{
		Up: b("up", "k ↑", "k", "up"), Down: b("down", "j ↓", "j", "down"),
		PageUp: b("a page up", "pgup", "pgup", "ctrl+b"), PageDown: b("a page down", "pgdn", "pgdown", "ctrl+f"),
		HalfUp: b("half a page up", "ctrl+u", "ctrl+u"), HalfDown: b("half a page down", "ctrl+d", "ctrl+d"),
		Top: b("first", "g", "g", "home"), Bottom: b("last", "G", "G", "end"),
		NextGroup: b("next group", "n", "n"), PrevGroup: b("group before", "N", "N"),
		Fold: b("fold the group", "h ←", "h", "left"), Unfold: b("unfold it", "l →", "l", "right"),
		FoldAll: b("fold all", "-", "-"), UnfoldAll: b("unfold all", "+", "+", "="),
		ScrollDown: b("scroll the preview", "J", "J", "shift+down"), ScrollUp: b("scroll it back", "K", "K", "shift+up"),
		Filter: b("filter", "/", "/"), Clear: b("back, clear", "esc", "esc"),
		NextSection: b("next section", "]", "]"), PrevSection: b("section before", "[", "["),
		Sort: b("sort otherwise", "s", "s"), Group: b("group otherwise", "o", "o"),
		Mark: b("mark", "space", "space"), Range: b("mark a range", "v", "v"), All: b("mark all shown", "a", "a"),
		Accept: b("accept", "w", "w"), Remove: b("remove the suppression", "d", "d"),
		Undo: b("undo", "u", "u"), Redo: b("redo", "ctrl+r", "ctrl+r"), Write: b("review and write", "W", "W"),
		NextPane: b("next preview", "p", "p"), PrevPane: b("preview before", "P", "P"), Pane: b("source, object, origins, rule, explain, diff", "1…6", "1", "2", "3", "4", "5", "6"),
		Explain: b("explain with values", "x", "x"), Zoom: b("zoom the preview", "z", "z"),
		Open: b("open", "enter", "enter"), Focus: b("list or preview", "tab", "tab", "shift+tab"),
		Edit: b("edit at the line", "e", "e"), EditRule: b("edit the rule", "E", "E"),
		Evaluate: b("evaluate again", "r", "r"), Copy: b("copy …", "y", "y"),
		Help: b("help", "?", "?"), Quit: b("quit", "q", "q", "ctrl+c"),
	}
}

// helpSection is a part of the overlay.
type helpSection struct {
	title string
	keys  []key.Binding
}

func (k *keyMap) sections() []helpSection {
	return []helpSection{
		{"move", []key.Binding{k.Up, k.Down, k.PageUp, k.PageDown, k.HalfUp, k.HalfDown, k.Top, k.Bottom, k.NextGroup, k.PrevGroup}},
		{"show", []key.Binding{k.Filter, k.Clear, k.NextSection, k.PrevSection, k.Group, k.Sort, k.Fold, k.Unfold, k.FoldAll, k.UnfoldAll}},
		{"look", []key.Binding{k.Pane, k.NextPane, k.PrevPane, k.Explain, k.ScrollDown, k.ScrollUp, k.Focus, k.Zoom, k.Open}},
		{"decide", []key.Binding{k.Mark, k.Range, k.All, k.Accept, k.Remove, k.Undo, k.Redo, k.Write}},
		{"do", []key.Binding{k.Edit, k.EditRule, k.Evaluate, k.Copy, k.Help, k.Quit}},
	}
}

// footer are the keys that are worth knowing now, the most useful first.
func (m *model) footer() []key.Binding {
	k := &m.keys
	if m.focusPreview {
		return []key.Binding{k.Clear, k.Down, k.Up, k.NextPane, k.Edit, k.Explain, k.Copy}
	}
	all := []key.Binding{k.Filter}
	if m.session.staged.Len() > 0 {
		all = append(all, k.Write, k.Undo)
	}
	if m.list.anchor >= 0 {
		all = append(all, k.Clear)
	}
	if e := m.list.entry(); e != nil && e.Suppression != nil && !m.ReadOnly {
		all = append(all, k.Remove)
	} else if !m.ReadOnly {
		all = append(all, k.Accept)
	}
	if !m.ReadOnly {
		all = append(all, k.Edit)
	}
	return append(all, k.Explain, k.Mark, k.NextSection, k.Group)
}

// helpLines are the overlay's, in as many columns as fit.
func (m *model) helpLines(width int) []string {
	var lines []string
	for _, s := range m.keys.sections() {
		lines = append(lines, m.theme.accent.Render(s.title))
		columns := max(1, width/38)
		var cells []string
		for _, b := range s.keys {
			cells = append(cells, m.theme.key.Render(pad(b.Help().Key, 8))+" "+b.Help().Desc)
		}
		rows := (len(cells) + columns - 1) / columns
		for r := range rows {
			var line strings.Builder
			for c := r; c < len(cells); c += rows {
				line.WriteString(fit(cells[c], width/columns))
			}
			lines = append(lines, line.String())
		}
	}
	lines = append(lines, "", m.theme.accent.Render("filter")+"  words that must all be there, !word, \"two words\", new, and:")
	for _, f := range filterFields {
		lines = append(lines, "  "+m.theme.key.Render(pad(f.name+":", 8))+" "+f.doc)
	}
	lines = append(lines, "", m.theme.accent.Render("signs")+"  ✗ denied  ! error  ? unknown  w warning  i audit  ✓ passed", "       * marked  + accepted, not written  - suppression removed, not written")
	return lines
}
