package download

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// A progress shows running downloads on a terminal: a line with a bar for each, and below them the
// number of finished ones.
type progress struct {
	w     io.Writer // nil without a terminal
	width func() int
	plain func(string) string // escapes a name for one line of output

	mu         sync.Mutex
	total, got int
	bytes      int64
	active     []*download
	lines      int // on the terminal now
	drawn      time.Time
}

// A download is a running download.
type download struct {
	name    string
	got, of int64 // bytes; of is 0 if unknown
}

func newProgress(w io.Writer, quiet bool, plain func(string) string) *progress {
	p := &progress{plain: plain}
	f, ok := w.(*os.File)
	if quiet || os.Getenv("TERM") == "dumb" || !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	p.w = w
	p.width = func() int {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
		return 80
	}
	return p
}

// expect adds n to the number of Remotes to fetch.
func (p *progress) expect(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += n
}

// begin adds a bar for a download. The caller must call add with the size of each
// part and of the whole, and done at the end.
func (p *progress) begin(name string) (add func(n int, of int64), done func()) {
	d := &download{name: name}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = append(p.active, d)
	add = func(n int, of int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.of != max(of, 0) { // the next file of this download
			d.got, d.of = 0, max(of, 0)
		}
		d.got, p.bytes = d.got+int64(n), p.bytes+int64(n)
		p.draw(false)
	}
	return add, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.active = slices.DeleteFunc(p.active, func(x *download) bool { return x == d })
		p.got++
		p.draw(true)
	}
}

func (p *progress) draw(now bool) {
	if p.w == nil || !now && time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	lines := make([]string, 0, len(p.active)+1)
	for _, d := range p.active {
		text := size(d.got)
		if d.of > 0 {
			text += " of " + size(d.of)
		}
		lines = append(lines, fmt.Sprintf("%s %-22s %s", bar(d.got, d.of), text, p.plain(d.name)))
	}
	lines = append(lines, fmt.Sprintf("%s %s, %d of %d", bar(int64(p.got), int64(p.total)), size(p.bytes), p.got, p.total))
	var b strings.Builder
	b.WriteString(p.up())
	width := p.width() - 1 // a full line might wrap
	for _, line := range lines {
		text := []rune(line)
		b.WriteString(string(text[:min(len(text), width)]) + "\n")
	}
	p.lines = len(lines)
	_, _ = io.WriteString(p.w, b.String())
}

// bar draws part of whole. It is empty if whole is 0, which means unknown.
func bar(part, whole int64) string {
	const cells = 20
	full := 0
	if whole > 0 {
		full = int(min(part, whole) * cells / whole)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "]"
}

// up moves to the first drawn line and erases all of them.
func (p *progress) up() string {
	if p.lines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", p.lines)
}

// clear removes the lines.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		_, _ = io.WriteString(p.w, p.up())
	}
	p.lines = 0
}
