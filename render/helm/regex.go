package helm

import (
	"regexp"
	"text/template"
)

// A pattern is a regular expression, compiled once for a release.
type pattern struct {
	re  *regexp.Regexp
	err error
}

const maxPatterns = 1000

func (r *run) compile(expr string) (*regexp.Regexp, error) {
	if p, ok := r.regex[expr]; ok {
		return p.re, p.err
	}
	if len(r.regex) >= maxPatterns {
		clear(r.regex)
	}
	re, err := regexp.Compile(expr)
	r.regex[expr] = &pattern{re, err}
	return re, err
}

// regexFunctions are sprig's, with compiled expressions cached, and with limits
// on results. Those without "must" return an error where sprig panics, except
// for regexMatch, which returns false.
func (r *run) regexFunctions() template.FuncMap {
	return template.FuncMap{
		"regexMatch": func(expr, s string) bool {
			re, err := r.compile(expr)
			return err == nil && re.MatchString(s)
		},
		"mustRegexMatch": func(expr, s string) (bool, error) {
			re, err := r.compile(expr)
			return err == nil && re.MatchString(s), err
		},
		"regexFind":                  r.regexFind,
		"mustRegexFind":              r.regexFind,
		"regexFindAll":               r.regexFindAll,
		"mustRegexFindAll":           r.regexFindAll,
		"regexReplaceAll":            r.regexReplaceAll,
		"mustRegexReplaceAll":        r.regexReplaceAll,
		"regexReplaceAllLiteral":     r.regexReplaceAllLiteral,
		"mustRegexReplaceAllLiteral": r.regexReplaceAllLiteral,
		"regexSplit":                 r.regexSplit,
		"mustRegexSplit":             r.regexSplit,
		"regexQuoteMeta":             r.grown(regexp.QuoteMeta),
	}
}

func (r *run) regexFind(expr, s string) (string, error) {
	re, err := r.compile(expr)
	if err != nil {
		return "", err
	}
	return re.FindString(s), nil
}

func (r *run) regexFindAll(expr, s string, n int) ([]string, error) {
	re, err := r.compile(expr)
	if err != nil {
		return []string{}, err
	}
	found := re.FindAllString(s, atMost(n))
	return found, r.list(len(found))
}

func (r *run) regexSplit(expr, s string, n int) ([]string, error) {
	re, err := r.compile(expr)
	if err != nil {
		return []string{}, err
	}
	parts := re.Split(s, atMost(n))
	return parts, r.list(len(parts))
}

// atMost limits the number of matches to one more than a list may hold.
func atMost(n int) int {
	if n < 0 || n > maxList {
		return maxList + 1
	}
	return n
}

func (r *run) regexReplaceAll(expr, s, with string) (string, error) {
	re, err := r.compile(expr)
	if err != nil {
		return "", err
	}
	if err := replaced(re, s, with); err != nil {
		return "", err
	}
	return r.text(re.ReplaceAllString(s, with))
}

func (r *run) regexReplaceAllLiteral(expr, s, with string) (string, error) {
	re, err := r.compile(expr)
	if err != nil {
		return "", err
	}
	if err := replaced(re, s, with); err != nil {
		return "", err
	}
	return r.text(re.ReplaceAllLiteralString(s, with))
}

// replaced returns an error if a replacement may become too large. It assumes
// the worst for each match, since a replacement may name groups any number of
// times.
func replaced(re *regexp.Regexp, s, with string) error {
	if len(s)*(len(with)+1) <= maxString {
		return nil
	}
	matches := re.FindAllStringIndex(s, maxList+1)
	n := len(s)
	for _, m := range matches {
		if n += len(with) * (1 + m[1] - m[0]); n > maxString {
			return errLong
		}
	}
	if len(matches) > maxList {
		return errList
	}
	return nil
}
