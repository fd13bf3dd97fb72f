package render

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A blockReader builds the node tree that the YAML library would build from YAML as
// most people and tools write it, several times faster: block maps and lists, plain
// and quoted scalars, literal blocks, and short flow collections. It gives up at
// anything else, such as anchors, tags, tabs and what may be an error; the library
// reads that. Nodes have no comments, and plain scalars have no tag.
type blockReader struct {
	text   []byte
	texts  map[string]any // short strings, see decoder.shared
	nodes  nodePool
	stack  []*yaml.Node // children of collections that are not complete
	line   int          // of off, from 1
	off    int          // where the line begins
	indent int          // of the line; -1 at the end
	bad    bool         // it gave up
	ascii  bool
}

// Limits of a text that a blockReader reads.
const (
	maxBlockDepth = 100
	maxBlockKey   = 500 // bytes, of which the library takes 1024
)

// A nodePool allocates nodes together, and can use them again.
type nodePool struct {
	chunks [][]yaml.Node
	used   int // chunks, but for the last one
	next   int // node of the last one
}

func (p *nodePool) new() *yaml.Node {
	if p.used == len(p.chunks) {
		p.chunks = append(p.chunks, make([]yaml.Node, 16<<min(5, len(p.chunks))))
	}
	n := &p.chunks[p.used][p.next]
	if p.next++; p.next == len(p.chunks[p.used]) {
		p.used, p.next = p.used+1, 0
	}
	*n = yaml.Node{Content: n.Content[:0]}
	return n
}

// reset frees all nodes.
func (p *nodePool) reset() { p.used, p.next = 0, 0 }

// parse returns nil if it gave up.
func (r *blockReader) parse(text []byte) *yaml.Node {
	r.text, r.line, r.off, r.bad, r.ascii = text, 1, 0, false, isASCII(text)
	r.stack = r.stack[:0]
	r.nodes.reset()
	if !printable(text, r.ascii) {
		return nil
	}
	r.skip()
	if r.indent < 0 || r.bad {
		return nil
	}
	n := r.block(0)
	if r.bad || r.indent >= 0 {
		return nil
	}
	return n
}

// printable reports whether all characters are among those that YAML allows, and none
// is a line break other than a line feed.
func printable(text []byte, ascii bool) bool {
	for _, b := range text {
		if b < ' ' && b != '\n' && b != '\t' || b == 0x7f {
			return false
		}
	}
	if ascii {
		return true
	}
	for rest := text; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		if c >= 0x7f && c < 0xa0 || c == utf8.RuneError || c == '\u2028' || c == '\u2029' || c == '\ufeff' || c > 0xfffd && c < 0x10000 {
			return false
		}
		rest = rest[size:]
	}
	return true
}

// lineEnd returns where the line at an offset ends, without its line feed.
func (r *blockReader) lineEnd(off int) int {
	if n := bytes.IndexByte(r.text[off:], '\n'); n >= 0 {
		return off + n
	}
	return len(r.text)
}

// spaces returns the offset after the spaces at an offset.
func (r *blockReader) spaces(off int) int {
	for off < len(r.text) && r.text[off] == ' ' {
		off++
	}
	return off
}

// at returns the character at an offset, a line feed at the end of the text.
func (r *blockReader) at(off int) byte {
	if off < len(r.text) {
		return r.text[off]
	}
	return '\n'
}

// skip goes from the beginning of a line to the next one with content.
func (r *blockReader) skip() {
	for r.off < len(r.text) {
		content := r.spaces(r.off)
		switch r.at(content) {
		case '\n':
			r.off, r.line = content+1, r.line+1
			continue
		case '#':
			r.off, r.line = r.lineEnd(content)+1, r.line+1
			continue
		case '\t':
			r.bad = true
		}
		r.indent = content - r.off
		if rest := r.text[content:]; r.indent == 0 && (bytes.HasPrefix(rest, separator) || bytes.HasPrefix(rest, []byte("..."))) {
			r.bad = true
		}
		return
	}
	r.indent = -1
}

