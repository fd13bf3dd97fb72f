package tui

import (
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

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
