package helm

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
	"unsafe"

	yamlv3 "go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/preadmit/preadmit/render"
)

// A supply knows of a release that was rendered which values its output was
// made of. It is safe for concurrent use.
type supply struct {
	x     *execution
	root  *home
	homes map[*chart.Chart]*home
	data  []chartText

	mu      sync.Mutex
	regions []region // by address, once somebody asked
	boxes   map[unsafe.Pointer]*node
	numbers map[unsafe.Pointer]*record
	parsed  map[unsafe.Pointer]*yamlv3.Node
	read    int // bytes of it
}

// A chartText is a chart's file that is no template.
type chartText struct {
	at   place
	data []byte
}

// A region is a piece of memory with text of which more is known: one of the
// fields is set.
type region struct {
	text   string
	node   *node // of which it is the value or, with key, the key
	key    bool
	file   *chartText
	trace  *trace
	record *record
}

func newSupply(x *execution, rel *release) *supply {
	s := &supply{x: x, homes: map[*chart.Chart]*home{}}
	s.root = newHome(rel.reader, rel.chart, nil, s.homes)
	s.root.given = given(rel.src, rel.layers)
	return s
}

func (s *supply) files(r *reader, list []*chart.File) {
	for _, f := range list {
		if len(f.Data) > 0 {
			s.data = append(s.data, chartText{r.places[f], f.Data})
		}
	}
}

// index makes what is known findable by address.
func (s *supply) index() {
	if s.boxes != nil {
		return
	}
	s.boxes, s.numbers, s.parsed = map[unsafe.Pointer]*node{}, map[unsafe.Pointer]*record{}, map[unsafe.Pointer]*yamlv3.Node{}
	for i := range s.data {
		f := &s.data[i]
		s.add(region{text: unsafe.String(&f.data[0], len(f.data)), file: f})
	}
	for _, n := range s.x.nodes {
		s.boxes[word(n.val)] = n
		if text, ok := n.val.(string); ok {
			s.add(region{text: text, node: n})
		}
		if !n.item && n.tree.chart == nil {
			s.add(region{text: n.key, node: n, key: true})
		}
	}
	for _, t := range s.x.traces {
		s.add(region{text: t.text, trace: t})
	}
	for i := range s.x.records {
		rec := &s.x.records[i]
		if text, ok := rec.out.(string); ok {
			s.add(region{text: text, record: rec})
		} else {
			s.numbers[word(rec.out)] = rec
		}
	}
	slices.SortStableFunc(s.regions, func(a, b region) int { return cmp.Compare(start(a.text), start(b.text)) })
}

func (s *supply) add(r region) {
	if r.text != "" {
		s.regions = append(s.regions, r)
	}
}

func start(text string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(text))) }

// region finds the text that another one is part of in memory, and where.
func (s *supply) region(text string) (r *region, off int) {
	if text == "" {
		return nil, 0
	}
	at := start(text)
	i := sort.Search(len(s.regions), func(i int) bool { return start(s.regions[i].text) > at }) - 1
	if i < 0 {
		return nil, 0
	}
	r = &s.regions[i]
	if off = int(at - start(r.text)); off+len(text) > len(r.text) {
		return nil, 0
	}
	return r, off
}

// A hit is a value that supplied something.
type hit struct {
	node *node
	key  bool // it was its key
	off  int  // and where in its text
	text string
	file *chartText // in place of a node
	sure bool       // text is what was written, not what it was made of
	// template is true of an action within a text given to tpl
	template bool
}

// A search follows what was written back to values. It is bounded: hostile
// charts can make what fans out without end.
type search struct {
	*supply
	whole bool // a map or a list is wanted where one begins
	// writers, if any, gets the places in templates on the way to the first hit.
	writers *writers
	hits    []hit
	left    int
}

const (
	maxSearch = 2000 // steps
	maxHits   = 8
	maxParsed = 16 << 20 // bytes of text that are parsed again, of a release
)

// more takes a step from the budget, and those that it takes to look through a
// text.
func (s *search) more(depth int, text string) bool {
	s.left -= 1 + len(text)>>12
	return depth < maxHops && s.left > 0 && len(s.hits) < maxHits
}

