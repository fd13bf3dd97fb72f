package jmespath

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	maxRegex        = 8 << 10  // bytes of a regular expression
	maxInstructions = 20 << 10 // of the compiled program
	maxMatches      = 4 << 20  // indices of matches to replace
)

// A regex is a compiled regular expression with an estimate of its program's size.
type regex struct {
	source string
	*regexp.Regexp
	size int
}

// regex compiles an expression, or returns the one that the current call compiled
// last.
func (s *search) regex(source string) (*regex, error) {
	n := s.calling
	if r := n.regex.Load(); r != nil && r.source == source {
		return r, nil
	}
	tree, err := parseRegex(source)
	if err != nil {
		return nil, err
	}
	size := programSize(tree)
	if err := s.spend(4 * size); err != nil || size > maxInstructions {
		return nil, &LimitError{Message: "a regular expression is larger than a search may use"}
	}
	compiled, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	r := &regex{source, compiled, size}
	n.regex.Store(r)
	return r, nil
}

func parseRegex(source string) (*syntax.Regexp, error) {
	if len(source) > maxRegex {
		return nil, &LimitError{Message: "a regular expression is longer than a search may use"}
	}
	return syntax.Parse(source, syntax.Perl)
}

// programSize counts the instructions of a program, with repetitions expanded, up to
// about maxInstructions.
func programSize(r *syntax.Regexp) int {
	size := 1 + len(r.Rune)/2
	for _, sub := range r.Sub {
		size += programSize(sub)
	}
	if r.Op == syntax.OpRepeat {
		size *= max(r.Max, r.Min+1)
	}
	return min(size, maxInstructions+1)
}

// scan counts the steps of running a program over a text.
func (s *search) scan(r *regex, text string) error {
	return s.spend(1 + r.size*len(text)/8)
}

func regexMatch(s *search, a []val) (val, error) {
	r, err := s.regex(a[0].v.(string))
	if err != nil {
		return val{}, regexError("regex_match", err, false)
	}
	text, _ := asText(a[1].v)
	if err := s.scan(r, text); err != nil {
		return val{}, err
	}
	return val{v: r.MatchString(text)}, nil
}

// regexError returns Kyverno's error for an invalid regular expression.
func regexError(function string, err error, named bool) error {
	switch {
	case !isExpressionError(err) && isLimit(err):
		return err
	case named:
		return errorf(function, "%s", err)
	}
	return plain(function, err)
}

func isLimit(err error) bool {
	_, ok := err.(*LimitError)
	return ok
}

func regexReplace(s *search, a []val) (val, error) {
	return s.regexReplace("regex_replace_all", a, func(r *regex, to []byte, with, in string, match []int) []byte {
		return r.ExpandString(to, with, in, match)
	})
}

func regexReplaceLiteral(s *search, a []val) (val, error) {
	return s.regexReplace("regex_replace_all_literal", a, func(_ *regex, to []byte, with, _ string, _ []int) []byte {
		return append(to, with...)
	})
}

type expander func(r *regex, to []byte, with, in string, match []int) []byte

// regexReplace is Regexp.ReplaceAll with a limit on the length of the text.
func (s *search) regexReplace(function string, a []val, expand expander) (val, error) {
	r, err := s.regex(a[0].v.(string))
	if err != nil {
		return val{}, regexError(function, err, true)
	}
	in, _ := asText(a[1].v)
	with, _ := asText(a[2].v)
	if (len(in)+1)*2*(r.NumSubexp()+1) > maxMatches {
		return val{}, &LimitError{Message: "a text is longer than " + function + " may read"}
	}
	if err := s.scan(r, in); err != nil {
		return val{}, err
	}
	var out []byte
	last, references := 0, strings.Count(with, "$")
	for _, match := range r.FindAllStringSubmatchIndex(in, -1) {
		if err := s.grow(len(with) + references*(match[1]-match[0])); err != nil {
			return val{}, err
		}
		out = append(out, in[last:match[0]]...)
		out = expand(r, out, with, in, match)
		last = match[1]
	}
	return s.newText(string(append(out, in[last:]...)))
}
