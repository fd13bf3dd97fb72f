package report

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// A report shows text from other people's manifests: an object's name or a
// policy's message may contain terminal escapes, line breaks, characters that
// change the reading direction, or commands for a CI runner. Every format
// passes such text through this file.

const (
	maxMessage = 5 << 10 // bytes of a message, as the API server has it for messageExpression
	maxName    = 253     // bytes of a name, as Kubernetes has it
	maxMarks   = 8       // combining marks on one character
)

// prose makes a message safe to show on one line: line breaks and the blanks
// around them become a space, and it is cut at 5 KiB.
func prose(s string) string {
	if strings.ContainsAny(s, "\n\r\u0085\u2028\u2029") {
		s = strings.Join(strings.FieldsFunc(s, isBreak), "\n")
		var lines []string
		for line := range strings.SplitSeq(s, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		s = strings.Join(lines, " ")
	}
	return visible(strings.ReplaceAll(strings.TrimSpace(s), "\t", " "), maxMessage)
}

// name makes an identifier safe to show. Line breaks become visible.
func name(s string) string { return visible(s, maxName) }

func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// visible replaces invisible characters by \u{…}: controls, format characters,
// blanks other than the space, and marks piled on one character. It cuts text
// longer than limit bytes, and breaks up "##[", which GitHub's runner reads as
// a command anywhere in a line.
func visible(s string, limit int) string {
	if plain(s[:min(len(s), limit)]) {
		if len(s) <= limit {
			return s
		}
		return s[:limit] + "…"
	}
	var b strings.Builder
	marks := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		part := glyph(s[i:i+n], marks)
		b.WriteString(part)
		if i += n; b.Len() >= limit && i < len(s) {
			b.WriteString("…")
			break
		}
	}
	return strings.ReplaceAll(b.String(), "##[", `#\u{23}[`)
}

// glyph shows one character, which is the given number of marks after its base.
func glyph(s string, marks int) string {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && n == 1:
		return fmt.Sprintf(`\x{%x}`, s[0])
	case unseen(r) || marks > maxMarks:
		return fmt.Sprintf(`\u{%x}`, r)
	default:
		return s
	}
}

// plain reports whether s is printable ASCII without a runner's command.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.Contains(s, "##[")
}

// unseen reports whether a character is invisible or a control.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || unicode.Is(ignorable, r)
}

// ignorable holds letters and marks that Unicode tells to draw as nothing
// (Default_Ignorable_Code_Point), except the variation selectors of emoji.
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034F, Hi: 0x034F, Stride: 1},
		{Lo: 0x115F, Hi: 0x1160, Stride: 1},
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1},
		{Lo: 0x180B, Hi: 0x180F, Stride: 1},
		{Lo: 0x3164, Hi: 0x3164, Stride: 1},
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0xE0100, Hi: 0xE01EF, Stride: 1}},
}

// cells returns the number of terminal columns of a visible character.
func cells(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// guard keeps a line of text output from being a command to GitHub's runner:
// one that begins with "::" after blanks, or contains "##[". The parts of a
// line are safe alone, but not always together.
func guard(line string) string {
	if strings.Contains(line, "##[") {
		line = strings.ReplaceAll(line, "##[", `#\u{23}[`)
	}
	text := strings.TrimLeftFunc(line, unicode.IsSpace)
	if strings.HasPrefix(text, "::") {
		line = line[:len(line)-len(text)] + `\u{3a}` + text[1:]
	}
	return line
}

// jsonSafe escapes, in encoded JSON, the characters that encoding/json leaves
// as they are and that a terminal or a runner would act on. What the JSON
// means stays the same.
func jsonSafe(b []byte) []byte {
	var out []byte // nil until something has to change
	last := 0
	for i := 0; i < len(b); {
		r, n := rune(b[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(b[i:])
		}
		hash := r == '#' && i > 0 && b[i-1] == '#' && i+1 < len(b) && b[i+1] == '['
		if hash || r >= 0x7f && unseen(r) || r == utf8.RuneError {
			out = append(out, b[last:i]...)
			out = appendEscaped(out, r)
			last = i + n
		}
		i += n
	}
	if out == nil {
		return b
	}
	return append(out, b[last:]...)
}

func appendEscaped(b []byte, r rune) []byte {
	if r > 0xFFFF {
		r -= 0x10000
		return fmt.Appendf(b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// Plain makes text of unknown origin fit for one line of a terminal or log.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func proses(texts []string) []string {
	var all []string
	for _, t := range texts {
		all = append(all, prose(t))
	}
	return all
}

// Escaping for the formats that write Markdown.

// escapeMarkdown escapes one line of visible text for GitHub's Markdown: it
// becomes no markup, HTML, link, or mention of a person or an issue.
func escapeMarkdown(s string) string {
	s = markup.ReplaceAllString(s, `\$0`)
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	return mention.ReplaceAllString(s, "$0&#8203;")
}

var (
	markup  = regexp.MustCompile("[\\\\`*_{}\\[\\]()#+.!|~-]")
	mention = regexp.MustCompile(`@|\\?#|://|www`)
)

// plainText does what escapeMarkdown does, and also escapes formulas.
func plainText(s string) string {
	return strings.ReplaceAll(escapeMarkdown(s), "$", "<span>$</span>")
}

// MermaidText escapes text for a label between double quotes in Mermaid. In a
// label, all other signs may be Markdown, HTML, formulas or directives.
func MermaidText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > unicode.MaxASCII || unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" ,-./:()", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// code formats visible text as code. It returns "" for "", because empty
// backticks would begin a span.
func code(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(none)"
	}
	return codeSpan(s)
}

// codeSpan shows s as code, in as many backticks as it needs.
func codeSpan(s string) string {
	ticks := strings.Repeat("`", longestRun(s, '`')+1)
	if len(ticks) == 1 {
		return ticks + s + ticks
	}
	return ticks + " " + s + " " + ticks
}

// fenced shows s as a block of code.
func fenced(s string) string {
	fence := strings.Repeat("`", max(3, longestRun(s, '`')+1))
	return fence + "\n" + s + "\n" + fence
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if run++; s[i] != c {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// markdown removes from somebody's Markdown everything that GitHub would act on
// or hide: HTML, images, mentions, and links to anything but the web. Code
// stays unchanged.
func markdown(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '`')
		if i < 0 {
			break
		}
		ticks := s[i : i+len(s[i:])-len(strings.TrimLeft(s[i:], "`"))]
		end := strings.Index(s[i+len(ticks):], ticks)
		if end < 0 {
			break
		}
		end += i + 2*len(ticks)
		b.WriteString(disarm(s[:i]))
		b.WriteString(s[i:end])
		s = s[end:]
	}
	b.WriteString(disarm(s))
	return b.String()
}

var (
	linkTarget = regexp.MustCompile(`\]\(\s*[^)\s]*`)
	webTarget  = regexp.MustCompile(`^\]\(https?://`)
)

func disarm(s string) string {
	s = strings.NewReplacer("<", "&lt;", "![", `!\[`, "@", "@&#8203;").Replace(s)
	return linkTarget.ReplaceAllStringFunc(s, func(t string) string {
		if webTarget.MatchString(t) {
			return t
		}
		return `]\(` + t[2:]
	})
}
