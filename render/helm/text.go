package helm

import (
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"unsafe"
)

// textFunctions are the functions that make text which may be larger than their
// arguments. The others are sprig's, unchanged.
func (r *run) textFunctions() template.FuncMap {
	return template.FuncMap{
		"print":            r.joined(fmt.Sprint),
		"println":          r.joined(fmt.Sprintln),
		"html":             r.joined(template.HTMLEscaper),
		"js":               r.joined(template.JSEscaper),
		"urlquery":         r.joined(template.URLQueryEscaper),
		"quote":            r.joined(library()["quote"].(func(...any) string)),
		"squote":           r.joined(library()["squote"].(func(...any) string)),
		"cat":              r.joined(library()["cat"].(func(...any) string)),
		"printf":           r.printf,
		"toString":         r.toString(),
		"toStrings":        r.toStrings,
		"join":             r.join,
		"repeat":           r.repeat,
		"indent":           r.indent,
		"nindent":          r.nindent,
		"replace":          r.replace,
		"wrap":             r.wrap,
		"wrapWith":         r.wrapWith,
		"b64enc":           r.grown(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
		"b32enc":           func(s string) (string, error) { return r.text(base32.StdEncoding.EncodeToString([]byte(s))) },
		"lower":            r.grown(strings.ToLower),
		"upper":            r.grown(strings.ToUpper),
		"title":            r.grown(library()["title"].(func(string) string)),
		"untitle":          r.grown(library()["untitle"].(func(string) string)),
		"nospace":          r.grown(library()["nospace"].(func(string) string)),
		"snakecase":        r.grown(library()["snakecase"].(func(string) string)),
		"kebabcase":        r.grown(library()["kebabcase"].(func(string) string)),
		"toPrettyJson":     marshals(r, library()["toPrettyJson"].(func(any) string)),
		"toRawJson":        marshals(r, library()["toRawJson"].(func(any) string)),
		"mustToJson":       marshalsMust(r, library()["mustToJson"].(func(any) (string, error))),
		"mustToPrettyJson": marshalsMust(r, library()["mustToPrettyJson"].(func(any) (string, error))),
		"mustToRawJson":    marshalsMust(r, library()["mustToRawJson"].(func(any) (string, error))),
	}
}

// joined limits a function that joins values to one string.
func (r *run) joined(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		n := 0
		for _, arg := range args {
			if s, ok := arg.(string); ok {
				n += len(s)
			} else if err := r.measureAny(arg); err != nil {
				return "", err
			}
		}
		if err := room(n); err != nil {
			return "", err
		}
		s := f(args...)
		r.carried(s, args...)
		return r.text(s)
	}
}

// grown limits a function that may return a text larger than its argument.
func (r *run) grown(f func(string) string) func(string) (string, error) {
	return func(s string) (string, error) {
		out := f(s)
		if unsafe.StringData(out) != unsafe.StringData(s) {
			r.carried(out, s)
		}
		return r.text(out)
	}
}

func marshalsMust(r *run, f func(any) (string, error)) func(any) (string, error) {
	return func(v any) (string, error) {
		if err := r.measureAny(v); err != nil {
			return "", err
		}
		s, err := f(v)
		if err != nil {
			return "", err
		}
		r.marshaled(s, v)
		return r.text(s)
	}
}

var widths = regexp.MustCompile(`\d+|\*`)

// printf is fmt.Sprintf with limited widths in the format.
func (r *run) printf(format string, args ...any) (string, error) {
	n := len(format)
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			n += len(arg)
		case int:
			if strings.Contains(format, "*") {
				n += max(arg, -arg)
			}
		default:
			if err := r.measureAny(arg); err != nil {
				return "", err
			}
		}
	}
	if strings.Contains(format, "%") {
		for _, w := range widths.FindAllString(format, -1) {
			if width, err := strconv.Atoi(w); err == nil {
				n += width
			} else if w != "*" {
				return "", errLong
			}
		}
	}
	if err := room(n); err != nil {
		return "", err
	}
	s := r.withoutAddresses(fmt.Sprintf(format, args...), args)
	r.carried(s, args...)
	return r.text(s)
}

// withoutAddresses replaces the addresses of arguments in a text, which differ in each run, by one
// that is always the same.
func (r *run) withoutAddresses(s string, args []any) string {
	for _, arg := range args {
		v := reflect.ValueOf(arg)
		switch v.Kind() {
		case reflect.Map, reflect.Slice, reflect.Func, reflect.Pointer, reflect.Chan, reflect.UnsafePointer:
		default:
			continue
		}
		for _, verb := range []string{"%x", "%X", "%d", "%o", "%b"} {
			at := fmt.Sprintf(verb, v.Pointer())
			if v.Pointer() != 0 && strings.Contains(s, at) {
				r.assume(assumedAddress)
				s = strings.ReplaceAll(s, at, "1"+strings.Repeat("0", len(at)-1))
			}
		}
	}
	return s
}

// toString is sprig's; it returns strings unchanged.
func (r *run) toString() func(any) (string, error) {
	f := walked(r, library()["toString"].(func(any) string))
	return func(v any) (string, error) {
		s, err := f(v)
		if _, same := v.(string); !same {
			r.carried(s, v)
		}
		return s, err
	}
}

func (r *run) toStrings(v any) ([]string, error) {
	if err := r.measureAny(v); err != nil {
		return nil, err
	}
	return library()["toStrings"].(func(any) []string)(v), nil
}

func (r *run) join(sep string, v any) (string, error) {
	list, err := r.toStrings(v)
	if err != nil {
		return "", err
	}
	n := 0
	for _, s := range list {
		if n += len(s) + len(sep); n > maxString {
			return "", errLong
		}
	}
	s := strings.Join(list, sep)
	r.carried(s, v)
	return r.text(s)
}

func (r *run) repeat(count int, s string) (string, error) {
	if count < 0 {
		return "", errors.New("repeat takes a count that is not negative")
	}
	if len(s) > 0 && count > maxString/len(s) {
		return "", errLong
	}
	return r.text(strings.Repeat(s, count))
}

func (r *run) indent(spaces int, s string) (string, error) {
	if spaces < 0 {
		return "", errors.New("indent takes a count that is not negative")
	}
	lines := 1 + strings.Count(s, "\n")
	if spaces > maxString/lines {
		return "", errLong
	}
	pad := strings.Repeat(" ", spaces)
	out := pad + strings.ReplaceAll(s, "\n", "\n"+pad)
	r.carried(out, s)
	return r.text(out)
}

func (r *run) nindent(spaces int, s string) (string, error) {
	in, err := r.indent(spaces, s)
	out := "\n" + in
	r.carried(out, s)
	return out, err
}

func (r *run) replace(old, new, s string) (string, error) {
	n := strings.Count(s, old)
	if len(new) > len(old) && n > maxString/(len(new)-len(old)) {
		return "", errLong
	}
	out := strings.ReplaceAll(s, old, new)
	if unsafe.StringData(out) != unsafe.StringData(s) {
		r.carried(out, s)
	}
	return r.text(out)
}

// wrap is sprig's. It makes lines at spaces, so the text hardly grows.
func (r *run) wrap(width int, s string) (string, error) {
	return r.text(library()["wrap"].(func(int, string) string)(width, s))
}

// wrapWith also breaks words that are longer than a line.
func (r *run) wrapWith(width int, sep, s string) (string, error) {
	if width < 1 {
		width = 1
	}
	if len(sep) > 0 && len(s)/width > maxString/len(sep) {
		return "", errLong
	}
	return r.text(library()["wrapWith"].(func(int, string, string) string)(width, sep, s))
}

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