// finish goes from the end of a value to the next line with content. Only blanks and a
// comment may follow the value on its line, and the next line may not be indented deeper
// than indent, the indentation of the value's map or list.
func (r *blockReader) finish(off, indent int) {
	end := r.spaces(off)
	if c := r.at(end); c == '#' && end > off {
		end = r.lineEnd(end)
	} else if c != '\n' {
		r.bad = true
		return
	}
	r.nextLine(end)
	r.bad = r.bad || r.indent > indent
}

// nextLine goes to the line with content after the line that ends at an offset.
func (r *blockReader) nextLine(end int) {
	r.off, r.line = end+1, r.line+1
	r.skip()
}

// node returns a node that begins at an offset of the line.
func (r *blockReader) node(kind yaml.Kind, tag string, off int) *yaml.Node {
	n := r.nodes.new()
	n.Kind, n.Tag, n.Line, n.Column = kind, tag, r.line, off-r.off+1
	if !r.ascii {
		n.Column = utf8.RuneCount(r.text[r.off:min(off, len(r.text))]) + 1
	}
	return n
}

func (r *blockReader) scalar(off int, style yaml.Style, value []byte) *yaml.Node {
	tag := ""
	if style != 0 {
		tag = "!!str"
	}
	n := r.node(yaml.ScalarNode, tag, off)
	n.Style, n.Value = style, r.string(value)
	return n
}

// string returns a string, the same one for equal short texts.
func (r *blockReader) string(b []byte) string {
	if len(b) > maxSharedText {
		return string(b)
	}
	if known, ok := r.texts[string(b)]; ok {
		return known.(string)
	}
	s := string(b)
	if len(r.texts) < maxSharedTexts {
		r.texts[s] = s
	}
	return s
}

// close completes a collection with the nodes that are on the stack from base on.
func (r *blockReader) close(n *yaml.Node, base int) *yaml.Node {
	n.Content = append(n.Content, r.stack[base:]...)
	r.stack = r.stack[:base]
	return n
}

// block reads the map or list that begins on the line.
func (r *blockReader) block(depth int) *yaml.Node {
	from := r.off + r.indent
	if r.isItem(from) {
		return r.list(from, r.indent, false, depth)
	}
	return r.mapping(from, r.indent, depth)
}

// isItem reports whether an item of a list begins at an offset.
func (r *blockReader) isItem(off int) bool {
	return r.text[off] == '-' && (r.at(off+1) == ' ' || r.at(off+1) == '\n')
}

// mapping reads the map whose first key is at from, and whose other keys are on lines
// with the indentation.
func (r *blockReader) mapping(from, indent, depth int) *yaml.Node {
	n := r.node(yaml.MappingNode, "!!map", from)
	base := len(r.stack)
	if r.bad = r.bad || depth > maxBlockDepth; r.bad {
		return n
	}
	for {
		key, end := r.key(from)
		if key == nil {
			r.bad = true
			return n
		}
		r.stack = append(r.stack, key)
		value := r.value(end, indent, true, depth)
		r.stack = append(r.stack, value)
		if from = r.off + r.indent; r.bad || r.indent < indent {
			return r.close(n, base)
		}
		if r.bad = r.indent > indent || r.isItem(from); r.bad {
			return n
		}
	}
}

// key reads a key and returns the offset after its colon. It returns nil if there is
// none that it can read.
func (r *blockReader) key(from int) (n *yaml.Node, after int) {
	c := r.text[from]
	if c == '"' || c == '\'' {
		value, end, ok := r.quoted(from)
		if !ok || r.at(end) != ':' || !r.blankAt(end+1) || end-from > maxBlockKey {
			return nil, 0
		}
		return r.scalar(from, styleOf(c), value), end + 1
	}
	if strings.IndexByte("-?:,[]{}#&*!|>%@`<=", c) >= 0 {
		return nil, 0
	}
	for off := from; off < len(r.text) && off-from < maxBlockKey; off++ {
		switch r.text[off] {
		case '\n', '\t', '#':
			return nil, 0
		case ' ':
			if r.at(off+1) == ':' || r.at(off+1) == ' ' {
				return nil, 0
			}
		case ':':
			if r.blankAt(off + 1) {
				return r.scalar(from, 0, r.text[from:off]), off + 1
			}
		}
	}
	return nil, 0
}

