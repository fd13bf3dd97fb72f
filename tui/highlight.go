package tui

import (
	"path"
	"strings"

	"charm.land/lipgloss/v2"
)

// A language selects how lines are highlighted. Each line is highlighted alone,
// so a block scalar looks like the YAML that it resembles.
type language uint8

const (
	noLanguage language = iota
	yamlLanguage
	celLanguage
	diffLanguage
)

// languageOf returns the language for a file's name. Templates of charts are
// treated as YAML.
func languageOf(file string) language {
	switch path.Ext(file) {
	case ".yaml", ".yml", ".json", ".tpl", ".tmpl", ".txt":
		return yamlLanguage
	}
	return noLanguage
}

// highlight colours a line, which must be safe to show.
func (t *theme) highlight(l language, s string) string {
	switch l {
	case yamlLanguage:
		return t.yaml(s)
	case celLanguage:
		return t.cel(s)
	case diffLanguage:
		return t.diff(s)
	default:
		return s
	}
}

func (t *theme) yaml(s string) string {
	body := strings.TrimLeft(s, " -")
	var b strings.Builder
	b.WriteString(s[:len(s)-len(body)])
	if !strings.HasPrefix(body, "{{") {
		if i := keyEnd(body); i > 0 {
			b.WriteString(t.yamlKey.Render(body[:i]))
			b.WriteByte(':')
			body = body[i+1:]
		}
	}
	t.yamlValues(&b, body)
	return b.String()
}

// keyEnd returns the offset of a key's colon, or -1.
func keyEnd(s string) int {
	if s == "" || s[0] == '#' {
		return -1
	}
	from := 0
	if s[0] == '"' || s[0] == '\'' {
		i := strings.IndexByte(s[1:], s[0])
		if i < 0 {
			return -1
		}
		from = i + 2
	}
	i := strings.IndexByte(s[from:], ':')
	for i >= 0 {
		end := from + i
		if end+1 == len(s) || s[end+1] == ' ' {
			return end
		}
		next := strings.IndexByte(s[end+1:], ':')
		if next < 0 {
			return -1
		}
		i += next + 1
	}
	return -1
}

// yamlValues colours the part of a line after the key.
func (t *theme) yamlValues(b *strings.Builder, s string) {
	for s != "" {
		n, style := 1, t.yamlValue
		switch {
		case strings.HasPrefix(s, "{{"):
			style = t.template
			if n = len(s); strings.Contains(s, "}}") {
				n = strings.Index(s, "}}") + 2
			}
		case s[0] == '#' && (b.Len() == 0 || strings.HasSuffix(b.String(), " ")):
			n, style = len(s), t.comment
		case s[0] == '"' || s[0] == '\'':
			style = t.yamlString
			if n = len(s); strings.IndexByte(s[1:], s[0]) >= 0 {
				n = strings.IndexByte(s[1:], s[0]) + 2
			}
		case s[0] == ' ':
			b.WriteByte(' ')
			s = s[1:]
			continue
		default:
			if n = strings.IndexAny(s, " "); n < 0 {
				n = len(s)
			}
			if i := strings.Index(s[:n], "{{"); i > 0 {
				n = i
			}
			if !scalar(s[:n]) {
				b.WriteString(s[:n])
				s = s[n:]
				continue
			}
		}
		b.WriteString(style.Render(s[:n]))
		s = s[n:]
	}
}

// scalar reports whether a word is a number, a boolean, null, an anchor or
// alias.
func scalar(s string) bool {
	switch s {
	case "true", "false", "null", "~":
		return true
	}
	return s[0] >= '0' && s[0] <= '9' || (s[0] == '&' || s[0] == '*' || s[0] == '!') && len(s) > 1
}

// cel colours the words of an expression.
func (t *theme) cel(s string) string {
	var b strings.Builder
	for s != "" {
		n := 1
		switch c := s[0]; {
		case c == '"' || c == '\'':
			if n = len(s); strings.IndexByte(s[1:], c) >= 0 {
				n = strings.IndexByte(s[1:], c) + 2
			}
			b.WriteString(t.yamlString.Render(s[:n]))
		case isWord(c):
			for n < len(s) && isWord(s[n]) {
				n++
			}
			t.celWord(&b, s[:n], strings.HasPrefix(s[n:], "("))
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func (t *theme) celWord(b *strings.Builder, word string, call bool) {
	switch {
	case word == "true" || word == "false" || word == "null" || word == "in" || word[0] >= '0' && word[0] <= '9':
		b.WriteString(t.yamlValue.Render(word))
	case call:
		b.WriteString(t.yamlKey.Render(word))
	default:
		b.WriteString(word)
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (t *theme) diff(s string) string {
	switch {
	case strings.HasPrefix(s, "+++"), strings.HasPrefix(s, "---"):
		return t.title.Render(s)
	case strings.HasPrefix(s, "@@"):
		return t.accent.Render(s)
	case strings.HasPrefix(s, "+"):
		return t.added.Render(s)
	case strings.HasPrefix(s, "-"):
		return t.removed.Render(s)
	default:
		return s
	}
}

// A theme holds the styles. No meaning depends on colour alone: with NO_COLOR,
// words, symbols, bold and reverse remain.
type theme struct {
	bad, warn, note, good lipgloss.Style // by severity of a result
	title, dim, accent    lipgloss.Style
	selected, unfocused   lipgloss.Style // the row under the cursor
	tab, activeTab        lipgloss.Style
	bar                   lipgloss.Style // the status line
	key                   lipgloss.Style // a key in the footer
	mark                  lipgloss.Style // the fault in a line

	yamlKey, yamlString, yamlValue, comment, template lipgloss.Style
	added, removed                                    lipgloss.Style
}

// newTheme returns the theme for a dark or a light background. It uses the
// terminal's own sixteen colours, so that they fit its scheme.
func newTheme(dark bool) *theme {
	yellow, grey, shade, faded := "130", "242", "254", "255"
	if dark {
		yellow, grey, shade, faded = "3", "245", "237", "235"
	}
	fg := func(c string) lipgloss.Style { return lipgloss.NewStyle().Foreground(lipgloss.Color(c)) }
	bold := lipgloss.NewStyle().Bold(true)
	return &theme{
		bad: fg("1").Bold(true), warn: fg(yellow).Bold(true), note: fg("6"), good: fg("2"),
		title: bold, dim: fg(grey), accent: fg("4").Bold(true),
		selected:  bold.Background(lipgloss.Color(shade)),
		unfocused: lipgloss.NewStyle().Background(lipgloss.Color(faded)),
		tab:       fg(grey), activeTab: bold.Reverse(true),
		bar:     lipgloss.NewStyle().Background(lipgloss.Color(shade)),
		key:     bold,
		mark:    fg("1").Bold(true),
		yamlKey: fg("4"), yamlString: fg("2"), yamlValue: fg("5"), comment: fg(grey), template: fg(yellow),
		added: fg("2"), removed: fg("1"),
	}
}

// class returns the style and the symbol of a result's class.
func (t *theme) class(rank int) (lipgloss.Style, string) {
	switch rank {
	case 0:
		return t.bad, "✗"
	case 1:
		return t.bad, "!"
	case 2:
		return t.warn, "?"
	case 3:
		return t.warn, "w"
	case 4:
		return t.note, "i"
	default:
		return t.good, "✓"
	}
}