// seen grows with what is found.
func (s *search) seen() int {
	if s.writers == nil {
		return len(s.hits)
	}
	return len(s.hits) + len(s.writers.found)
}

// writers returns the places in templates that wrote what is between two
// offsets, outermost first, also through text that was read and written again.
func (s *supply) writers(t *trace, from, to int) []render.Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index()
	w := &writers{x: s.x}
	in := search{supply: s, writers: w, left: maxSearch}
	in.trace(t, from, max(to, from+1), 0)
	return w.found
}

// trace finds what supplied a trace's text between two offsets.
func (s *search) trace(t *trace, from, to, depth int) {
	first := max(0, sort.Search(len(t.events), func(i int) bool { return int(t.events[i].off) > from })-1)
	for i := first; i < len(t.events) && int(t.events[i].off) < to && s.more(depth, ""); i++ {
		if i > first && s.writers != nil {
			return
		}
		e := &t.events[i]
		begin, end := int(e.off), len(t.text)
		if i+1 < len(t.events) {
			end = int(t.events[i+1].off)
		}
		a, b := max(from, begin)-begin, min(to, end)-begin
		if a >= b {
			continue
		}
		if s.writers != nil {
			s.writers.event(e, a, b)
		}
		if e.text {
			if t.given != "" && e.src == t.src {
				s.text(t.given, int(e.pos)+a, int(e.pos)+b, depth+1)
			}
			continue
		}
		s.action(e, t.text[begin:end], a, b, depth)
		if t.given != "" && e.src == t.src && s.x.fileOf(e.src) == nil {
			spot, before := e.src.spots[e.pos], len(s.hits)
			s.text(t.given, int(spot.from), int(spot.to), depth+1)
			for i := before; i < len(s.hits); i++ {
				s.hits[i].template = true
			}
		}
	}
}

func (s *search) action(e *event, printed string, a, b, depth int) {
	before := s.seen()
	if text, ok := e.val.(string); ok {
		s.text(text, a, b, depth+1)
	} else if e.val != nil {
		s.value(e.val, depth+1)
	}
	for i := len(e.kids) - 1; i >= 0 && s.seen() == before; i-- {
		if from, to, ok := partOfText(printed, e.kids[i].text, a, b); ok {
			s.trace(e.kids[i], from, to, depth+1)
		}
	}
}

// text finds what supplied a string between two offsets.
func (s *search) text(text string, a, b, depth int) {
	if !s.more(depth, text) || a >= b || b > len(text) {
		return
	}
	r, off := s.region(text)
	if r == nil {
		s.config(text, a, b, depth)
		return
	}
	from, to := a+off, b+off
	switch {
	case r.node != nil:
		s.node(hit{node: r.node, key: r.key, off: from, text: r.text[from:to], sure: true}, depth)
	case r.file != nil:
		s.hits = append(s.hits, hit{file: r.file, off: from, text: r.text[from:to], sure: true})
	case r.trace != nil:
		s.trace(r.trace, from, to, depth+1)
	case r.record.yaml:
		s.marshaled(r.record, from, to, depth+1)
	default:
		before := s.seen()
		for _, arg := range r.record.args {
			if s.argument(r.text, arg, from, to, depth+1); s.writers != nil && s.seen() > before {
				return // what follows is beside it
			}
		}
	}
}

// config finds the file behind a text that .Files.AsConfig or AsSecrets made:
// the one of that name with that content.
func (s *search) config(text string, a, b, depth int) {
	if !strings.Contains(text, ": ") {
		return
	}
	doc := s.yaml(text)
	if doc == nil || doc.Kind != yamlv3.MappingNode {
		return
	}
	line, column := position([]byte(text), a)
	n, name, _ := childAt(doc, line, column)
	for i := range s.data {
		f := &s.data[i]
		if n == nil || path.Base(cmp.Or(f.at.entry, f.at.file)) != name {
			continue
		}
		content := unsafe.String(&f.data[0], len(f.data))
		switch n.Value {
		case content:
			s.scalar(text, n, content, a, b, depth+1)
		case base64.StdEncoding.EncodeToString(f.data):
			s.text(content, 0, len(content), depth+1)
		}
	}
}

