package tui

import (
	"charm.land/lipgloss/v2"
)

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
