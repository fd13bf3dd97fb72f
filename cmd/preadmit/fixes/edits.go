package fixes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/objects"
)

// repair returns the change as a report shows it; nil if it has no texts.
func (c *Change) repair() *policy.Repair {
	if len(c.Texts) == 0 {
		return nil
	}
	r := &policy.Repair{Text: c.Title(), Unsafe: !c.Safe()}
	for _, file := range slices.Sorted(maps.Keys(c.Texts)) {
		r.Edits = append(r.Edits, replacements(file, string(c.before[file]), c.Texts[file])...)
	}
	return r
}

// replacements returns the places of a file's text that differ after a change, in order, with their
// new text. Where a change keeps the number of lines, each line has its own replacement, no larger than the
// changed words, so that nothing secret beside them is repeated.
func replacements(file, before, after string) (all []policy.Replacement) {
	at, was, now := 0, "", ""
	flush := func() {
		olds, news := slices.Collect(strings.Lines(was)), slices.Collect(strings.Lines(now))
		if len(olds) != len(news) {
			olds, news = []string{was}, []string{now}
		}
		for i, old := range olds {
			if old != news[i] {
				from, to, text := narrowed(before, at, at+len(old), news[i])
				all = append(all, policy.Replacement{Span: spanOf(file, before, from, to), Text: text})
			}
			at += len(old)
		}
		was, now = "", ""
	}
	last := &was
	diff := objects.UnifiedDiff("", []byte(before), "", []byte(after))
	for line := range strings.Lines(diff[max(0, strings.Index(diff, "@@")):]) {
		switch kind, text := line[0], line[1:]; kind {
		case '@':
			flush()
			var first int
			fmt.Sscanf(line, "@@ -%d", &first)
			at = offsetOf(before, first)
		case '-':
			was, last = was+text, &was
		case '+':
			now, last = now+text, &now
		case '\\': // the text has no newline at its end
			*last = strings.TrimSuffix(*last, "\n")
		default:
			flush()
			at += len(text)
			last = new(string)
		}
	}
	flush()
	return all
}

// offsetOf returns the offset of a line, which counts from 1.
func offsetOf(text string, line int) (at int) {
	for ; line > 1; line-- {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	return at
}

// narrowed returns the part of a replacement of text[from:to] that differs, from and to the ends of
// words. It does not end after the last newline of the text, where no line begins.
func narrowed(text string, from, to int, now string) (int, int, string) {
	was := text[from:to]
	n := 0
	for n < min(len(was), len(now)) && was[n] == now[n] {
		n++
	}
	for n > 0 && (inWord(was[:n], was[n:]) || inWord(now[:n], now[n:])) {
		n--
	}
	from, was, now = from+n, was[n:], now[n:]
	n = 0
	for n < min(len(was), len(now)) && was[len(was)-1-n] == now[len(now)-1-n] {
		n++
	}
	for n > 0 && (inWord(was[:len(was)-n], was[len(was)-n:]) || inWord(now[:len(now)-n], now[len(now)-n:])) {
		n--
	}
	to, now = to-n, now[:len(now)-n]
	newline := "\n"
	if strings.HasSuffix(text, "\r\n") {
		newline = "\r\n"
	}
	if to == len(text) && strings.HasSuffix(text[:from], newline) && strings.HasSuffix(text+now, newline) && (now == "" || from == to) {
		from, to = from-len(newline), to-len(newline)
		if now != "" {
			now = newline + strings.TrimSuffix(now, newline)
		}
	}
	return from, to, now
}

// inWord reports whether a word, a line end or a code point goes on from one text to the next.
func inWord(before, after string) bool {
	a, _ := utf8.DecodeLastRuneInString(before)
	b, _ := utf8.DecodeRuneInString(after)
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == utf8.RuneError }
	return before != "" && after != "" && (word(a) && word(b) || a == '\r' && b == '\n')
}

// spanOf returns the place of a part of a text.
func spanOf(file, text string, from, to int) render.Span {
	at := func(offset int) (line, column int) {
		begin := strings.LastIndexByte(text[:offset], '\n') + 1
		return 1 + strings.Count(text[:begin], "\n"), 1 + utf8.RuneCountInString(text[begin:offset])
	}
	s := render.Span{File: file}
	s.Line, s.Column = at(from)
	s.EndLine, s.EndColumn = at(to)
	return s
}
