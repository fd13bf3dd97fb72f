package report

import (
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// An excerpt is the shown part of a source line, and the range of cells that is
// marked; without a mark both ends are 0.
type excerpt struct {
	text     string
	from, to int
}

// A cut is the part of a line around its mark, with the cell at which each
// character begins. The rest of the line is only counted, because minified JSON
// has lines of megabytes.
type cut struct {
	glyphs      []string
	cell        []int // one more than glyphs
	left, right bool  // text was cut on that side
	from, to    int   // the marked glyphs
}

const tabCells = 4

// newExcerpt returns the part of a line around the span, in at most width
// cells. A span over several lines is marked up to the end of this one, and a
// span at the end of the line after its last character. A column beyond the
// line is not marked.
func newExcerpt(text string, sp render.Span, width int) excerpt {
	width = max(width, 20)
	c := newCut(text, sp, width)
	start, end := 0, len(c.glyphs)
	if c.left || c.right || c.cell[end] > width {
		start, end = c.window(width - 2)
	}
	var b strings.Builder
	shift := -c.cell[start]
	if start > 0 || c.left {
		b.WriteString("…")
		shift++
	}
	for _, g := range c.glyphs[start:end] {
		b.WriteString(g)
	}
	if end < len(c.glyphs) || c.right {
		b.WriteString("…")
	}
	if c.from == c.to {
		return excerpt{text: b.String()}
	}
	from, to := c.cell[c.from]+shift, c.cell[min(c.to, end)]+shift
	if from == to { // a lone combining mark: mark its base character
		from = max(0, to-1)
	}
	return excerpt{text: b.String(), from: from, to: max(from+1, to)}
}

// window returns the range of glyphs to show if not all fit: from the start if
// that includes the mark, else with a third of the width before the mark.
func (c *cut) window(width int) (start, end int) {
	if c.left || c.cell[c.to] > width {
		for c.cell[c.from]-c.cell[start] > width/3 {
			start++
		}
	}
	end = start
	for end < len(c.glyphs) && c.cell[end+1]-c.cell[start] <= width {
		end++
	}
	return start, end
}

func newCut(text string, sp render.Span, width int) cut {
	whole := utf8.RuneCountInString(text)
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	from, to := marked(text, sp, whole)
	lo, hi := max(0, from-width), from+2*width
	c := cut{cell: []int{0}, left: lo > 0}
	i, marks := 0, 0 // i counts code points
	for rest := text; rest != ""; i++ {
		r, n := utf8.DecodeRuneInString(rest)
		if i >= hi {
			c.right = true
			break
		}
		if i >= lo {
			if marks++; !unicode.Is(unicode.M, r) {
				marks = 0
			}
			c.add(rest[:n], r, marks)
		}
		rest = rest[n:]
	}
	if n := i; from == n && to > n { // behind the line
		c.add(" ", ' ', 0)
	}
	c.from, c.to = from-lo, min(to-lo, len(c.glyphs))
	return c
}

func (c *cut) add(s string, r rune, marks int) {
	g, w := glyph(s, marks), cells(r)
	switch {
	case r == '\t':
		g, w = strings.Repeat(" ", tabCells), tabCells
	case g != s:
		w = len(g)
	}
	c.glyphs = append(c.glyphs, g)
	c.cell = append(c.cell, c.cell[len(c.cell)-1]+w)
}

// marked returns the range of code points, from 0, that a span marks in a line;
// without columns everything after the indentation. whole is the line's length
// including blanks at its end.
func marked(text string, sp render.Span, whole int) (from, to int) {
	n := utf8.RuneCountInString(text)
	if sp.Column == 0 {
		return n - utf8.RuneCountInString(strings.TrimLeftFunc(text, unicode.IsSpace)), n
	}
	from, to = sp.Column-1, n
	switch {
	case from < 0 || from > whole || n == 0:
		return 0, 0
	case from >= n:
		return n, n + 1
	}
	if (sp.EndLine == 0 || sp.EndLine == sp.Line) && sp.EndColumn > sp.Column {
		to = min(n, sp.EndColumn-1)
	}
	return from, to
}

// links makes the web addresses that places lead to. The zero value makes none.
type links struct {
	head   string // address of the tree's files, see Options.Links
	others string // with a commit behind it, address of that commit's files; "" if it can't be made
	base   string // commit that the tree was compared with
}

// newLinks returns the addresses for a report's places. Files of another commit
// are where the tree's are, with the commit exchanged.
func newLinks(o Options, r *Report) links {
	l := links{head: strings.TrimSuffix(o.Links, "/")}
	if r.Base != nil {
		l.base = r.Base.Commit
	}
	if dir, commit := path.Split(l.head); fullCommit.MatchString(commit) {
		l.others = dir
	}
	return l
}

var (
	fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	ofCommit   = regexp.MustCompile(`^[0-9a-f]{12}:`) // begins the name of a file of another commit
)

// to returns the address of a place, or "" if it has none.
func (l links) to(s render.Span) string {
	commit, file, _ := strings.Cut(s.File, ":")
	if !ofCommit.MatchString(s.File) {
		return linkTo(l.head, s)
	}
	s.File = file
	return l.at(commit, s)
}

// at returns the address of a place at another commit, or "" if it has none.
func (l links) at(commit string, s render.Span) string {
	if strings.HasPrefix(l.base, commit) {
		commit = l.base
	}
	if l.others == "" || commit == "" {
		return ""
	}
	return linkTo(l.others+commit, s)
}

// of returns the address of the place where a change is written; for a deletion, at the base.
func (l links) of(c *Change) string {
	switch {
	case c.Origin == nil:
		return ""
	case c.Operation == policy.Delete:
		return l.at(l.base, *c.Origin)
	default:
		return l.to(*c.Origin)
	}
}

// linkTo returns the address of a line, in the form of GitHub and GitLab. Files outside of the
// repository, standard input and flags have none.
func linkTo(prefix string, s render.Span) string {
	if prefix == "" || strings.HasPrefix(s.File, "-") || !fs.ValidPath(s.File) {
		return ""
	}
	u := url.URL{Path: "/" + s.File}
	link := prefix + strings.NewReplacer("(", "%28", ")", "%29").Replace(u.EscapedPath())
	if s.Line > 0 {
		link += "#L" + strconv.Itoa(s.Line)
	}
	return link
}

// placeLink formats a place as code, with a link if there is one.
func placeLink(s render.Span, link string) string {
	shown := code(visible(inFetched(s.String()), maxMessage))
	if link == "" {
		return shown
	}
	return "[" + shown + "](" + link + ")"
}

// uri returns the relative URI of a file of the tree. It returns "" for an invalid path: absolute,
// empty, or with "." or ".." in it. Bytes that RFC 3986 does not allow in a path segment are
// percent-encoded, and so is the colon, which the first segment of a relative reference can't
// contain.
func uri(p string) string {
	if p == "." || !validTreePath(p) {
		return ""
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(p) {
		if c := p[i]; c == '/' || pchar(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// validTreePath is fs.ValidPath for names that need not be UTF-8, as Git has them.
func validTreePath(p string) bool {
	return fs.ValidPath(strings.ToValidUTF8(p, "_")) && !strings.Contains(p, "\x00")
}

// pchar reports whether a path segment may contain a character other than the colon (RFC 3986,
// 3.3).
func pchar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=@", c) >= 0
}
