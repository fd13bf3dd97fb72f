package download

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// screen returns the lines that a terminal shows after text, which moves the cursor
// up and clears the lines below it.
func screen(t *testing.T, text string) []string {
	t.Helper()
	lines := []string{""}
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexAny(text, "AJ")
			if end < 0 {
				t.Fatalf("another sequence: %q", text)
			}
			if text[end] == 'A' {
				var n int
				if _, err := fmt.Sscanf(text[2:end], "%d", &n); err != nil || n > len(lines)-1 {
					t.Fatalf("up by %q of %d lines", text[2:end], len(lines)-1)
				}
				lines = append(lines[:len(lines)-1-n], "")
			}
			text = text[end+1:]
		case text[0] == '\n':
			lines, text = append(lines, ""), text[1:]
		default:
			lines[len(lines)-1] += text[:1]
			text = text[1:]
		}
	}
	return lines
}

// TestProgress shows a bar for each download, within the terminal's width,
// and leaves nothing behind.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{w: &out, width: func() int { return 60 }, plain: func(s string) string { return strings.ReplaceAll(s, "\x1b", "?") }}
	p.expect(3)
	addOne, doneOne := p.begin("chart one 1.x of https://charts.example.org/" + strings.Repeat("long/", 20))
	addTwo, doneTwo := p.begin("chart two\x1b[2J")
	addOne(512<<10, 1<<20)
	p.drawn = time.Time{}
	addTwo(2048, -1)
	shown := screen(t, out.String())
	if len(shown) != 4 || !strings.HasPrefix(shown[0], "[##########..........] 512 KiB of 1.0 MiB") || !strings.HasPrefix(shown[1], "[....................] 2 KiB") || !strings.Contains(shown[2], "514 KiB, 0 of 3") {
		t.Errorf("shown %q", shown)
	}
	for _, line := range shown {
		if utf8.RuneCountInString(line) >= 60 {
			t.Errorf("as wide as the terminal: %q", line)
		}
	}
	doneOne()
	if shown = screen(t, out.String()); len(shown) != 3 || !strings.Contains(shown[0], "two") || !strings.Contains(shown[1], "1 of 3") {
		t.Errorf("after one: %q", shown)
	}
	doneTwo()
	p.clear()
	if shown = screen(t, out.String()); strings.Join(shown, "") != "" || len(shown) != 1 {
		t.Errorf("left: %q", shown)
	}

	// Where there is no terminal, nothing is drawn.
	out.Reset()
	p = newProgress(&out, false, strings.ToLower)
	p.expect(1)
	add, done := p.begin("chart")
	add(1, 1)
	done()
	p.clear()
	if out.Len() > 0 {
		t.Errorf("written: %q", out.String())
	}
}