func (r *blockReader) blankAt(off int) bool { return r.at(off) == ' ' || r.at(off) == '\n' }

// list reads the list whose first item begins at from. A list that is a field of a map
// may have the map's indentation.
func (r *blockReader) list(from, indent int, inMap bool, depth int) *yaml.Node {
	n := r.node(yaml.SequenceNode, "!!seq", from)
	base := len(r.stack)
	if r.bad = r.bad || depth > maxBlockDepth; r.bad {
		return n
	}
	for {
		item := r.item(from+1, indent, depth)
		r.stack = append(r.stack, item)
		if from = r.off + r.indent; r.bad || r.indent < indent {
			return r.close(n, base)
		}
		if r.bad = r.indent > indent; r.bad {
			return n
		}
		if !r.isItem(from) {
			r.bad = !inMap
			return r.close(n, base)
		}
	}
}

// item reads what follows the dash of an item.
func (r *blockReader) item(off, indent, depth int) *yaml.Node {
	from := r.spaces(off)
	if c := r.at(from); c == '\n' || c == '#' {
		return r.value(off, indent, false, depth)
	}
	if r.isItem(from) {
		return r.list(from, from-r.off, false, depth+1)
	}
	if r.hasKey(from) {
		return r.mapping(from, from-r.off, depth+1)
	}
	return r.value(off, indent, false, depth)
}

// hasKey reports whether there is a key at an offset.
func (r *blockReader) hasKey(from int) bool {
	switch c := r.text[from]; c {
	case '"', '\'':
		_, end, ok := r.quoted(from)
		return ok && r.at(end) == ':'
	case '|', '>', '[', '{':
		return false
	}
	line := r.text[from:r.lineEnd(from)]
	if n := bytes.Index(line, []byte(" #")); n >= 0 {
		line = line[:n]
	}
	return bytes.Contains(line, []byte(": ")) || bytes.HasSuffix(line, []byte(":"))
}

// value reads the value of a key or an item from the offset after the colon or dash.
// inMap is for that of a key.
func (r *blockReader) value(off, indent int, inMap bool, depth int) *yaml.Node {
	from := r.spaces(off)
	c := r.at(from)
	if c != '\n' && (c != '#' || from == off) {
		return r.inline(from, indent, depth)
	}
	empty := r.scalar(off, 0, nil)
	r.nextLine(r.lineEnd(from))
	switch {
	case r.bad || r.indent < indent:
	case r.indent > indent:
		return r.block(depth + 1)
	case inMap && r.isItem(r.off+r.indent):
		return r.list(r.off+r.indent, indent, true, depth+1)
	}
	return empty
}

// inline reads a value that begins on the line of its key or dash.
func (r *blockReader) inline(from, indent, depth int) *yaml.Node {
	switch c := r.text[from]; c {
	case '"', '\'':
		value, end, ok := r.quoted(from)
		n := r.scalar(from, styleOf(c), value)
		if !ok {
			return r.quotedLines(n, from, indent)
		}
		r.finish(end, indent)
		return n
	case '[', '{':
		n, end := r.flow(from, depth+1)
		if r.bad = r.bad || n == nil; !r.bad {
			r.finish(end, indent)
		}
		return n
	case '|':
		return r.literal(from, indent)
	case '&', '*', '!', '>', '%', '@', '`', '#', ',', ']', '}', '?', ':', '\t':
		r.bad = true
		return nil
	case '-':
		if r.blankAt(from + 1) {
			r.bad = true
			return nil
		}
	}
	return r.plain(from, indent)
}

func styleOf(quote byte) yaml.Style {
	if quote == '"' {
		return yaml.DoubleQuotedStyle
	}
	return yaml.SingleQuotedStyle
}