// argument finds what supplied a function's argument, if it is in the part
// between two offsets of what the function made.
func (s *search) argument(out string, arg any, a, b, depth int) {
	if !s.more(depth, out) {
		return
	}
	switch arg := arg.(type) {
	case nil:
	case string:
		if from, to, ok := partOfText(out, arg, a, b); ok {
			s.text(arg, from, to, depth)
		} else if out == strconv.Quote(arg) {
			s.text(arg, 0, len(arg), depth)
		} else if !strings.Contains(out, arg) && !strings.Contains(arg, "\n") {
			before := len(s.hits)
			s.text(arg, 0, len(arg), depth)
			for i := before; i < len(s.hits); i++ {
				s.hits[i].sure = false
			}
		}
	case []any:
		for _, item := range arg {
			s.argument(out, item, a, b, depth+1)
		}
	case []string:
		for _, item := range arg {
			s.argument(out, item, a, b, depth+1)
		}
	case map[string]any:
	default:
		if strings.Contains(out[a:b], fmt.Sprint(arg)) {
			s.value(arg, depth)
		}
	}
}

// partOfText finds the offsets within inner of what out has of it between two
// offsets. With more than one place to choose from, it is all of inner.
func partOfText(out, inner string, a, b int) (from, to int, ok bool) {
	i := strings.Index(out, inner)
	switch {
	case inner == "":
		return 0, 0, false
	case i < 0:
		return aligned(out, inner, a, b)
	case strings.Contains(out[i+1:], inner):
		return 0, len(inner), strings.Contains(out[a:b], inner)
	}
	return max(a-i, 0), min(b-i, len(inner)), a < i+len(inner) && b > i
}

// aligned is partOfText where out has other blanks around the lines of inner.
func aligned(out, inner string, a, b int) (from, to int, ok bool) {
	for a < b && strings.IndexByte(" \t\n", out[a]) >= 0 {
		a++
	}
	for a < b && strings.IndexByte(" \t\n", out[b-1]) >= 0 {
		b--
	}
	if from, to, ok = align(out, inner, a, b); !ok || from >= to {
		return 0, 0, false
	}
	if _, last, ok := align(out, inner, b-1, b); ok { // b may be lines below a
		to = max(to, last)
	}
	return from, to, true
}

// value finds what supplied a number, a truth value, a map or a list.
func (s *search) value(v any, depth int) {
	if !s.more(depth, "") || v == nil {
		return
	}
	if text, ok := v.(string); ok {
		s.text(text, 0, len(text), depth)
		return
	}
	switch reflect.TypeOf(v).Kind() {
	case reflect.Map, reflect.Pointer, reflect.Slice, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
	default:
		return
	}
	if n := s.boxes[word(v)]; n != nil {
		s.node(hit{node: n, text: scalarText(v), sure: true}, depth)
	} else if rec := s.numbers[word(v)]; rec != nil {
		for _, arg := range rec.args {
			s.value(arg, depth+1)
		}
	} else if n := s.copied(v); n != nil {
		s.node(hit{node: n, sure: true}, depth)
	}
}

func scalarText(v any) string {
	switch v.(type) {
	case map[string]any, table, []any:
		return ""
	}
	return fmt.Sprint(v)
}

// copied is the node of a map or list that another is a copy of: that above all
// of its parts.
func (s *search) copied(v any) (above *node) {
	same := func(part any) bool {
		n := s.nodeOf(part)
		if n == nil || above != nil && n.above != above {
			return false
		}
		above = n.above
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if v[key] != nil && !same(v[key]) {
				return nil
			}
		}
	case []any:
		for _, item := range v {
			if !same(item) {
				return nil
			}
		}
	}
	return above
}

func (s *search) nodeOf(v any) *node {
	if v == nil {
		return nil
	}
	if n := s.boxes[word(v)]; n != nil {
		return n
	}
	if text, ok := v.(string); ok {
		if r, off := s.region(text); r != nil && r.node != nil && !r.key && off == 0 && len(text) == len(r.text) {
			return r.node
		}
	}
	return nil
}

