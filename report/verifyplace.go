package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

func hasScheme(uri string) bool { return scheme.MatchString(uri) }

func (v *verifier) places(all node) {
	for _, l := range all.list() {
		v.place(l)
	}
}

// place checks a location: its path, its region and its snippet.
func (v *verifier) place(l node) {
	physical := l.get("physicalLocation")
	artifact := physical.get("artifactLocation")
	if !v.path(artifact) {
		return
	}
	f := v.fileOf(artifact)
	region, context := physical.get("region"), physical.get("contextRegion")
	r, ok := v.region(region, f)
	c, contextOK := v.region(context, f)
	if ok && contextOK && context.exists() && region.exists() && !c.around(r) {
		v.add(context, "the contextRegion is not around the region")
	}
}

// path checks that a uri has the form that GitHub requires and, with a tree, that it is a regular
// file of the tree. It returns false if the file can't be read.
func (v *verifier) path(artifact node) bool {
	uri := artifact.get("uri")
	if uri.text() == "" {
		v.add(uri, "the location has no artifactLocation.uri, without which GitHub refuses the file")
		return false
	}
	if fault := uriFault(uri.text()); fault != "" {
		v.add(uri, "the uri %q %s", uri.text(), fault)
		return false
	}
	if v.src.tree == nil {
		return false
	}
	if fault := v.fileFault(v.treePath(artifact)); fault != "" {
		v.add(uri, "%q %s", uri.text(), fault)
		return false
	}
	return true
}

