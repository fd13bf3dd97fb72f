// Package yamledit changes one value in a YAML or JSON file and leaves every other byte as it is:
// comments, order, quoting, anchors, flow style and line ends. A value at an anchor changes wherever the
// anchor is used.
//
// It takes the bytes of a file and a render.Edit, and returns the new bytes. yamledit.go finds the
// place with render.Positions and adds or changes values, inside.go edits YAML in block scalars,
// remove.go deletes values, write.go writes new ones, places.go lists the fields of a file. The result is read again: if it is not exactly the edited value, there is an error.
package yamledit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// errAlias is the reason for which a value that an alias brings is not edited: other places use it.
var errAlias = errors.New("the value is written at an anchor that other places use, too")

// Apply returns data with the edit made in the document with an index. It does not change data. A
// pointer that leads below a text in a literal block scalar goes on in the YAML of that text.
func Apply(file string, data []byte, document int, e render.Edit) ([]byte, error) {
	docs, problems := render.Documents(file, data, render.YAML11)
	at := slices.IndexFunc(docs, func(d render.Document) bool { return d.Index == document })
	if at < 0 {
		return nil, cannot(file, "the file can't be read as YAML", problems)
	}
	t := newText(string(data), docs[at])
	made, err := t.edit(e)
	if err != nil {
		return nil, cannot(file, e.Pointer, err)
	}
	want, err := made.Apply(docs[at].Value)
	if err != nil {
		return nil, cannot(file, e.Pointer, err)
	}
	after, err := render.Documents(file, []byte(t.text), render.YAML11)
	if len(render.Errors(err)) > len(render.Errors(problems)) || len(after) != len(docs) {
		return nil, cannot(file, e.Pointer, errOther)
	}
	for i := range docs {
		equal := func(v any) bool { return render.Equal(floats(v), floats(after[i].Value)) }
		if i != at && !equal(docs[i].Value) || i == at && !equal(want) && !byAnchor(docs[i], after[i], made.Pointer, want) {
			return nil, cannot(file, e.Pointer, errOther)
		}
	}
	return []byte(t.text), nil
}

var errOther = errors.New("the way it is written does not allow this edit alone")

// byAnchor reports whether an edit at an anchor has set the wanted value, and whatever else changed in
// the document comes from that anchor: it is written at the place of a field at or below the pointer.
func byAnchor(before, after render.Document, pointer string, want any) bool {
	v, _ := render.Lookup(want, pointer)
	if got, _ := render.Lookup(after.Value, pointer); !render.Equal(floats(v), floats(got)) {
		return false
	}
	return onlyBelow(before, after, pointer) && onlyBelow(after, before, pointer)
}

// onlyBelow reports whether each scalar of a document that another one does not have is written at or
// below a pointer.
func onlyBelow(d, other render.Document, pointer string) bool {
	below := make(map[render.Span]bool)
	for p := range render.Fields(d.Value, "") {
		if p == pointer || strings.HasPrefix(p, pointer+"/") {
			below[written(d, p)] = true
		}
	}
	for p, v := range render.Fields(d.Value, "") {
		if n, _ := size(v); n > 0 {
			continue
		}
		was, ok := render.Lookup(other.Value, p)
		if (!ok || !render.Equal(floats(v), floats(was))) && !below[written(d, p)] {
			return false
		}
	}
	return true
}

// floats returns a value whose numbers are of one Go type.
func floats(v any) any {
	return render.Replace(v, func(v any) any {
		if n, ok := v.(int64); ok {
			return float64(n)
		}
		return v
	})
}

func cannot(file, what string, err error) error {
	if err == nil {
		return fmt.Errorf("%s: %s", file, what)
	}
	return fmt.Errorf("%s: %s: %w", file, what, err)
}

// A text is the text of a file while it is edited, with the places of one document.
type text struct {
	text    string
	doc     render.Document
	lines   []int // offset of each line
	newline string
}