// node notes a value, or goes on with the text that it was read from.
func (s *search) node(h hit, depth int) {
	text := h.node.tree.text
	if text == "" {
		s.hits = append(s.hits, h)
		return
	}
	key, value := s.nodeAt(text, h.node)
	if h.key {
		value = key
	}
	if value == nil {
		return
	}
	from := offset(text, value.Line, value.Column)
	to := from + 1
	if value.Kind == yamlv3.ScalarNode && value.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) != 0 {
		from, to = blockOf(text, from)
	} else if value.Kind == yamlv3.ScalarNode {
		if value.Style&(yamlv3.SingleQuotedStyle|yamlv3.DoubleQuotedStyle) != 0 {
			from++
		}
		to = min(from+len(value.Value), len(text))
	}
	s.text(text, from, max(from, to), depth+1)
}

// yaml is the tree of nodes of a text.
func (s *search) yaml(text string) *yamlv3.Node {
	key := unsafe.Pointer(unsafe.StringData(text))
	doc, ok := s.parsed[key]
	if !ok {
		var parsed yamlv3.Node
		s.read += len(text)
		if s.read < maxParsed && yamlv3.Unmarshal([]byte(text), &parsed) == nil && len(parsed.Content) > 0 {
			doc = parsed.Content[0]
		}
		s.parsed[key] = doc
	}
	return doc
}

// nodeAt returns the YAML nodes of a part of what was read from a text.
func (s *search) nodeAt(text string, n *node) (key, value *yamlv3.Node) {
	if n.above == nil {
		return nil, s.yaml(text)
	}
	_, above := s.nodeAt(text, n.above)
	if above == nil {
		return nil, nil
	}
	return entryOf(above, n.key)
}

func entryOf(n *yamlv3.Node, step string) (key, value *yamlv3.Node) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			if fmt.Sprint(i) == step {
				return nil, item
			}
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	return nil, nil
}

// marshaled finds what supplied YAML between two offsets: the part of the value
// that was written there.
func (s *search) marshaled(rec *record, from, to, depth int) {
	text := rec.out.(string)
	doc := s.yaml(text)
	if doc == nil {
		return
	}
	if from == 0 && to >= len(strings.TrimSpace(text)) && doc.Kind != yamlv3.ScalarNode && s.writers == nil {
		if node := cmp.Or(s.nodeOf(rec.args[0]), s.copied(rec.args[0])); node != nil && node.tree.text == "" {
			s.hits = append(s.hits, hit{node: node, text: text, sure: true})
			return
		}
	}
	line, column := position([]byte(text), from)
	v, key, n := rec.args[0], false, doc
	var above any
	step := ""
	for !(s.whole && n.Kind != yamlv3.ScalarNode && n.Line == line && n.Column == column) {
		next, name, onKey := childAt(n, line, column)
		if next == nil {
			break
		}
		above, step = v, name
		if v = partOf(v, name); v == nil {
			return
		}
		if n, key = next, onKey; key {
			break
		}
	}
	switch {
	case key:
		s.keyOf(above, step, v, depth)
	case n.Kind == yamlv3.ScalarNode:
		s.scalar(text, n, v, from, to, depth)
	case s.whole:
		s.value(v, depth)
	}
}

// scalar finds what supplied a scalar of which the part between two offsets is
// wanted.
func (s *search) scalar(text string, n *yamlv3.Node, v any, from, to, depth int) {
	str, ok := v.(string)
	if !ok {
		s.value(v, depth)
		return
	}
	if n.Style&yamlv3.LiteralStyle != 0 {
		begin, end := blockOf(text, offset(text, n.Line, n.Column))
		if a, b, ok := partOfText(text[begin:end], str, max(from, begin)-begin, min(to, end)-begin); ok {
			s.text(str, a, b, depth)
			return
		}
	}
	s.text(str, 0, len(str), depth)
}

// keyOf notes the key of a map's field.
func (s *search) keyOf(m any, key string, v any, depth int) {
	fields, _ := fieldsOf(m)
	for k := range fields {
		if k != key {
			continue
		}
		if n := s.nodeOf(v); n != nil && n.key == key {
			s.node(hit{node: n, key: true, text: key, sure: true}, depth)
		} else {
			s.text(k, 0, len(k), depth)
		}
	}
}

