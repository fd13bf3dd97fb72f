package helm

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"text/template/parse"
	"unsafe"
)

// A source is the text of a template, parsed and prepared for execution. It is
// immutable. Releases of a process share sources with the same text, such as
// the helpers of a library chart.
type source struct {
	id    string // the name it is parsed under, which errors contain
	text  []byte // text nodes are slices of it, so that their address shows their place
	main  *parse.Tree
	names []string // names of the templates that it defines, sorted
	trees map[string]*parse.Tree
	spots []spot // its actions, by the number in their hook
	base  int    // number of the first spot

	looks   bool                // it calls lookup
	paths   [][]string          // the fields that it reads
	strings []string            // the strings in its actions
	bodies  map[string]*changes // what the templates that it defines may change
}

// A spot is an action in a template's text.
type spot struct {
	from, to int32
	// carries is true if the results of the templates called in it are part of
	// what it prints, for all values.
	carries bool

	pipe *pipe
	keys []keyLine // of the block that the condition may leave out
}

// sources is a bounded cache of parsed templates by content.
type sources struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*parsing
	bytes int
	names map[string]map[string]any // names of functions by the version of Helm
}

type parsing struct {
	once sync.Once
	src  *source
	err  error
}

const maxCached = 64 << 20 // bytes of template text

// spotNumbers counts spots, so that their numbers are unique among sources.
var spotNumbers atomic.Int64

// A templateText is the text of a template, and a hash of it.
type templateText struct {
	text string
	sum  [sha256.Size]byte
}

// newTemplateText returns a text that shares data's memory. The caller may neither change data nor
// make another text of a part of it, since texts are identified by their addresses.
func newTemplateText(data []byte) templateText {
	return templateText{unsafe.String(unsafe.SliceData(data), len(data)), sha256.Sum256(data)}
}

// parse returns the source of a text. version is that of Helm. The error is that of the parser, or
// says that the text is nested too deep.
func (s *sources) parse(t templateText, version string) (*source, error) {
	key := t.sum
	if version != "" {
		key = sha256.Sum256(append(key[:], version...))
	}
	s.mu.Lock()
	p := s.known[key]
	names := s.names[version]
	if names == nil {
		names = functionNames(version)
		if s.names == nil {
			s.names = map[string]map[string]any{}
		}
		s.names[version] = names
	}
	if p == nil {
		if s.known == nil || s.bytes > maxCached {
			s.known, s.bytes = map[[sha256.Size]byte]*parsing{}, 0
		}
		p = &parsing{}
		s.known[key] = p
		s.bytes += len(t.text) + 256
	}
	s.mu.Unlock()
	p.once.Do(func() { p.src, p.err = newSource(fmt.Sprintf("%s%x", idPrefix, key[:12]), t.text, names) })
	return p.src, p.err
}

const idPrefix = "text@"

func newSource(id, text string, functions map[string]any) (*source, error) {
	trees, err := parse.Parse(id, text, "", "", functions)
	if err != nil {
		return nil, err
	}
	s := &source{id: id, text: unsafe.Slice(unsafe.StringData(text), len(text)), main: trees[id], trees: trees, bodies: map[string]*changes{}}
	if s.main == nil { // only definitions
		s.main = &parse.Tree{Name: id, ParseName: id, Root: &parse.ListNode{NodeType: parse.NodeList}}
	}
	delete(trees, id)
	in := instrument{src: s}
	s.names = sortedKeys(trees)
	for _, name := range s.names {
		in.template(name, trees[name].Root)
	}
	in.template("", s.main.Root)
	s.base = int(spotNumbers.Add(int64(len(s.spots)))) - len(s.spots)
	in.number(s.base)
	return s, in.err
}

// holds reports whether p, which is not empty, is part of the text, and at
// which offset.
func (s *source) holds(p []byte) (off int, ok bool) {
	if len(s.text) == 0 {
		return 0, false
	}
	d := address(p) - address(s.text)
	return int(d), d < uintptr(len(s.text))
}

// address returns an address for comparisons. It must not be dereferenced.
func address(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

// includes reports whether a pipeline calls a template, at any depth.
func includes(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				if includes(arg) {
					return true
				}
			}
		}
	case *parse.ChainNode:
		return includes(n.Node)
	case *parse.IdentifierNode:
		return n.Ident == "include" || n.Ident == "tpl"
	}
	return false
}

// carriers are functions whose result contains their text argument, or a part
// of it.
var carriers = map[string]bool{
	"indent": true, "nindent": true, "trim": true, "trimSuffix": true, "trimPrefix": true, "trimAll": true, "trunc": true,
	"quote": true, "squote": true, "toString": true, "print": true, "println": true, "printf": true, "cat": true, "replace": true,
}

// carries reports whether a pipeline calls templates and only passes on their
// text.
func carries(p *parse.PipeNode) bool {
	if !includes(p) {
		return false
	}
	for _, c := range p.Cmds {
		name, ok := c.Args[0].(*parse.IdentifierNode)
		switch {
		case ok && (name.Ident == "include" || name.Ident == "tpl"):
			continue
		case ok && !carriers[name.Ident]:
			return false
		}
		for _, arg := range c.Args {
			if inner, ok := arg.(*parse.PipeNode); ok && includes(inner) && !carries(inner) {
				return false
			}
		}
	}
	return true
}

// spot returns the hook argument for the action at pos.
func (i *instrument) spot(pos parse.Pos) *parse.NumberNode {
	i.src.spots = append(i.src.spots, action(i.src.text, int(pos)))
	n := number(len(i.src.spots)-1, pos)
	i.pending = append(i.pending, n)
	return n
}

// action returns the offsets of the action at pos, delimiters included.
func action(text []byte, pos int) spot {
	from := min(pos, len(text))
	for from > 0 && !(text[from-1] == '{' && from > 1 && text[from-2] == '{') {
		from--
	}
	to := pos
	for to < len(text) && !(text[to] == '}' && to+1 < len(text) && text[to+1] == '}') {
		to = after(text, to)
	}
	return spot{from: int32(max(0, from-2)), to: int32(min(to+2, len(text)))}
}

// after returns the offset behind one character or one quoted string.
func after(text []byte, i int) int {
	quote := text[i]
	if quote != '"' && quote != '`' && quote != '\'' {
		return i + 1
	}
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return i
}

func hook(name string, pos parse.Pos) *parse.ActionNode {
	return &parse.ActionNode{
		NodeType: parse.NodeAction, Pos: pos,
		Pipe: &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{command(name, pos)}},
	}
}

func command(name string, pos parse.Pos, args ...parse.Node) *parse.CommandNode {
	call := append([]parse.Node{parse.NewIdentifier(name).SetPos(pos)}, args...)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: call}
}

func number(i int, pos parse.Pos) *parse.NumberNode {
	return &parse.NumberNode{NodeType: parse.NodeNumber, Pos: pos, IsInt: true, Int64: int64(i), Text: strconv.Itoa(i)}
}