func newText(data string, doc render.Document) *text {
	t := &text{text: data, doc: doc, lines: []int{0}, newline: "\n"}
	for i, c := range []byte(data) {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	if strings.Contains(data, "\r\n") {
		t.newline = "\r\n"
	}
	return t
}

// offset returns the offset of a line and a column in code points.
func (t *text) offset(line, column int) int {
	at := t.lines[min(line, len(t.lines))-1]
	for i := range t.text[at:] {
		if column--; column == 0 {
			return at + i
		}
	}
	return len(t.text)
}

// A field is a field of the document with its place.
type field struct {
	value            any
	from, to         int // of the value's text
	keyFrom, keyTo   int // of the key's text; 0 for elements of lists
	line, column     int // of the value's first character, from 1
	lastLine         int
	keyLine, keyWide int // line and column of the key
	flow, empty      bool
}

func (t *text) field(pointer string) (field, bool) {
	v, ok := render.Lookup(t.doc.Value, pointer)
	if !ok {
		return field{}, false
	}
	key, span, ok := t.doc.Positions.Field(pointer)
	if !ok || span.Line == 0 {
		return field{}, false
	}
	f := field{value: v, from: t.offset(span.Line, span.Column), to: t.offset(span.EndLine, span.EndColumn), line: span.Line, column: span.Column, lastLine: span.EndLine}
	if key.Line > 0 {
		f.keyFrom, f.keyTo, f.keyLine, f.keyWide = t.offset(key.Line, key.Column), t.offset(key.EndLine, key.EndColumn), key.Line, key.Column
	}
	f.empty = f.from == f.to
	f.flow = !f.empty && (t.text[f.from] == '{' || t.text[f.from] == '[')
	return f, true
}

// aliased reports whether a field comes by an alias.
func (t *text) aliased(pointer string) bool { return len(t.doc.Positions.At(pointer)) > 1 }

// inFlow reports whether a parent of the field is written in flow style.
func (t *text) inFlow(pointer string) bool {
	for p := parent(pointer); ; p = parent(p) {
		if f, ok := t.field(p); ok && f.flow {
			return true
		}
		if p == "" {
			return false
		}
	}
}

func parent(pointer string) string { return pointer[:max(strings.LastIndexByte(pointer, '/'), 0)] }

// replace replaces a part of the text.
func (t *text) replace(from, to int, with string) { t.text = t.text[:from] + with + t.text[to:] }

// set sets the value at a pointer.
func (t *text) set(pointer string, value any) error {
	if f, ok := t.field(pointer); ok {
		return t.change(pointer, f, value)
	}
	path := render.Path(pointer)
	n := len(path) - 1
	for ; n > 0; n-- {
		if _, ok := render.Lookup(t.doc.Value, render.PathPointer(path[:n])); ok {
			break
		}
	}
	for _, key := range slices.Backward(path[n+1:]) {
		if key == "-" {
			value = []any{value}
		} else {
			value = map[string]any{key: value}
		}
	}
	return t.insert(render.PathPointer(path[:n]), path[n], value)
}

// rename changes the key of the field at a pointer.
func (t *text) rename(pointer, key string) error {
	f, ok := t.field(pointer)
	if !ok || f.keyTo == 0 {
		return errors.New("it is not found")
	}
	if t.aliased(pointer) {
		return errAlias
	}
	quote := t.text[f.keyFrom : f.keyFrom+1]
	if quote != `"` && quote != "'" {
		quote = ""
	}
	t.replace(f.keyFrom, f.keyTo, flowText(key, quote))
	return nil
}

// change replaces a value that is there.
func (t *text) change(pointer string, f field, value any) error {
	if t.aliased(pointer) {
		return errAlias
	}
	if !f.empty && (t.text[f.from] == '|' || t.text[f.from] == '>') {
		return errors.New("the value is a text of several lines")
	}
	scalar := render.IsScalar(f.value)
	entries, _ := size(f.value)
	added, _ := size(value)
	switch {
	case entries == 0 && (f.value == nil || f.flow) && added > 0 && f.keyTo > 0 && !t.inFlow(pointer):
		t.expand(f, value)
	case !scalar && !f.flow || !render.IsScalar(value) && !t.inFlow(pointer):
		if pointer == "" {
			return errors.New("it is the whole document")
		}
		if err := t.remove(pointer); err != nil {
			return err
		}
		docs, err := render.Documents("", []byte(t.text), render.YAML11)
		for _, d := range docs {
			if err == nil && d.Index == t.doc.Index {
				*t = *newText(t.text, d)
				return t.set(pointer, value)
			}
		}
		return errors.New("the value can't be replaced")
	case f.empty:
		colon := strings.IndexByte(t.text[f.keyTo:], ':')
		if f.keyTo == 0 || colon < 0 {
			return errors.New("it has no text to replace")
		}
		t.replace(f.keyTo+colon+1, f.keyTo+colon+1, " "+flowText(value, t.quoted(f)))
	default:
		t.replace(f.from, f.to, flowText(value, t.quoted(f)))
	}
	return nil
}

// quoted returns the quote in which a scalar is written, or "".
func (t *text) quoted(f field) string {
	if !f.empty && (t.text[f.from] == '"' || t.text[f.from] == '\'') {
		return t.text[f.from : f.from+1]
	}
	return ""
}

// insert adds a key to a mapping, or an element to a list.
func (t *text) insert(pointer, key string, value any) error {
	f, ok := t.field(pointer)
	if !ok {
		return errors.New("its parent is not found")
	}
	if t.aliased(pointer) {
		return errAlias
	}
	entries, list := size(f.value)
	list = list || f.value == nil && key == "-"
	if f.flow && (entries > 0 || t.inFlow(pointer) || f.keyTo == 0) {
		at := f.to - 1
		for at > 0 && strings.IndexByte(" \t\r\n", t.text[at-1]) >= 0 {
			at--
		}
		sep := ", "
		switch {
		case entries == 0:
			sep = ""
		case t.text[at-1] == ',':
			sep = " "
		}
		t.replace(at, at, sep+t.flowEntry(f, key, value, list))
		return nil
	}
	if entries > 0 {
		indent := f.column - 1
		lead := t.text[t.lines[f.line-1]:][:max(f.from-t.lines[f.line-1], 0)]
		if list {
			if _, at, ok := t.doc.Positions.Field(pointer + "/0"); ok {
				line := t.text[t.lines[at.Line-1]:]
				indent = strings.IndexByte(line, '-')
			}
		} else if first := t.firstKey(pointer, f.value); first > 0 {
			indent = first - 1
		}
		if strings.Contains(lead, "\t") || indent < 0 {
			return errors.New("its indentation is not of spaces")
		}
		t.addLines(t.after(f.lastLine, indent), indent, entry(key, value, list))
		return nil
	}
	if !f.empty && !f.flow && f.value != nil || f.keyTo == 0 {
		return errors.New("its parent is not a mapping that can be extended")
	}
	if t.inFlow(pointer) {
		return errors.New("its parent is empty, in flow style")
	}
	t.expand(f, entry(key, value, list))
	return nil
}

func entry(key string, value any, list bool) any {
	if list {
		return []any{value}
	}
	return map[string]any{key: value}
}

// expand puts a collection in block style in the place of {}, [] or null.
func (t *text) expand(f field, value any) {
	if !f.empty {
		from := f.from
		for from > 0 && t.text[from-1] == ' ' {
			from--
		}
		t.replace(from, f.to, "")
		t.lines = newText(t.text, t.doc).lines
	}
	t.addLines(f.keyLine, f.keyWide+1, value)
}

// firstKey returns the column of the first key of a block mapping that is written there.
func (t *text) firstKey(pointer string, value any) int {
	column, line := 0, 0
	m, _ := value.(map[string]any)
	for k := range m {
		key, _, ok := t.doc.Positions.Field(pointer + render.Pointer(k))
		if ok && key.Line > 0 && !t.aliased(pointer+render.Pointer(k)) && (line == 0 || key.Line < line) {
			column, line = key.Column, key.Line
		}
	}
	return column
}

func size(v any) (n int, list bool) {
	switch v := v.(type) {
	case map[string]any:
		return len(v), false
	case []any:
		return len(v), true
	}
	return 0, false
}

// after returns the last line of a block that ends at a line: lines below that are indented deeper
// belong to its last entry.
func (t *text) after(line, indent int) int {
	for next := line + 1; next <= len(t.lines); next++ {
		content := strings.TrimRight(t.line(next), "\r\n ")
		if content == "" {
			continue
		}
		if len(content)-len(strings.TrimLeft(content, " ")) <= indent {
			break
		}
		line = next
	}
	return line
}

func (t *text) line(n int) string {
	from, to := t.lines[n-1], len(t.text)
	if n < len(t.lines) {
		to = t.lines[n]
	}
	return t.text[from:to]
}

// addLines adds the entries of a collection in block style below a line.
func (t *text) addLines(line, indent int, value any) {
	at := len(t.text)
	if line < len(t.lines) {
		at = t.lines[line]
	}
	var b strings.Builder
	unended := at > 0 && t.text[at-1] != '\n'
	if unended {
		b.WriteString(t.newline)
	}
	for l := range strings.Lines(blockText(value)) {
		b.WriteString(strings.Repeat(" ", indent) + strings.TrimSuffix(l, "\n") + t.newline)
	}
	added := b.String()
	if unended {
		added = strings.TrimSuffix(added, t.newline)
	}
	t.replace(at, at, added)
}

// flowEntry writes an entry of a collection in flow style, with quotes if the others have them.
func (t *text) flowEntry(f field, key string, value any, list bool) string {
	quote := ""
	if rest := strings.TrimLeft(t.text[f.from+1:f.to], " \t\r\n"); strings.HasPrefix(rest, `"`) || strings.HasPrefix(strings.TrimLeft(t.text, " \t\r\n"), "{") {
		quote = `"`
	}
	if list {
		return flowText(value, quote)
	}
	return flowText(key, quote) + ": " + flowText(value, quote)
}