// doubleEscapes are the characters that may follow a backslash in double quotes, with what
// they mean. The library knows more.
var doubleEscapes = map[byte]byte{'"': '"', '\\': '\\', 'n': '\n', 't': '\t'}

// quoted reads a quoted scalar that ends on its line. ok is false if there is none that
// it can read.
func (r *blockReader) quoted(from int) (value []byte, end int, ok bool) {
	quote := r.text[from]
	begin := from + 1 // of what is not in value yet
	for off := begin; off < len(r.text); off++ {
		switch c := r.text[off]; {
		case c == '\n' || c == '\t':
			return nil, 0, false
		case c == '\\' && quote == '"':
			meant, known := doubleEscapes[r.at(off+1)]
			if !known {
				return nil, 0, false
			}
			value = append(append(value, r.text[begin:off]...), meant)
			begin, off = off+2, off+1
		case c == quote && quote == '\'' && r.at(off+1) == quote:
			value = append(value, r.text[begin:off+1]...)
			begin, off = off+2, off+1
		case c == quote:
			if value == nil {
				return r.text[begin:off], off + 1, true
			}
			return append(value, r.text[begin:off]...), off + 1, true
		}
	}
	return nil, 0, false
}

// quotedLines reads a quoted scalar of several lines.
func (r *blockReader) quotedLines(n *yaml.Node, from, indent int) *yaml.Node {
	quote := r.text[from]
	end := from + 1
	for ; ; end++ {
		if end >= len(r.text) || r.text[end] == '\t' || quote == '"' && r.text[end] == '\\' {
			r.bad = true
			return n
		}
		if r.text[end] == quote {
			if quote != '\'' || r.at(end+1) != '\'' {
				break
			}
			end++
		}
	}
	lines := bytes.Split(r.text[from+1:end], []byte("\n"))
	value := append(bytes.Clone(bytes.TrimRight(lines[0], " ")), '\n')
	for i, line := range lines[1:] {
		content := bytes.TrimLeft(line, " ")
		last := i == len(lines)-2
		if r.bad = (last || len(content) > 0) && len(line)-len(content) <= indent; r.bad {
			return n
		}
		switch {
		case last:
			value = append(unfold(value), content...)
		case len(content) == 0:
			value = append(value, '\n')
		default:
			value = append(append(unfold(value), bytes.TrimRight(content, " ")...), '\n')
		}
	}
	if quote == '\'' {
		value = bytes.ReplaceAll(value, []byte("''"), []byte("'"))
	}
	n.Value = string(value)
	r.line += len(lines) - 1
	r.off = bytes.LastIndexByte(r.text[:end], '\n') + 1
	r.finish(end+1, indent)
	return n
}

// unfold folds the line breaks at the end of a value: one is a space, several are one
// less.
func unfold(value []byte) []byte {
	if n := len(value); n < 2 || value[n-2] != '\n' {
		value[n-1] = ' '
		return value
	}
	return value[:len(value)-1]
}

// plain reads a plain scalar.
func (r *blockReader) plain(from, indent int) *yaml.Node {
	end := r.lineEnd(from)
	line := r.text[from:end]
	comment := bytes.Index(line, []byte(" #"))
	if comment >= 0 {
		line = line[:comment]
	}
	if r.bad = !plainLine(line); r.bad {
		return nil
	}
	line = bytes.TrimRight(line, " ")
	n := r.scalar(from, 0, line)
	if next := r.spaces(end + 1); comment >= 0 || next < len(r.text) && r.text[next] != '\n' && next-end-1 <= indent {
		r.nextLine(end)
		r.bad = r.bad || r.indent > indent
		return n
	}
	return r.plainLines(n, line, end, indent)
}

