package gatekeeper

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A location is the place in objects that a mutator is about, such as
// spec.containers[name: *].image (gatekeeper/v3/pkg/mutation/path/parser).
type location []part

// A part of a location is a field of an object or, behind that field, the
// elements of its list.
type part struct {
	name string // of the field, or of the field by which elements are known
	list bool
	glob bool // all elements
	key  any  // else what the element's field must be: a string or an int64
}

// maxParts is how many parts a location may have. Real objects are not that deep.
const maxParts = 500

// A locationError is why a location can't be read.
type locationError struct {
	offset int // in the text
	text   string
}

func (e *locationError) Error() string { return e.text }

// parseLocation reads a location. An empty one has no parts. The error is a
// *locationError.
func parseLocation(text string) (location, error) {
	s := &locationScanner{text: text}
	if err := s.next(); err != nil || s.token == tokenEnd {
		return nil, err
	}
	var l location
	for {
		if err := s.field(&l); err != nil {
			return nil, err
		}
		switch {
		case len(l) > maxParts:
			return nil, s.fail("has more than %d parts", maxParts)
		case s.token == tokenEnd:
			return l, nil
		case s.token != '.':
			return nil, s.expected("a dot, or the end")
		}
		if err := s.next(); err != nil {
			return nil, err
		}
		if s.token == tokenEnd {
			return nil, s.fail("ends with a dot")
		}
	}
}

// The tokens besides the signs . [ ] * and :, which stand for themselves.
const (
	tokenEnd rune = -iota - 1
	tokenName
	tokenNumber
)

type locationScanner struct {
	text  string
	pos   int // behind the token
	start int // of the token
	token rune
	name  string // what a tokenName says, or the digits of a tokenNumber
}

func (s *locationScanner) fail(format string, args ...any) error {
	return &locationError{s.start, fmt.Sprintf(format, args...)}
}

func (s *locationScanner) expected(what string) error {
	found := "the end"
	if s.token != tokenEnd {
		found = strconv.Quote(s.text[s.start:s.pos])
	}
	return s.fail("has %s where %s should be", found, what)
}

// field reads a field, and the elements behind it if there are any.
func (s *locationScanner) field(l *location) error {
	if s.token != tokenName {
		return s.expected("the name of a field")
	}
	*l = append(*l, part{name: s.name})
	if err := s.next(); err != nil || s.token != '[' {
		return err
	}
	if err := s.next(); err != nil {
		return err
	}
	p, err := s.elements()
	if err == nil {
		*l = append(*l, p)
		err = s.next()
	}
	return err
}

// elements reads what is between brackets, and stops at the closing one.
func (s *locationScanner) elements() (p part, err error) {
	if s.token != tokenName {
		return p, s.expected("the key of a list's elements")
	}
	p = part{name: s.name, list: true}
	if err := s.next(); err != nil {
		return p, err
	}
	if s.token != ':' {
		return p, s.expected("a colon")
	}
	if err := s.next(); err != nil {
		return p, err
	}
	switch s.token {
	case '*':
		p.glob = true
	case tokenName:
		p.key = s.name
	case tokenNumber:
		n, err := strconv.ParseInt(s.name, 10, 64)
		if err != nil {
			return p, s.fail("has the number %s, which is above %d", s.name, int64(math.MaxInt64))
		}
		p.key = n
	default:
		return p, s.expected("a value, or *,")
	}
	if err := s.next(); err != nil {
		return p, err
	}
	if s.token != ']' {
		return p, s.expected("a closing bracket")
	}
	return p, nil
}

// next reads a token.
func (s *locationScanner) next() error {
	s.pos += len(s.text[s.pos:]) - len(strings.TrimLeft(s.text[s.pos:], " \t\r\n"))
	s.start = s.pos
	if s.pos == len(s.text) {
		s.token = tokenEnd
		return nil
	}
	switch c := s.text[s.pos]; {
	case isDigit(c):
		s.token, s.name = tokenNumber, s.while(isDigit)
	case isWord(c):
		s.token, s.name = tokenName, s.while(isWord)
	case c == '"' || c == '\'':
		return s.quoted(rune(c))
	case strings.IndexByte(".[]*:", c) >= 0:
		s.token = rune(c)
		s.pos++
	default:
		_, size := utf8.DecodeRuneInString(s.text[s.pos:])
		s.pos += size
		return s.fail("has %q, which must be in quotes", s.text[s.start:s.pos])
	}
	return nil
}

func (s *locationScanner) while(is func(byte) bool) string {
	from := s.pos
	for s.pos < len(s.text) && is(s.text[s.pos]) {
		s.pos++
	}
	return s.text[from:s.pos]
}

// quoted reads a name in quotes, in which a backslash stands before what is
// meant literally.
func (s *locationScanner) quoted(quote rune) error {
	var b strings.Builder
	escaped := false
	for i, r := range s.text[s.start+1:] {
		switch {
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == quote:
			s.token, s.name, s.pos = tokenName, b.String(), s.start+1+i+1
			return nil
		default:
			b.WriteRune(r)
		}
	}
	return s.fail("has a quote that is not closed")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' || c == '-'
}

// String is the location as it could be written.
func (l location) String() string {
	var b strings.Builder
	for i, p := range l {
		if i > 0 && !p.list {
			b.WriteByte('.')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

func (p part) String() string {
	switch key := p.key.(type) {
	case string:
		return "[" + quoteName(p.name) + ": " + quoteName(key) + "]"
	case int64:
		return fmt.Sprintf("[%s: %d]", quoteName(p.name), key)
	}
	if p.glob {
		return "[" + quoteName(p.name) + ": *]"
	}
	return quoteName(p.name)
}

// quoteName puts a name in quotes where it would not be read as one.
func quoteName(s string) string {
	plain := s != "" && !isDigit(s[0])
	for i := 0; i < len(s) && plain; i++ {
		plain = isWord(s[i])
	}
	if plain {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// under says whether a location begins with another one.
func (l location) under(prefix location) bool {
	return len(prefix) <= len(l) && slices.Equal(l[:len(prefix)], prefix)
}

// last is the last part; that of an empty location is none.
func (l location) last() part {
	if len(l) == 0 {
		return part{}
	}
	return l[len(l)-1]
}
