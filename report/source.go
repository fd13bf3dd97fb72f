package report

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A source reads the files that results point to, and keeps up to maxHeld bytes of them.
type source struct {
	tree  fs.FS
	files map[string]*file // by their name in results; nil if that is no file
	held  int              // bytes of their texts
	// secret contains the lines with values of Secrets, whose text is never shown.
	secret map[line]bool
	// public contains the lines that set harmless fields of a Secret, such as labels.
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
	hashes []string // computed when first needed
	secret bool     // a Secret is written in it
}

// newSource returns a source for the tree of r, which may be nil.
func newSource(r *Report) *source {
	s := &source{tree: r.Tree, files: make(map[string]*file), secret: make(map[line]bool), public: make(map[line]bool)}
	for _, results := range [][]policy.Result{r.Results, r.Proposed} {
		for i := range results {
			s.keepSecret(&results[i])
		}
	}
	for x := range r.Held.All() {
		s.keepSecret(x)
	}
	for x := range r.Passes.Objects() {
		s.keepSecret(&x)
	}
	return s
}

// keepSecret records the lines of a result about a Secret as secret or public.
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

// maxHeld limits the texts in memory. Results are sorted by unit, so files are seldom read again.
const maxHeld = 64 << 20

// at returns the line of a span, with the file's path after resolving links.
func (s *source) at(sp render.Span) line {
	if f := s.file(sp.File); f != nil {
		sp.File = f.path
	}
	return line{sp.File, sp.Line}
}

// line returns the text of a span's first line. ok is false if there is no such line.
func (s *source) line(sp render.Span) (text string, ok bool) {
	f := s.file(sp.File)
	if f == nil || sp.Line < 1 || sp.Line > len(f.lines) {
		return "", false
	}
	return f.lines[sp.Line-1], true
}

// hidden reports whether the text at sp may contain a secret, for a result about object. It may if
// the line sets a value of a Secret, also of one that a controller copies into another object. If
// the result is about no object, it may if the line's document contains a Secret with data, or if the
// line's key looks like a credential.
func (s *source) hidden(sp render.Span, object render.Key) bool {
	at := s.at(sp)
	switch {
	case s.secret[at] || s.secret[line{at.file, 0}]:
		return true
	case object.Kind == "Secret":
		return !s.public[at]
	}
	text, ok := s.line(sp)
	if !ok {
		return false
	}
	document := s.file(sp.File).document(sp.Line)
	if object.Kind != "" {
		return rootSecret.MatchString(document) && !s.public[at] && !harmless.MatchString(text)
	}
	holds := hasSecret(document) && holdsData.MatchString(document)
	return (holds || credential.MatchString(text)) && !oneAction.MatchString(text)
}

// document returns the YAML document with a line, or "" if the file contains no Secret.
func (f *file) document(number int) string {
	if !f.secret {
		return ""
	}
	start, end := number-1, number
	for start > 0 && !strings.HasPrefix(f.lines[start], "---") {
		start--
	}
	for end < len(f.lines) && !strings.HasPrefix(f.lines[end], "---") {
		end++
	}
	return strings.Join(f.lines[start:end], "\n")
}

var (
	// rootSecret matches a document that is a Secret, holdsData one with data, unlike a reference.
	rootSecret = regexp.MustCompile(`(?m)^(?:\{.*)?["']?\bkind["']?\s*:\s*["']?Secret\b`)
	holdsData  = regexp.MustCompile(`(?:\bdata|\bstringData)["']?\s*:`)
	credential = regexp.MustCompile(`(?i)(passw|secret|token|credential|private.?key|api.?key)[^:]*:`)
	keyOfLine  = regexp.MustCompile(`^\s*(?:- +)*(?:[A-Za-z0-9_./-]+|"[A-Za-z0-9_./-]+"|'[A-Za-z0-9_./-]+')\s*:(?:\s|$)`)
)

// mask replaces everything but the key of a line.
func mask(text string) string {
	key := keyOfLine.FindString(text)
	if len(key) == len(text) {
		return text
	}
	return key + "…"
}

// hash returns the primaryLocationLineHash of a line, or of the first line for number 0.
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
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	p, broken := render.Resolve(tree, name)
	if broken != nil {
		return nil, broken
	}
	data, err := render.ReadFile(tree, p)
	if err != nil {
		return nil, err
	}
	text := string(data)
	return &file{path: p, text: text, lines: splitLines(text), secret: hasSecret(text)}, nil
}