// plainLines reads the further lines of a plain scalar, if it has some.
func (r *blockReader) plainLines(n *yaml.Node, line []byte, end, indent int) *yaml.Node {
	value, last, lines := append(bytes.Clone(line), '\n'), end, 0
	for i := 1; end < len(r.text); i++ {
		from := end + 1
		content := r.spaces(from)
		end = r.lineEnd(from)
		if content >= end {
			if from < len(r.text) {
				value = append(value, '\n')
			}
			continue
		}
		if content-from <= indent {
			break
		}
		line := r.text[content:end]
		if line[0] == '#' {
			break
		}
		if bytes.Contains(line, []byte(" #")) || !plainLine(line) {
			r.bad = true
			return n
		}
		value, last, lines = append(append(unfold(value), bytes.TrimRight(line, " ")...), '\n'), end, i
	}
	if lines > 0 {
		n.Value = string(bytes.TrimRight(value, "\n"))
	}
	r.line += lines
	r.nextLine(last)
	r.bad = r.bad || r.indent > indent
	return n
}

// plainLine reports whether a line of a plain scalar has nothing that ends it.
func plainLine(line []byte) bool {
	return bytes.IndexByte(line, '\t') < 0 && !bytes.Contains(line, []byte(": ")) && !bytes.HasSuffix(line, []byte(":"))
}

// literal reads a literal block.
func (r *blockReader) literal(from, indent int) *yaml.Node {
	n := r.scalar(from, yaml.LiteralStyle, nil)
	end := r.lineEnd(from)
	header := string(bytes.TrimRight(r.text[from:end], " "))
	if r.bad = header != "|" && header != "|-" && header != "|+"; r.bad {
		return n
	}
	width, blank := -1, 0 // of the block's indentation, and of the longest line of spaces before it
	var value []byte
	for begin := end + 1; begin < len(r.text); begin = end + 1 {
		content, next := r.spaces(begin), r.lineEnd(begin)
		switch indented := content - begin; {
		case content == next: // a line of spaces
			if width < 0 {
				blank = max(blank, indented)
			} else if indented > width {
				value = append(value, r.text[begin+width:next]...)
			}
		case width >= 0 && indented < width:
			if r.bad = indented > indent || r.text[content] == '\t'; !r.bad {
				n.Value = chomp(value, header)
				r.nextLine(end)
			}
			return n
		default:
			if width < 0 {
				width = indented
			}
			if r.bad = width <= indent || blank > width || indented == width && r.text[content] == '\t'; r.bad {
				return n
			}
			value = append(value, r.text[begin+width:next]...)
		}
		if end = next; next < len(r.text) {
			value = append(value, '\n')
		}
		r.line++
	}
	n.Value = chomp(value, header)
	r.bad = width < 0
	r.off, r.indent = len(r.text), -1
	return n
}

// chomp returns the value of a literal block by what its header says about the line
// breaks at its end.
func chomp(value []byte, header string) string {
	text := bytes.TrimRight(value, "\n")
	switch header {
	case "|":
		text = value[:min(len(text)+1, len(value))]
	case "|+":
		text = value
	}
	return string(text)
}

// flow reads a flow collection that ends on its line, and returns the offset after it.
// It returns nil if there is none that it can read.
func (r *blockReader) flow(from, depth int) (*yaml.Node, int) {
	n := r.node(yaml.SequenceNode, "!!seq", from)
	closing := byte(']')
	if r.text[from] == '{' {
		n.Kind, n.Tag, closing = yaml.MappingNode, "!!map", '}'
	}
	n.Style = yaml.FlowStyle
	base := len(r.stack)
	off := r.spaces(from + 1)
	if r.at(off) == closing {
		return n, off + 1
	}
	for depth < maxBlockDepth {
		if closing == '}' {
			key, end := r.flowScalar(off)
			if key == nil || r.at(end) != ':' || r.at(end+1) != ' ' || key.Value == "" || key.Value == "<<" || end-off > maxBlockKey {
				return nil, 0
			}
			r.stack = append(r.stack, key)
			off = r.spaces(end + 1)
		}
		value, end := r.flowValue(off, depth)
		if value == nil {
			return nil, 0
		}
		r.stack = append(r.stack, value)
		switch off = r.spaces(end); r.at(off) {
		case closing:
			return r.close(n, base), off + 1
		case ',':
			off = r.spaces(off + 1)
		default:
			return nil, 0
		}
	}
	return nil, 0
}

