package mutator

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// A location is the path of the fields that a mutator changes, such as
// spec.containers[name: *].image (gatekeeper/v3/pkg/mutation/path/parser).
type location []part

// A part of a location is a field of an object, or the elements of the list in
// that field.
type part struct {
	name string // of the field, or of the key of elements
	list bool
	glob bool // all elements
	key  any  // value of the element's key: a string or an int64
}

// maxParts bounds the parts of a location. Real objects are not that deep.
const maxParts = 500

// A locationError is a syntax error of a location.
type locationError struct {
	offset int // in the text
	text   string
}

func (l *locationError) Error() string { return l.text }

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

// Kinds of tokens. The characters . [ ] * and : are tokens of their own.
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
	name  string // text of a tokenName, or digits of a tokenNumber
}

func (l *locationScanner) fail(format string, args ...any) error {
	return &locationError{l.start, fmt.Sprintf(format, args...)}
}

func (l *locationScanner) expected(what string) error {
	found := "the end"
	if l.token != tokenEnd {
		found = strconv.Quote(l.text[l.start:l.pos])
	}
	return l.fail("has %s where %s should be", found, what)
}

// field parses a field, and the elements behind it if there are any.
func (l *locationScanner) field(loc *location) error {
	if l.token != tokenName {
		return l.expected("the name of a field")
	}
	*loc = append(*loc, part{name: l.name})
	if err := l.next(); err != nil || l.token != '[' {
		return err
	}
	if err := l.next(); err != nil {
		return err
	}
	p, err := l.elements()
	if err == nil {
		*loc = append(*loc, p)
		err = l.next()
	}
	return err
}

// elements parses the text between brackets, up to the closing one.
func (l *locationScanner) elements() (p part, err error) {
	if l.token != tokenName {
		return p, l.expected("the key of a list's elements")
	}
	p = part{name: l.name, list: true}
	if err := l.next(); err != nil {
		return p, err
	}
	if l.token != ':' {
		return p, l.expected("a colon")
	}
	if err := l.next(); err != nil {
		return p, err
	}
	switch l.token {
	case '*':
		p.glob = true
	case tokenName:
		p.key = l.name
	case tokenNumber:
		n, err := strconv.ParseInt(l.name, 10, 64)
		if err != nil {
			return p, l.fail("has the number %s, which is above %d", l.name, int64(math.MaxInt64))
		}
		p.key = n
	default:
		return p, l.expected("a value, or *,")
	}
	if err := l.next(); err != nil {
		return p, err
	}
	if l.token != ']' {
		return p, l.expected("a closing bracket")
	}
	return p, nil
}

// next reads a token.
func (l *locationScanner) next() error {
	l.pos += len(l.text[l.pos:]) - len(strings.TrimLeft(l.text[l.pos:], " \t\r\n"))
	l.start = l.pos
	if l.pos == len(l.text) {
		l.token = tokenEnd
		return nil
	}
	switch c := l.text[l.pos]; {
	case isDigit(c):
		l.token, l.name = tokenNumber, l.while(isDigit)
	case isWord(c):
		l.token, l.name = tokenName, l.while(isWord)
	case c == '"' || c == '\'':
		return l.quoted(rune(c))
	case strings.IndexByte(".[]*:", c) >= 0:
		l.token = rune(c)
		l.pos++
	default:
		_, size := utf8.DecodeRuneInString(l.text[l.pos:])
		l.pos += size
		return l.fail("has %q, which must be in quotes", l.text[l.start:l.pos])
	}
	return nil
}

func (l *locationScanner) while(is func(byte) bool) string {
	from := l.pos
	for l.pos < len(l.text) && is(l.text[l.pos]) {
		l.pos++
	}
	return l.text[from:l.pos]
}

// quoted reads a quoted name. A backslash escapes the next character.
func (l *locationScanner) quoted(quote rune) error {
	var b strings.Builder
	escaped := false
	for i, r := range l.text[l.start+1:] {
		switch {
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == quote:
			l.token, l.name, l.pos = tokenName, b.String(), l.start+1+i+1
			return nil
		default:
			b.WriteRune(r)
		}
	}
	return l.fail("has a quote that is not closed")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' || c == '-'
}

// String formats the location.
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

// quoteName quotes a name that would not be parsed as one.
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

// last returns the last part, or a zero part for an empty location.
func (l location) last() part {
	if len(l) == 0 {
		return part{}
	}
	return l[len(l)-1]
}

// A pathTest is an entry of pathTests: a part of the location must exist, or
// must not.
type pathTest struct {
	SubPath   string    `json:"subPath,omitempty"`
	Condition condition `json:"condition,omitempty"`
}

type condition string

const (
	mustExist    condition = "MustExist"
	mustNotExist condition = "MustNotExist"
)

// pathTests holds the conditions by the depth of their part in the location
// (gatekeeper/v3/pkg/mutation/path/tester).
type pathTests map[int]condition

// existing reports whether the part at a depth may exist.
func (p pathTests) existing(depth int) bool {
	c, tested := p[depth]
	return !tested || c == mustExist
}

// missing reports whether the part at a depth may be missing.
func (p pathTests) missing(depth int) bool {
	c, tested := p[depth]
	return !tested || c == mustNotExist
}

// newPathTests reads the tests of a location.
func (c *checker) newPathTests(l location, written []pathTest) pathTests {
	tests := pathTests{}
	firstNot, lastMust := len(written), 0
	for i, w := range written {
		pointer := "/spec/parameters" + render.Pointer("pathTests", i)
		sub, ok := c.location(pointer+"/subPath", w.SubPath)
		if !ok {
			continue
		}
		if len(sub) > len(l) || !slices.Equal(l[:len(sub)], sub) {
			c.add(pointer+"/subPath", fmt.Errorf("subPath %s is not how location %s begins", sub, l))
		}
		switch w.Condition {
		case mustNotExist:
			firstNot = min(firstNot, i)
		case mustExist:
			lastMust = i
		case "":
			c.warn(pointer, errors.New("has no condition, so nothing is ever changed"))
		default:
			c.add(pointer+"/condition", fmt.Errorf("condition %q is none of MustExist and MustNotExist", w.Condition))
		}
		if other, twice := tests[len(sub)-1]; twice && other != w.Condition {
			c.add(pointer+"/condition", fmt.Errorf("%s must exist and must not", sub))
		}
		tests[len(sub)-1] = w.Condition
	}
	if lastMust > firstNot { // Gatekeeper compares the indexes
		c.add("/spec/parameters"+render.Pointer("pathTests", lastMust), fmt.Errorf("%s must exist, but is listed after %s, which must not", written[lastMust].SubPath, written[firstNot].SubPath))
	}
	return tests
}
