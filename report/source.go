package report

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A source reads the files that results point to, each once, as long as they are
// together no larger than maxHeld.
type source struct {
	tree  fs.FS
	files map[string]*file // by the path as named; nil for what is not a file
	held  int              // bytes of their texts
	// secret are lines with a value of a Secret, whose text is never shown.
	secret map[line]bool
	// public are lines that set a field of a Secret which is no secret, such as a label.
	public map[line]bool
}

// A line is a line of a file, or with number 0 the whole file.
type line struct {
	file   string
	number int
}

// A file is a regular file of the tree.
type file struct {
	path   string // without symbolic links
	text   string
	lines  []string // without line ends; there is always one
	hashes []string // made when first asked for
	secret bool     // a Secret is written in it
}

// newSource reads from the tree of r. Without one it knows no file.
func newSource(r *Report) *source {
	s := &source{tree: r.Tree, files: make(map[string]*file), secret: make(map[line]bool), public: make(map[line]bool)}
	for _, results := range [][]policy.Result{r.Results, r.Proposed} {
		for i := range results {
			s.keepSecret(&results[i])
		}
	}
	for i := range r.Held.Len() {
		var x policy.Result
		if r.Held.Outline(i, &x); x.Object.Kind == "Secret" {
			r.Held.Expand(i, &x)
			s.keepSecret(&x)
		}
	}
	for x := range r.Passes.Objects() {
		s.keepSecret(&x)
	}
	return s
}

// keepSecret remembers the lines of a result about a Secret.
func (s *source) keepSecret(x *policy.Result) {
	if x.Object.Kind != "Secret" {
		return
	}
	for _, o := range x.Origins {
		text, _ := s.line(o.Span)
		if isPublic(x.Fields) && oneScalar.MatchString(text) {
			s.public[s.at(o.Span)] = true
		} else {
			s.secret[s.at(o.Span)] = true
		}
	}
}

// isPublic reports whether fields of a Secret hold nothing that is secret.
func isPublic(fields []string) bool {
	return len(fields) > 0 && !slices.ContainsFunc(fields, func(f string) bool { return !publicField.MatchString(f) })
}

var (
	publicField = regexp.MustCompile(`^/(apiVersion|kind|type|immutable|metadata/(name|generateName|namespace|labels))(/|$)`)
	// oneScalar is a line with one key and one value, which may be of a template.
	oneScalar = regexp.MustCompile(`^\s*(?:- +)*[A-Za-z0-9_./-]+\s*:\s+(?:"[^"'{}]*"|'[^"'{}]*'|[^"'{}\[\]&*|>#,]+|\{\{[^"'{}` + "`" + `]*\}\})\s*$`)
	// oneAction is a line whose value is an action of a template without texts,
	// but for names and messages.
	oneAction = regexp.MustCompile(`^\s*(?:- +)*(?:[A-Za-z0-9_./-]+\s*:\s+)?(?:\{\{-?(?:[^"'{}` + "`" + `]|\b(?:include|template|required|fail)\s+"[^"]*")*-?\}\}\s*)+$`)
)

// file returns the regular file of that name, following symbolic links inside
// the tree, or nil.
func (s *source) file(name string) *file {
	if s.tree == nil || name == "" {
		return nil
	}
	if f, ok := s.files[name]; ok {
		return f
	}
	f, err := readFile(s.tree, name)
	if err != nil {
		s.files[name] = nil
		return nil
	}
	if s.held += len(f.text); s.held > maxHeld {
		s.files, s.held = make(map[string]*file), len(f.text)
	}
	s.files[name] = f
	return f
}

// maxHeld bounds the texts in memory. Results are in the order of their units, so
// that files are seldom read again.
const maxHeld = 64 << 20

// at is the line of a span, by the file's true path.
func (s *source) at(sp render.Span) line {
	if f := s.file(sp.File); f != nil {
		sp.File = f.path
	}
	return line{sp.File, sp.Line}
}

// line returns the text at a span's first line; ok is false where there is none.
func (s *source) line(sp render.Span) (text string, ok bool) {
	f := s.file(sp.File)
	if f == nil || sp.Line < 1 || sp.Line > len(f.lines) {
		return "", false
	}
	return f.lines[sp.Line-1], true
}

