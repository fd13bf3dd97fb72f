package helm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// An execution knows the file of each template, so that errors of text/template
// can be placed.
type execution struct {
	*run
	files      map[string]*templateFile // by Helm's names for them
	order      []string
	defined    map[string]*templateFile // by the names of the templates that they define; the last definition wins
	bySrc      map[*source]*templateFile
	valueIndex *valueIndex
}

var (
	parsePlace = regexp.MustCompile(`^template: ` + idPrefix + `[0-9a-f]+:(\d+)(?::(\d+))?: `)
	execPlace  = regexp.MustCompile(`^template: (` + idPrefix + `[0-9a-f]+):(\d+):(\d+): executing "((?:[^"\\]|\\.)*)" at <`)
	hookText   = regexp.MustCompile(` \| __(out \d+|take)|__has \d+ (\| )?`)
	foundHook  = regexp.MustCompile(`\(__found (\S+)( ([^()]|\([^()]*\))*)?\)`)
)

// failed returns err with an offset of the source as its place, in the form of text/template's
// errors.
func (s *source) failed(off int, err error) error {
	before := s.text[:off]
	return fmt.Errorf(`template: %s:%d:%d: executing "" at <>: %w`, s.id, 1+bytes.Count(before, []byte("\n")), off-1-bytes.LastIndexByte(before, '\n'), err)
}

// parseError places an error of the parser at its line.
func parseError(f *templateFile, err error) error {
	line := 0
	if m := parsePlace.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	return f.at.errorAt("helm-template", line, 0, plainParseError(err))
}

// plainParseError returns an error of the parser without its place.
func plainParseError(err error) error {
	text := err.Error()
	if m := parsePlace.FindStringIndex(text); m != nil {
		text = text[m[1]:]
	}
	if text == "unexpected EOF" {
		return errors.New("the template ends where an {{ end }} is missing")
	}
	if m := noFunction.FindStringSubmatch(text); m != nil {
		text = suggest("there is no function "+m[1], m[1], slices.DeleteFunc(slices.Collect(maps.Keys(functionNames(""))), func(name string) bool { return strings.HasPrefix(name, "__") }))
	}
	return errors.New(sentence(strings.ReplaceAll(text, idPrefix, "")))
}

// suggest adds to a text with a quoted unknown name the name that was probably
// meant.
func suggest(text, quoted string, names []string) string {
	if meant := render.DidYouMean(strings.Trim(quoted, `"`), names); meant != "" {
		return text + "; " + meant
	}
	return text
}

// A stop is the place and reason of a template's failure.
type stop struct {
	src          *source
	line, column int
	message      string
}

// failed places the error of a file's execution at the file's own action, and
// adds where in the called templates it happened.
func (e *execution) failed(f *templateFile, err error) error {
	outer, _ := e.stop(err)
	inner, cause := outer, err
	if e.broken != nil {
		inner, cause = e.stop(e.broken)
	}
	message := describe(cause, inner.message)
	if m := noTemplate.FindStringSubmatch(message); m != nil {
		message = noTemplate.ReplaceAllString(message, suggest("there is no template named $1", m[1], slices.Collect(maps.Keys(e.defined))))
	}
	if t := e.fileOf(inner.src); t != nil && inner.line > 0 && (t != f || inner.line != outer.line) {
		message += fmt.Sprintf(" (in %s:%d:%d)", t.display(f), inner.line, inner.column)
	}
	rerr := f.at.errorAt("helm-template", outer.line, outer.column, errors.New(sentence(message)))
	rerr.Undecided = errors.As(cause, new(*exceeded)) && !e.src.Variant.IsDefault() // Helm has no such limit
	return rerr
}

// fileOf returns the file that a source was read from, or nil for a text given
// to tpl.
func (e *execution) fileOf(s *source) *templateFile {
	if s == nil {
		return nil
	}
	return e.bySrc[s]
}