func partOf(v any, step string) any {
	if m, ok := fieldsOf(v); ok {
		return m[step]
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Slice:
		for i := range rv.Len() {
			if fmt.Sprint(i) == step {
				return rv.Index(i).Interface()
			}
		}
	case reflect.Map:
		if rv.Type().Key().Kind() == reflect.String {
			if e := rv.MapIndex(reflect.ValueOf(step).Convert(rv.Type().Key())); e.IsValid() {
				return e.Interface()
			}
		}
	}
	return nil
}

// childAt returns the entry of a node that is written at a position or ends
// there.
func childAt(n *yamlv3.Node, line, column int) (child *yamlv3.Node, step string, onKey bool) {
	reached := func(n *yamlv3.Node) bool { return n.Line < line || n.Line == line && n.Column <= column }
	switch n.Kind {
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			if reached(item) {
				child, step = item, fmt.Sprint(i)
			}
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if reached(n.Content[i]) {
				child, step, onKey = n.Content[i+1], n.Content[i].Value, !reached(n.Content[i+1])
			}
		}
	}
	return child, step, onKey
}

// offset is that of a line and column.
func offset(text string, line, column int) int {
	off := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(text[off:], '\n')
		if n < 0 {
			return len(text)
		}
		off += n + 1
	}
	for ; column > 1 && off < len(text) && text[off] != '\n'; column-- {
		_, size := utf8.DecodeRuneInString(text[off:])
		off += size
	}
	return off
}

// blockOf returns the offsets of the lines of a block scalar whose header is at
// an offset: those that are indented more than the first of them that is.
func blockOf(text string, header int) (from, to int) {
	n := strings.IndexByte(text[header:], '\n')
	if n < 0 {
		return len(text), len(text)
	}
	from = header + n + 1
	to = from
	indent := -1
	for at := from; at < len(text); {
		line := text[at:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if strings.TrimSpace(line) != "" {
			if indent < 0 {
				indent = indentation(line)
			}
			if indentation(line) < indent || indent == 0 && header > 0 {
				break
			}
			to = at + len(strings.TrimRight(line, "\r\n"))
		}
		at += len(line)
	}
	return from, to
}

// place is where a hit is written, if it is a line of the tree.
func (s *supply) place(h hit, want any) (render.Origin, bool) {
	if h.file != nil {
		return filePlace(h.file, h.off, len(h.text))
	}
	n := h.node
	at := wanted{key: h.key, off: h.off, val: n.val}
	if c := n.tree.chart; c != nil {
		if c.manifest == nil {
			return render.Origin{}, false
		}
		v, ok := c.manifest.lookup(n.path())
		if !ok || !sameScalar(v, n.val) {
			return render.Origin{}, false
		}
		return c.manifest.origin(n.path(), at)
	}
	if n.above == nil {
		return render.Origin{}, false
	}
	return s.root.find(n.path(), want, at)
}

func filePlace(f *chartText, off, n int) (render.Origin, bool) {
	if f.at.entry != "" {
		return render.Origin{}, false
	}
	rest := f.data[off:min(off+n, len(f.data))]
	if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	line, column := position(f.data, off)
	span := render.Span{File: f.at.file, Line: line, Column: column, EndLine: line, EndColumn: column + utf8.RuneCount(rest)}
	return render.Origin{Span: span, Role: render.Value}, true
}

// proves tells whether what a hit supplied is seen in a field.
func (h hit) proves(field, token string) bool {
	text := strings.TrimSpace(h.text)
	switch {
	case text == "" || h.template:
		return h.template
	case strings.Contains(field, text):
		return h.sure || len(text) > 2 || field == text
	case h.sure && strings.Contains(token, text):
		return true
	case strings.EqualFold(field, text), flat(field) == flat(text):
		return true
	}
	if core := plainText(text); len(core) > 2 && strings.Contains(plainText(field), core) {
		return true // lower, replace "_" "-" and the like
	}
	return field == base64.StdEncoding.EncodeToString([]byte(h.text))
}

// plainText is what remains of a text when it is made a name.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