// hidden says that the line at sp may hold what must not be shown, for a result
// about that object: it makes a Secret, or something that has no object yet
// went wrong in a file or at a key where one is written.
func (s *source) hidden(sp render.Span, object render.Key) bool {
	at := s.at(sp)
	switch {
	case s.secret[at] || s.secret[line{at.file, 0}]:
		return true
	case object.Kind == "Secret":
		return !s.public[at]
	case object.Kind != "":
		return false
	}
	f := s.file(sp.File)
	text, _ := s.line(sp)
	return (f != nil && f.secret || credential.MatchString(text)) && !oneAction.MatchString(text)
}

var (
	secretKind = regexp.MustCompile(`(?m)["']?\bkind["']?\s*:\s*["']?Secret\b`)
	credential = regexp.MustCompile(`(?i)(passw|secret|token|credential|private.?key|api.?key)[^:]*:`)
	keyOfLine  = regexp.MustCompile(`^\s*(?:- +)*(?:[A-Za-z0-9_./-]+|"[A-Za-z0-9_./-]+"|'[A-Za-z0-9_./-]+')\s*:(?:\s|$)`)
)

// mask leaves of a line its key, if it has one.
func mask(text string) string {
	key := keyOfLine.FindString(text)
	if len(key) == len(text) {
		return text
	}
	return key + "…"
}

// hash is the line's primaryLocationLineHash; a whole file has its first line's.
func (f *file) hash(number int) string {
	if f.hashes == nil {
		f.hashes = lineHashes([]byte(f.text))
	}
	number = max(number, 1)
	if number > len(f.hashes) {
		return ""
	}
	return f.hashes[number-1]
}

func readFile(tree fs.FS, name string) (*file, error) {
	p, err := resolve(tree, name)
	if err != nil {
		return nil, err
	}
	data, err := render.ReadFile(tree, p)
	if err != nil {
		return nil, err
	}
	text := string(data)
	return &file{path: p, text: text, lines: splitLines(text), secret: hasSecret(text)}, nil
}

// hasSecret reports whether a Secret may be written in a text. The expression alone
// would take most of the time that a large file takes.
func hasSecret(text string) bool {
	return strings.Contains(text, "Secret") && secretKind.MatchString(text)
}

var (
	errOutside = errors.New("is outside of the tree")
	errLinks   = errors.New("goes through too many symbolic links")
)

// resolve returns the path of name once its symbolic links are
// followed. The error says why it is none of the tree's.
func resolve(tree fs.FS, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", errOutside
	}
	rest, done := strings.Split(name, "/"), "."
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		info, err := fs.Lstat(tree, next)
		if err != nil {
			return "", err
		}
		rest = rest[1:]
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", errLinks
		}
		target, err := fs.ReadLink(tree, next)
		if err != nil {
			return "", err
		}
		target = path.Join(done, target)
		if path.IsAbs(target) || !fs.ValidPath(target) {
			return "", errOutside
		}
		rest, done = append(strings.Split(target, "/"), rest...), "."
	}
	return done, nil
}

// splitLines cuts at LF, CRLF and CR, as editors and GitHub count lines. After
// a last line end comes one more line, which is empty.
func splitLines(s string) []string {
	lines := make([]string, 0, strings.Count(s, "\n")+1)
	for {
		i := strings.IndexAny(s, "\r\n")
		if i < 0 {
			return append(lines, s)
		}
		lines = append(lines, s[:i])
		if strings.HasPrefix(s[i:], "\r\n") {
			i++
		}
		s = s[i+1:]
	}
}

// unitFile is the file that represents a unit: itself, or the one in its
// directory that makes it a unit, or any; "" when the tree has none.
func (s *source) unitFile(unit string) string {
	if s.tree == nil || unit == "" || !fs.ValidPath(unit) {
		return ""
	}
	if s.file(unit) != nil {
		return unit
	}
	for _, base := range []string{"Chart.yaml", "kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if p := path.Join(unit, base); s.file(p) != nil {
			return p
		}
	}
	entries, _ := fs.ReadDir(s.tree, unit) // sorted by name; without it there is no file
	for _, e := range entries {
		if p := path.Join(unit, e.Name()); e.Type().IsRegular() && s.file(p) != nil {
			return p
		}
	}
	return ""
}

// place is where a result is shown: the line that a person would edit first, or
// for a policy's own fault the policy. The zero Origin is an unknown place.
func place(x *policy.Result) render.Origin {
	for _, o := range x.Origins {
		if o.File != "" {
			return o
		}
	}
	if x.Undecided() || x.Object.Kind == "" {
		return render.Origin{Span: x.PolicyOrigin}
	}
	return render.Origin{}
}
