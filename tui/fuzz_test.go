package tui

import "testing"

// FuzzScreen holds that no text of a report or of a file does anything to a terminal but
// fill its screen.
func FuzzScreen(f *testing.F) {
	for i, s := range []string{"x", "\x1b[2J", "\u202e日本語\r\n", "\x9b31m", "a\u0301\u0301", "\U0001f468\u200d\U0001f469", "\xff\xfe", "\x00", "\ufeff\u2028", "[link](x)"} {
		f.Add(s, uint8(80), uint8(24), uint8(0o213+i))
	}
	keys := []string{"enter", "e", "j", "tab", "esc", "?"}
	f.Fuzz(func(t *testing.T, s string, width, height, pressed uint8) {
		if len(s) > 300 {
			return
		}
		d := newDriver(t, 1+int(width)%140, 1+int(height)%30, func(h *fakeHost, _ *Options) {
			x := &h.report.Results[0]
			x.Message, x.Policy, x.Rule, x.Fields = s, s, s, []string{"/" + s}
			x.Object.Name, x.Object.Unit = s, s
			tree := sampleTree()
			for name, file := range tree {
				file.Data = []byte(s + "\n" + string(file.Data) + s)
				tree[name] = file
			}
			h.report.Tree = tree
			h.report.Notes = append(h.report.Notes, s)
		})
		for n := int(pressed) % 64; n > 0; n /= 8 { // the screens on the way are those of other inputs
			d.press(keys[n%8%len(keys)])
		}
		fits(t, d.model)
	})
}