// stop parses an error of text/template.
func (e *execution) stop(err error) (stop, error) {
	text := err.Error()
	m := execPlace.FindStringSubmatchIndex(text)
	if m == nil {
		return stop{message: text}, err
	}
	s := stop{src: e.sourceOf(text[m[2]:m[3]])}
	s.line, _ = strconv.Atoi(text[m[4]:m[5]])
	offset, _ := strconv.Atoi(text[m[6]:m[7]])
	s.column = offset + 1
	if s.src != nil {
		s.column = column(s.src.text, s.line, offset)
	}
	what, rest, ok := strings.Cut(text[m[1]:], ">: ")
	if !ok {
		rest = what
	}
	s.message = expression(what) + rest
	return s, err
}

// expression returns the expression that an error is about, without hooks.
func expression(what string) string {
	what = foundHook.ReplaceAllString(hookText.ReplaceAllString(what, ""), "$1")
	if what == "" || strings.Contains(what, "__") {
		return ""
	}
	return what + ": "
}

func (e *execution) sourceOf(id string) *source {
	for _, s := range e.byText {
		if s.id == id {
			return s
		}
	}
	return nil
}

// column converts a byte offset within a line to a column.
func column(text []byte, line, offset int) int {
	for ; line > 1 && len(text) > 0; line-- {
		_, rest, _ := strings.Cut(string(text), "\n")
		text = []byte(rest)
	}
	return 1 + utf8.RuneCount(text[:min(offset, len(text))])
}

var (
	// Parts of errors in which text/template quotes values, which may be
	// secret.
	quoted     = regexp.MustCompile(`(range can't iterate over|if/with can't use) .*|(parsing) ".*`)
	badExpr    = regexp.MustCompile("(error parsing regexp: [^:`]*).*")
	nilPointer = regexp.MustCompile(`^(\.\S+): nil pointer evaluating \S+(?: \S+)?\.(\w+)$`)
	noTemplate = regexp.MustCompile(`(?:template: )?no template ("[^"]*") associated with template "[^"]*"`)
	noFunction = regexp.MustCompile(`^function ("[^"]*") not defined$`)
	calling    = regexp.MustCompile(`^(?:.*?: )?error calling (\w+): `)
)

// describe returns a sentence about an error that stopped a template: the template's own message if
// it called fail or required, or else text/template's message without its internal names and the
// values that it quotes.
func describe(err error, message string) string {
	var failed *failure
	if errors.As(err, &failed) {
		return failed.message
	}
	if errors.Is(err, errStopped) {
		return errStopped.Error()
	}
	var limit *exceeded
	if errors.As(err, &limit) {
		return limit.Error()
	}
	var exec template.ExecError
	if !errors.As(err, &exec) {
		return message
	}
	if m := calling.FindStringSubmatch(message); m != nil && strings.HasPrefix(m[1], "__") {
		message = message[len(calling.FindString(message)):]
	}
	if m := nilPointer.FindStringSubmatch(message); m != nil {
		if parent, ok := strings.CutSuffix(m[1], "."+m[2]); ok {
			message = fmt.Sprintf("%s has no value, so %s can't be read", parent, m[1])
		}
	}
	message = badExpr.ReplaceAllString(message, "$1")
	return quoted.ReplaceAllString(message, "$1$2 a value of this kind")
}

// An exceeded limit is an error that needs no more words than its own.
type exceeded struct{ sentence string }

func (e *exceeded) Error() string { return e.sentence }

// A templateFile is a template of the release, with the values that it is executed with.
type templateFile struct {
	name   string // Helm's name for it, beginning with the release's chart
	at     place
	src    *source
	values table
	base   string // .Template.BasePath
	templateText
}

// display returns the name of the file in an error that is placed in another file: its path, or for
// two entries of one archive the entry.
func (t *templateFile) display(from *templateFile) string {
	if t.at.file == from.at.file && t.at.entry != "" {
		return t.at.entry
	}
	if t.at.entry != "" {
		return t.at.file + "/" + t.at.entry
	}
	return t.at.file
}