// hasSecret reports whether a text may contain a Secret: the word kind, a colon and the word Secret, each
// with or without quotes and white space. A regular expression would be slow for large files.
func hasSecret(text string) bool {
	const name, quotes, space = "Secret", `"'`, "\t\n\f\r "
	for end := 0; ; {
		start := strings.Index(text[end:], name) + end
		if start < end {
			return false
		}
		end = start + len(name)
		key, colon := strings.CutSuffix(strings.TrimRight(trimOne(text[:start], quotes), space), ":")
		key, kind := strings.CutSuffix(trimOne(strings.TrimRight(key, space), quotes), "kind")
		if colon && kind && !isWord(text, end) && !isWord(key, len(key)-1) {
			return true
		}
	}
}

// trimOne removes the last byte of a text if it is in cutset.
func trimOne(text, cutset string) string {
	if n := len(text); n > 0 && strings.IndexByte(cutset, text[n-1]) >= 0 {
		return text[:n-1]
	}
	return text
}

// isWord reports whether a text has a letter, a digit or an underscore at an index.
func isWord(text string, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	c := text[i]
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// splitLines splits at LF, CRLF and CR, as editors and GitHub do. After a final line end there is
// one more, empty line.
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

// unitFile returns the file that represents a unit: the unit itself if it is a file, else the
// Chart.yaml or kustomization in its directory, else any file there. It returns "" if there is
// none.
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

// place returns the place at which a result is shown: the line to edit first, or for a fault of a
// policy the policy's line. It returns the zero Origin if the place is unknown.
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

// lineHashes returns what GitHub calls primaryLocationLineHash for each line
// of a file: a polynomial hash of the first hundred UTF-16 code units from the
// start of the line that are neither space nor tab, the units of the lines
// after it included, and how many times that hash was seen in the file so far.
// CR and CRLF count as LF; the end of the file is the unit 0xFFFF, after which
// zeros follow. A BOM is a unit like others.
//
// It gives the values of fingerprints.ts in github/codeql-action, which
// recomputes them on upload and warns of each that differs.
func lineHashes(data []byte) []string {
	units, starts := hashUnits(data)
	seen := make(map[uint64]int, len(starts))
	hashes := make([]string, len(starts))
	buf := make([]byte, 0, 24)
	for i, s := range starts {
		h := lineHash(units[s:])
		seen[h]++
		buf = strconv.AppendUint(buf[:0], h, 16)
		buf = append(buf, ':')
		hashes[i] = string(strconv.AppendInt(buf, int64(seen[h]), 10))
	}
	return hashes
}

const (
	hashBlock = 100
	hashBase  = 37
	endOfFile = 0xFFFF
)

func lineHash(units []uint16) uint64 {
	var h uint64
	n := min(len(units), hashBlock)
	for _, u := range units[:n] {
		h = h*hashBase + uint64(u)
	}
	for range hashBlock - n { // the zeros after the end
		h *= hashBase
	}
	return h
}

// hashUnits returns the units that count, and where in them each line starts. Of a
// long line it returns only as many as a hash covers.
func hashUnits(data []byte) (units []uint16, starts []int) {
	units = make([]uint16, 0, min(len(data), 1<<20)+1)
	starts = append(starts, 0)
	for i := 0; i < len(data); {
		if len(units)-starts[len(starts)-1] >= hashBlock {
			end := bytes.IndexAny(data[i:], "\r\n")
			if end < 0 {
				break
			}
			i += end
		}
		r, n := decode(data[i:])
		switch {
		case r == ' ' || r == '\t':
		case r == '\n' && i > 0 && data[i-1] == '\r':
		case r == '\n' || r == '\r':
			units = append(units, '\n')
			starts = append(starts, len(units))
		default:
			units = appendUTF16(units, r)
		}
		i += n
	}
	return append(units, endOfFile), starts
}

func appendUTF16(units []uint16, r rune) []uint16 {
	if r <= 0xFFFF {
		return append(units, uint16(r))
	}
	return utf16.AppendRune(units, r)
}

// decode is utf8.DecodeRune, but as JavaScript's decoder does it takes as much
// of a broken sequence as could have begun a character for one error, not each
// byte for one (WHATWG Encoding, "utf-8 decoder").
func decode(b []byte) (rune, int) {
	r, n := utf8.DecodeRune(b)
	if r != utf8.RuneError || n != 1 {
		return r, n
	}
	for n < min(len(b), 4) && !utf8.FullRune(b[:n]) {
		n++
	}
	if n > 1 && utf8.FullRune(b[:n]) {
		n--
	}
	return r, n
}