func (r *blockReader) flowValue(off, depth int) (*yaml.Node, int) {
	if c := r.at(off); c == '[' || c == '{' {
		return r.flow(off, depth+1)
	}
	return r.flowScalar(off)
}

// flowScalar reads a scalar of a flow collection: a quoted one, or one of characters
// that mean nothing there.
func (r *blockReader) flowScalar(from int) (*yaml.Node, int) {
	c := r.at(from)
	if c == '"' || c == '\'' {
		value, end, ok := r.quoted(from)
		if !ok {
			return nil, 0
		}
		return r.scalar(from, styleOf(c), value), end
	}
	if c == '-' && inWord(r.at(from+1)) {
		c = 'a' // as in [--port=80, -v, -1]
	}
	if strings.IndexByte("-?:,[]{}#&*!|>%@`<=", c) >= 0 {
		return nil, 0
	}
	off := from
	for ; ; off++ {
		c := r.at(off)
		if c == ',' || c == ']' || c == '}' || c == ':' && r.at(off+1) == ' ' {
			break
		}
		if c == '\n' || c == '\t' || c == ':' && strings.IndexByte("\n,?[]{}", r.at(off+1)) >= 0 || strings.IndexByte("[{#\"'&*!|>%@`?", c) >= 0 {
			return nil, 0
		}
	}
	value := bytes.TrimRight(r.text[from:off], " ")
	if len(value) == 0 || r.at(off) == ':' && len(value) < off-from {
		return nil, 0
	}
	return r.scalar(from, 0, value), off
}

// parseBlock returns the nodes of a text, or nil if the YAML library has to read it.
// They are valid until the next call.
func (s *source) parseBlock(text []byte) *yaml.Node {
	if s.block == nil {
		s.block = blockReaders.Get().(*blockReader)
	}
	s.scratch.prepare()
	s.block.texts = s.scratch.texts
	return s.block.parse(text)
}

// blockReaders are those that no file uses, with the memory of their nodes.
var blockReaders = sync.Pool{New: func() any { return new(blockReader) }}

// freeBlock leaves the blockReader of the file, and all nodes, to another one.
func (s *source) freeBlock() {
	if s.block != nil {
		s.block.text, s.block.texts = nil, nil
		blockReaders.Put(s.block)
		s.block = nil
	}
}

// ParseNode returns the nodes of a YAML text as the YAML library has them, but for
// comments. It returns nil if the text has to be read by the library.
func ParseNode(text []byte) *yaml.Node {
	r := blockReader{texts: make(map[string]any)}
	n := r.parse(text)
	if n == nil && isJSONLine(text, r.ascii) {
		if n = parseJSON(text); n != nil && hasLongKey(n) {
			return nil
		}
	}
	if n != nil {
		resolveTags(n)
	}
	return n
}

// isJSONLine reports whether a text, if it is JSON, is one line that the YAML library
// reads, too: it refuses some escapes, some tabs, and line breaks before a colon.
func isJSONLine(text []byte, ascii bool) bool {
	text = bytes.TrimRight(text, "\n")
	if bytes.ContainsAny(text, "\n\t") || !printable(text, ascii) {
		return false
	}
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); i += 2 {
		if strings.IndexByte(`"\bfnrt`, text[i+1]) < 0 && !bytes.HasPrefix(text[i+1:], []byte("u00")) {
			return false
		}
		next := bytes.IndexByte(text[i+2:], '\\')
		if next < 0 {
			return true
		}
		i += next
	}
	return true
}

// hasLongKey reports whether a map has a key that may be longer than the library allows.
func hasLongKey(n *yaml.Node) bool {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && len(c.Value) > maxBlockKey/6 || hasLongKey(c) { // an escape takes up to six bytes
			return true
		}
	}
	return false
}

func resolveTags(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "" {
		n.Tag = n.ShortTag()
	}
	n.Content = slices.Clip(n.Content)
	for _, c := range n.Content {
		resolveTags(c)
	}
}
