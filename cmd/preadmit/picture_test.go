package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestPictures holds the pictures of README.md against what they show: the
// screen of triage, and the report that README.md begins with, as a terminal
// draws them. make pictures rewrites them.
func TestPictures(t *testing.T) {
	root, err := filepath.Abs("../..")
	rendertest.OK(t, err)
	screen := rendertest.ReadFile(t, filepath.Join(root, "testdata/screens/explain.ansi"))
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "testdata/repos/shop"))))
	t.Chdir(dir)
	var report, errs bytes.Buffer
	if code := run(context.Background(), []string{"check", "apps", "charts", "-p", "policies", "--with", "infra", "--color", "always"}, nil, &report, &errs); code != exitDenied {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for name, text := range map[string]string{"triage.svg": string(screen), "report.svg": ansi.Wrap(hyperlink.ReplaceAllString(report.String(), ""), 110, "")} {
		file := filepath.Join(root, ".github/pictures", name)
		want := terminalSVG(text)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			rendertest.WriteFile(t, file, want)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s does not show what there is (%v); make pictures writes it", name, err)
		}
		if err := xml.Unmarshal([]byte(want), new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var (
	sgr       = regexp.MustCompile("\x1b\\[([0-9;]*)m")
	hyperlink = regexp.MustCompile("\x1b\\]8;;[^\x1b]*\x1b\\\\")
	colours   = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea", "90": "#8b949e"}
)

// terminalSVG draws text with ANSI colours as a terminal does: each line is a
// text of cells that are 8.4 units wide and 18 high.
func terminalSVG(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(sgr.ReplaceAllString(l, "")))
	}
	width, height := float64(columns)*8.4+32, len(lines)*18+32
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	p := pen{}
	for i, l := range lines {
		column := 0
		for len(l) > 0 {
			at := sgr.FindStringSubmatchIndex(l)
			part := l
			if at != nil {
				part = l[:at[0]]
			}
			drawCells(&b, part, column, i, p)
			column += utf8.RuneCountInString(part)
			if at == nil {
				break
			}
			p.apply(l[at[2]:at[3]])
			l = l[at[1]:]
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawCells draws a part of a line, where it is not blank.
func drawCells(b *strings.Builder, part string, column, line int, p pen) {
	if back := p.back(); back != "" && part != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="18" fill="%s"/>`+"\n", 16+float64(column)*8.4, 17+line*18, float64(utf8.RuneCountInString(part))*8.4, back)
	}
	trimmed := strings.TrimLeft(part, " ")
	column += len(part) - len(trimmed)
	trimmed = strings.TrimRight(trimmed, " ")
	if trimmed == "" {
		return
	}
	weight := ""
	if p.bold {
		weight = ` font-weight="bold"`
	}
	n := utf8.RuneCountInString(trimmed)
	fmt.Fprintf(b, `<text xml:space="preserve" x="%.1f" y="%d" textLength="%.1f" fill="%s"%s>`, 16+float64(column)*8.4, 30+line*18, float64(n)*8.4, p.fill(), weight)
	xml.EscapeText(b, []byte(trimmed))
	b.WriteString("</text>\n")
}

// A pen is how a terminal draws what follows.
type pen struct {
	fg, bg        string // "" for the terminal's own
	bold, reverse bool
}

func (p *pen) fill() string {
	if p.reverse {
		return cmp.Or(p.bg, "#0d1117")
	}
	return cmp.Or(p.fg, "#c9d1d9")
}

func (p *pen) back() string {
	if p.reverse {
		return cmp.Or(p.fg, "#c9d1d9")
	}
	return p.bg
}

// apply takes ANSI's numbers.
func (p *pen) apply(codes string) {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == "" || c == "0":
			*p = pen{}
		case c == "1":
			p.bold = true
		case c == "7":
			p.reverse = true
		case c == "39":
			p.fg = ""
		case c == "49":
			p.bg = ""
		case (c == "38" || c == "48") && i+2 < len(list):
			n, _ := strconv.Atoi(list[i+2])
			if c == "38" {
				p.fg = indexed(n)
			} else {
				p.bg = indexed(n)
			}
			i += 2
		case colours[c] != "":
			p.fg = colours[c]
		}
	}
}

// indexed is a colour of a terminal's 256 beyond the first sixteen.
func indexed(n int) string {
	if n >= 232 {
		grey := 8 + 10*(n-232)
		return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
	}
	level := func(x int) int {
		if x == 0 {
			return 0
		}
		return 55 + 40*x
	}
	n -= 16
	return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
}