// uriFault returns the reason why a relative reference is no clean path of a file in a repository,
// or "".
func uriFault(s string) string {
	decoded, err := url.PathUnescape(s)
	switch {
	case strings.Contains(s, `\`):
		return "has a backslash; paths have slashes"
	case hasScheme(s):
		return "has a scheme, or a colon in its first segment that reads as one; it must be relative to the repository"
	case strings.HasPrefix(s, "/"):
		return "is absolute; it must be relative to the repository"
	case strings.ContainsAny(s, "?#"):
		return "has a query or a fragment; ? and # in a path must be percent-encoded"
	case err != nil:
		return "has a broken percent-encoding"
	case strings.IndexFunc(s, notInURI) >= 0:
		return "has characters that must be percent-encoded"
	case strings.Count(decoded, "/") != strings.Count(s, "/") || strings.Contains(decoded, "\x00"):
		return "encodes a character that no file name has"
	case !validTreePath(decoded) || decoded == ".":
		return "is not clean: it has an empty, a \".\" or a \"..\" segment"
	}
	return ""
}

func notInURI(r rune) bool {
	return r >= utf8.RuneSelf || !pchar(byte(r)) && !strings.ContainsRune("/:%", r)
}

// treePath returns the path in the tree: the uri, below its base if that is relative.
func (v *verifier) treePath(artifact node) string {
	p, err := url.PathUnescape(artifact.get("uri").text())
	if err != nil {
		return ""
	}
	base := v.run.bases.get(artifact.get("uriBaseId").text(), "uri").text()
	if base != "" && !hasScheme(base) && !strings.HasPrefix(base, "/") {
		p = path.Join(base, p)
	}
	return p
}

// fileFault returns the reason why a path is no regular file of the tree, or "".
func (v *verifier) fileFault(p string) string {
	if !fs.ValidPath(p) {
		return "is no path of the tree"
	}
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		info, err := fs.Lstat(v.src.tree, p[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "is not in the tree"
		case err != nil:
			return "can't be looked at in the tree"
		case info.Mode()&fs.ModeSymlink != 0:
			return "goes through a symbolic link, which GitHub does not show"
		case i == len(p) && !info.Mode().IsRegular():
			return "is not a regular file"
		}
	}
	if v.src.file(p) == nil {
		return "can't be read, so claims about it can't be checked"
	}
	return ""
}

// fileOf returns the file of a location, or nil if its path is invalid.
func (v *verifier) fileOf(artifact node) *file {
	s := artifact.get("uri").text()
	if v.src.tree == nil || uriFault(s) != "" {
		return nil
	}
	return v.src.file(v.treePath(artifact))
}

// An area is lines and columns from 1; the end is exclusive, and a column of 0
// is the line's start or end.
type area struct{ line, column, endLine, endColumn int }

// around reports whether a contains b and is larger (SARIF 2.1.0, 3.29.5).
func (a area) around(b area) bool {
	if a == b || a.line == 0 || b.line == 0 {
		return a != b
	}
	starts := a.line < b.line || a.line == b.line && max(a.column, 1) <= max(b.column, 1)
	ends := a.endLine > b.endLine || a.endLine == b.endLine && (a.endColumn == 0 || b.endColumn != 0 && a.endColumn >= b.endColumn)
	return starts && ends
}

// region checks a region's numbers and, if the file is known, that they are in it and
// that the snippet is the text there.
func (v *verifier) region(r node, f *file) (area, bool) {
	a, ok := v.area(r)
	if !ok || f == nil || a.line == 0 {
		return a, ok
	}
	if !v.inside(r, a, f) {
		return a, false
	}
	v.offsets(r, f)
	v.snippet(r, a, f)
	return a, true
}

func (v *verifier) area(r node) (area, bool) {
	var a area
	ok := true
	for _, part := range []struct {
		key string
		to  *int
	}{{"startLine", &a.line}, {"startColumn", &a.column}, {"endLine", &a.endLine}, {"endColumn", &a.endColumn}} {
		n := r.get(part.key)
		if !n.exists() {
			continue
		}
		i, whole := n.number()
		if !whole || i < 1 {
			v.add(n, "%s is no number from 1", part.key)
			ok = false
		}
		*part.to = i
	}
	a.endLine = cmp.Or(a.endLine, a.line)
	if a.line == 0 && (a.column != 0 || a.endColumn != 0 || a.endLine != 0) && ok {
		v.add(r, "the region has no startLine")
		ok = false
	}
	if ok && (a.endLine < a.line || a.endLine == a.line && a.endColumn != 0 && a.endColumn < max(a.column, 1)) {
		v.add(r, "the region ends before it begins")
		ok = false
	}
	return a, ok
}

// inside checks that the file has the lines, and the lines the columns.
func (v *verifier) inside(r node, a area, f *file) bool {
	lines := len(f.lines)
	switch {
	case a.line > lines:
		v.add(r.get("startLine"), "the file has %d lines, not %d", lines, a.line)
	case a.endLine > lines:
		v.add(r.get("endLine"), "the file has %d lines, not %d", lines, a.endLine)
	case !v.hasColumn(f.lines[a.line-1], a.column):
		v.add(r.get("startColumn"), "the line %d has no column %d", a.line, a.column)
	case !v.hasColumn(f.lines[a.endLine-1], a.endColumn):
		v.add(r.get("endColumn"), "the line %d has no column %d", a.endLine, a.endColumn)
	default:
		return true
	}
	return false
}

// widths returns the functions that count columns as the run may: one, or both if the run does not
// say.
func (v *verifier) widths() []func(rune) int {
	switch v.run.columnKind {
	case "utf16CodeUnits":
		return []func(rune) int{utf16Width}
	case "unicodeCodePoints":
		return []func(rune) int{runeWidth}
	default:
		return []func(rune) int{utf16Width, runeWidth}
	}
}

func runeWidth(rune) int { return 1 }

func utf16Width(r rune) int { return max(utf16.RuneLen(r), 1) }

func (v *verifier) hasColumn(text string, column int) bool {
	return slices.ContainsFunc(v.widths(), func(width func(rune) int) bool {
		_, ok := offset(text, column, width)
		return ok
	})
}

// offset returns the byte offset at which a column begins. The column after the last one is the
// line's end, and column 0 is the first.
func offset(text string, column int, width func(rune) int) (int, bool) {
	at := 1
	for i, r := range text {
		if at >= column {
			return i, at == column || column == 0
		}
		at += width(r)
	}
	return len(text), at == column || column == 0
}

// offsets checks a region that is given by bytes or characters.
func (v *verifier) offsets(r node, f *file) {
	v.offset(r.get("byteOffset"), r.get("byteLength"), func() int { return len(f.text) })
	v.offset(r.get("charOffset"), r.get("charLength"), func() int {
		size := 0
		for _, r := range f.text {
			size += utf16Width(r) // the larger count, because either may be meant
		}
		return size
	})
}

func (v *verifier) offset(start, length node, size func() int) {
	from, ok := start.number()
	n, _ := length.number()
	if ok && from >= 0 && from+max(n, 0) > size() {
		v.add(start, "the file is not that long")
	}
}

// snippet checks that the quoted text is the file's, byte by byte except for the kind of
// line ends.
func (v *verifier) snippet(r node, a area, f *file) {
	n := r.get("snippet", "text")
	if !n.exists() {
		return
	}
	got := lineEnds.Replace(n.text())
	for _, width := range v.widths() {
		want, ok := quoted(a, f, width)
		if ok && (got == want || a.endColumn == 0 && got == want+"\n") {
			return
		}
	}
	v.add(n, "the snippet differs from the file")
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// quoted returns the text of an area.
func quoted(a area, f *file, width func(rune) int) (string, bool) {
	lines := slices.Clone(f.lines[a.line-1 : a.endLine])
	last := len(lines) - 1
	if a.endColumn > 0 {
		end, ok := offset(lines[last], a.endColumn, width)
		if !ok {
			return "", false
		}
		lines[last] = lines[last][:end]
	}
	if a.column > 0 {
		start, ok := offset(lines[0], a.column, width)
		if !ok {
			return "", false
		}
		lines[0] = lines[0][start:]
	}
	return strings.ToValidUTF8(strings.Join(lines, "\n"), "\uFFFD"), true
}

// A node is a value in somebody's JSON, with its JSON pointer. Its type is not
// checked: missing values and values of another type are zero.
type node struct {
	value any
	at    string
}

func parseNode(data []byte) (node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return node{}, readJSONError(data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("there is more after the JSON document")
	}
	return node{value: v}, nil
}

func readJSONError(data []byte, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends early")
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line := 1 + bytes.Count(data[:max(0, min(int(syntax.Offset), len(data))-1)], []byte("\n"))
		return fmt.Errorf("line %d is not JSON: %w", line, err)
	}
	return err
}

// get walks down by keys.
func (n node) get(keys ...string) node {
	for _, k := range keys {
		m, _ := n.value.(map[string]any)
		n = node{m[k], n.at + pointer(k)}
	}
	return n
}

// pointer returns the part of a JSON pointer for a key.
func pointer(key string) string {
	if strings.ContainsAny(key, "~/") {
		return render.Pointer(key)
	}
	return "/" + key
}

func (n node) exists() bool { return n.value != nil }

func (n node) list() []node {
	values, _ := n.value.([]any)
	nodes := make([]node, len(values))
	for i, v := range values {
		nodes[i] = node{v, n.at + "/" + strconv.Itoa(i)}
	}
	return nodes
}

func (n node) isList() bool {
	_, ok := n.value.([]any)
	return ok
}

func (n node) text() string {
	s, _ := n.value.(string)
	return s
}

// number returns an integer; ok is false for anything else.
func (n node) number() (int, bool) {
	num, _ := n.value.(json.Number)
	i, err := strconv.Atoi(num.String())
	return i, err == nil
}
