package render

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Inside returns where character n of a string of the object is written; the
// span covers the word that begins there. text is the string at the pointer. n
// counts code points from 0, and may be one behind the last. ok is false if the
// provenance does not know the exact place.
func (o *Object) Inside(pointer, text string, n int) (s Span, ok bool) {
	if o == nil {
		return Span{}, false
	}
	p, ok := o.Provenance.(interface {
		Inside(pointer, text string, n int) (Span, bool)
	})
	if !ok {
		return Span{}, false
	}
	return p.Inside(pointer, text, n)
}

// Inside is [Object.Inside] for a document. It walks the value and its written
// form side by side, so it never returns the place of another character.
func (p *Positions) Inside(pointer, text string, n int) (s Span, ok bool) {
	f := p.find(pointer)
	node := p.tree.nodes[f.entry.node]
	if f.missing || node.kind != plainScalar && node.kind != styledScalar || n < 0 {
		return Span{}, false
	}
	from, to := p.src.token(node)
	w := &scalarWalk{data: p.src.data, at: from}
	if from < to {
		w.open(to)
	}
	if !w.pass(text, n) {
		return Span{}, false
	}
	return p.src.span(w.at, w.wordEnd()), true
}

// A scalarWalk walks the value of a scalar and its written form side by side.
// It skips blanks on both sides, since folding changes only blanks.
type scalarWalk struct {
	data  []byte
	at    int
	quote byte // ' or ", or 0 for an unquoted scalar
}

// open skips the opening quote, or the header of a block scalar, which ends at
// offset to.
func (s *scalarWalk) open(to int) {
	switch c := s.data[s.at]; c {
	case '"', '\'':
		s.quote = c
		s.at++
	case '|', '>':
		for s.at = to; s.at < len(s.data) && s.data[s.at] != '\n'; s.at++ {
		}
	}
}

// pass advances to character n of text.
func (s *scalarWalk) pass(text string, n int) bool {
	for _, want := range text {
		here := n == 0
		n--
		if want < utf8.RuneSelf && blank(byte(want)) {
			if here {
				return s.at < len(s.data) && s.data[s.at] == byte(want)
			}
			continue
		}
		s.skip()
		got, size := s.next()
		if got != want || size == 0 {
			return false
		}
		if here {
			return true
		}
		s.at += size
	}
	return n == 0
}

// skip advances over blanks and, in double quotes, over their escapes.
func (s *scalarWalk) skip() {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case blank(c):
			s.at++
		case c == '\\' && s.quote == '"' && s.at+1 < len(s.data) && strings.IndexByte("ntr \t\n\r", s.data[s.at+1]) >= 0:
			s.at += 2
		case c == '\\' && s.quote == '"':
			r, size := escaped(s.data[s.at:])
			if r >= utf8.RuneSelf || !blank(byte(r)) || size == 0 {
				return
			}
			s.at += size
		default:
			return
		}
	}
}

// next returns the next character of the written form, and its size there in
// bytes.
func (s *scalarWalk) next() (r rune, size int) {
	rest := s.data[s.at:]
	switch {
	case len(rest) == 0:
		return 0, 0
	case s.quote == '\'' && rest[0] == '\'':
		if len(rest) > 1 && rest[1] == '\'' {
			return '\'', 2
		}
		return 0, 0
	case s.quote == '"' && rest[0] == '"':
		return 0, 0
	case s.quote == '"' && rest[0] == '\\':
		return escaped(rest)
	}
	return utf8.DecodeRune(rest)
}

// escaped decodes an escape of double quotes that means one character other
// than a blank.
func escaped(rest []byte) (r rune, size int) {
	if len(rest) < 2 {
		return 0, 0
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]
	switch {
	case strings.IndexByte(`"\/`, rest[1]) >= 0:
		return rune(rest[1]), 2
	case digits == 0 || len(rest) < 2+digits:
		return 0, 0
	}
	code, err := strconv.ParseUint(string(rest[2:2+digits]), 16, 32)
	if err != nil {
		return 0, 0
	}
	return rune(code), 2 + digits
}

// wordEnd returns the end of the word that begins here, including a dot before
// it, or of the character if there is no word.
func (s *scalarWalk) wordEnd() int {
	_, size := s.next()
	to := s.at + size
	if to == s.at || s.data[s.at] != '.' && !wordByte(s.data[s.at]) {
		return to
	}
	for to < len(s.data) && wordByte(s.data[to]) {
		to++
	}
	return to
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// StringAt returns the pointer of the string that is written at a place of the object's file, and its part before
// the place. An empty value is an empty string. Several blanks at the end are read as one. ok is false if no string is
// there.
func (o *Object) StringAt(line, column int) (pointer, before string, ok bool) {
	p, ok := o.Provenance.(*Positions)
	if !ok {
		return "", "", false
	}
	var nearest [2]int
	p.Each(func(field string, l, c int) {
		if from := [2]int{l, c}; slices.Compare(from[:], nearest[:]) > 0 && (l < line || l == line && c <= column) {
			pointer, nearest = field, from
		}
	})
	v, _ := Lookup(o.Object, pointer)
	text, is := v.(string)
	if nearest[0] == 0 || v != nil && !is {
		return "", "", false
	}
	at, start := p.src.offset(line-1, column), p.src.offset(nearest[0]-1, nearest[1])
	w := &scalarWalk{data: p.src.data, at: start}
	if from, to := p.src.token(p.tree.nodes[p.find(pointer).entry.node]); from < to {
		w.at = from
		w.open(to)
	}
	before, ok = w.before(text, at)
	return pointer, before, ok
}

// before returns the part of text that is written before an offset.
func (s *scalarWalk) before(text string, at int) (string, bool) {
	block := s.quote == 0 && s.at < len(s.data) && s.data[s.at] == '\n'
	var b strings.Builder
	end := s.at
	for _, want := range text {
		if want < utf8.RuneSelf && blank(byte(want)) {
			b.WriteRune(want)
			continue
		}
		s.skip()
		got, size := s.next()
		if got != want || size == 0 {
			return "", false
		}
		if s.at+size > at {
			break
		}
		s.at += size
		end = s.at
		b.WriteRune(want)
	}
	if at < end || s.at < at && (len(bytes.TrimSpace(s.data[end:at])) > 0 || !block && bytes.ContainsRune(s.data[end:at], '\n')) {
		return "", false
	}
	text = strings.TrimRight(b.String(), " \t\r\n")
	if at > end && text != "" {
		text += " "
	}
	return text, true
}
