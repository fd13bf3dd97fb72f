package jmespath

import (
	"path"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/preadmit/preadmit/policy/internal/image"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// newText counts a text that a function made and that can't be much longer than its
// arguments.
func (s *search) newText(made string) (val, error) {
	return val{v: made}, s.grow(len(made))
}

// compare returns an int64, which comparisons don't accept as a number.
func compare(_ *search, a []val) (val, error) {
	return val{v: int64(strings.Compare(a[0].v.(string), a[1].v.(string)))}, nil
}

func equalFold(_ *search, a []val) (val, error) {
	return val{v: strings.EqualFold(a[0].v.(string), a[1].v.(string))}, nil
}

func replace(s *search, a []val) (val, error) {
	return s.replace(a, int(max(min(a[3].v.(float64), 1<<31), -1)))
}

func replaceAll(s *search, a []val) (val, error) { return s.replace(a, -1) }

func (s *search) replace(a []val, most int) (val, error) {
	in, old, with := a[0].v.(string), a[1].v.(string), a[2].v.(string)
	count := strings.Count(in, old)
	if most >= 0 {
		count = min(count, most)
	}
	if err := s.grow(len(in) + count*len(with)); err != nil {
		return val{}, err
	}
	return val{v: strings.Replace(in, old, with, count)}, nil
}

func toUpper(s *search, a []val) (val, error) { return s.newText(strings.ToUpper(a[0].v.(string))) }
func toLower(s *search, a []val) (val, error) { return s.newText(strings.ToLower(a[0].v.(string))) }

func trim(s *search, a []val) (val, error) {
	in, cutset := a[0].v.(string), a[1].v.(string)
	if err := s.spend(len(in) / 64 * (1 + len(cutset)/8)); err != nil {
		return val{}, err
	}
	return val{v: strings.Trim(in, cutset)}, nil
}

func trimPrefix(_ *search, a []val) (val, error) {
	return val{v: strings.TrimPrefix(a[0].v.(string), a[1].v.(string))}, nil
}

func split(s *search, a []val) (val, error) {
	in, separator := a[0].v.(string), a[1].v.(string)
	if err := s.spend(4 * (1 + strings.Count(in, separator))); err != nil {
		return val{}, err
	}
	words := strings.Split(in, separator)
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return val{v: out}, nil
}

// truncate keeps the first runes.
func truncate(s *search, a []val) (val, error) {
	in, left := a[0].v.(string), int(max(min(a[1].v.(float64), 1<<31), 0))
	for i := range in {
		if left--; left < 0 {
			return val{v: in[:i]}, nil
		}
	}
	return val{v: in}, s.spend(len(in) / 64)
}

func canonicalPath(s *search, a []val) (val, error) { return s.newText(path.Join(a[0].v.(string))) }

func toBoolean(s *search, a []val) (val, error) {
	switch strings.ToLower(a[0].v.(string)) {
	case "true":
		return val{v: true}, nil
	case "false":
		return val{v: false}, nil
	}
	return val{}, errorf("to_boolean", "lowercase argument must be 'true' or 'false' (provided: '%s')", s.calling.show(s, 0, a[0].v))
}

// asText returns a text, or a number with the 32 bits of precision that Kyverno gives
// it.
func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 32), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func patternMatch(s *search, a []val) (val, error) {
	glob := a[0].v.(string)
	text, _ := asText(a[1].v)
	if err := s.spend(1 + len(glob)*len(text)/64); err != nil {
		return val{}, err
	}
	return val{v: pattern.Wildcard(glob, text)}, nil
}

// labelMatch reports whether the second map contains the first.
func labelMatch(s *search, a []val) (val, error) {
	labels := a[1].v.(map[string]any)
	for key, want := range a[0].v.(map[string]any) {
		have, found := labels[key]
		same, err := s.equal(want, have)
		if err != nil {
			return val{}, err
		}
		if !found || !same {
			return val{v: false}, nil
		}
	}
	return val{v: true}, nil
}

// semverCompare reads an invalid version as 0.0.0, as Kyverno does.
func semverCompare(s *search, a []val) (val, error) {
	if err := s.grow(len(a[0].v.(string)) + 16*len(a[1].v.(string))); err != nil {
		return val{}, err
	}
	version, _ := semver.Parse(a[0].v.(string))
	within, err := semver.ParseRange(a[1].v.(string))
	if err != nil {
		return val{}, plain("semver_compare", err)
	}
	return val{v: within(version)}, nil
}

func imageNormalize(s *search, a []val) (val, error) {
	r, err := image.Parse(a[0].v.(string))
	if err != nil {
		return val{}, errorf("image_normalize", "%s", err)
	}
	return s.newText(r.String())
}

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
