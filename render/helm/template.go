package helm

import (
	"crypto/sha256"
	"fmt"
	"slices"
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

	looks   bool             // it calls lookup
	paths   [][]string       // the fields that it reads
	strings []string         // the strings in its actions
	sets    map[string]doubt // fields that it sets to doubtful values

	returns map[string]*returned // what the templates that it defines return
	results map[string]resultUse // uses of what templates return, by their names
}

// A spot is an action in a template's text.
type spot struct {
	from, to int32
	// carries is true if the results of the templates called in it are part of
	// what it prints, for all values.
	carries bool

	// For a branch whose condition is in doubt:
	doubt doubt
	asks  bool    // it calls templates
	sides [2]bool // whether the list, and the else list, write something

	versions   bool // it compares versions
	compares   bool
	identifies bool // it compares names

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

// parse returns the source of a text. fields are the fields that templates of its chart set to
// doubtful values; version is that of Helm. The error is that of the parser, or says that the text
// is nested too deep.
func (s *sources) parse(t templateText, fields map[string]doubt, version string) (*source, error) {
	key := t.sum
	if len(fields) > 0 || version != "" {
		key = sha256.Sum256(fmt.Appendf(key[:], "%v%v", fields, version)) // which prints its keys in order
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
	p.once.Do(func() { p.src, p.err = newSource(fmt.Sprintf("%s%x", idPrefix, key[:12]), t.text, names, fields) })
	return p.src, p.err
}

const idPrefix = "text@"

func newSource(id, text string, functions map[string]any, fields map[string]doubt) (*source, error) {
	trees, err := parse.Parse(id, text, "", "", functions)
	if err != nil {
		return nil, err
	}
	s := &source{id: id, text: unsafe.Slice(unsafe.StringData(text), len(text)), main: trees[id], trees: trees, sets: map[string]doubt{}, returns: map[string]*returned{}, results: map[string]resultUse{}}
	if s.main == nil { // only definitions
		s.main = &parse.Tree{Name: id, ParseName: id, Root: &parse.ListNode{NodeType: parse.NodeList}}
	}
	delete(trees, id)
	in := instrument{src: s, doubtFinder: doubtFinder{variables: map[string]variable{}, fields: fields}}
	s.names = sortedKeys(trees)
	for _, name := range s.names {
		in.body = &returned{}
		s.returns[name] = in.body
		in.list(trees[name].Root, 0)
	}
	in.body = &returned{}
	in.list(s.main.Root, 0)
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

// An instrument inserts hooks into a parsed template, without changing its output: `| __out N`
// behind an action that prints, `| __take` behind one that does not, `| __if N` behind the
// condition of a block with keys, an empty text at the head of loops, `__in` and `__leave` around
// calls, `__ask N` before an action that depends on the cluster, `__see` before one that may read
// all data of the release, `__has` around the API version given to APIVersions.Has, and `__found`
// around a map from which a function reads a key.
type instrument struct {
	src     *source
	pending []*parse.NumberNode
	whole   []parse.Node // the dot and the variables in the pipeline that is being hooked
	ranges  bool         // whether that is the pipeline of a range
	body    *returned    // of the template that is being hooked
	doubtFinder
	err error
}

var errDeep = fmt.Errorf("template has more than %d blocks or parentheses within one another", maxSyntax)

func (i *instrument) list(l *parse.ListNode, depth int) {
	if l == nil {
		return
	}
	if depth > maxSyntax {
		i.err = errDeep
		return
	}
	nodes := make([]parse.Node, 0, len(l.Nodes)+2)
	declared := len(i.shadowed)
	for _, n := range l.Nodes {
		nodes = i.node(nodes, n, depth)
	}
	i.endBlock(declared)
	l.Nodes = nodes
}

// node appends n with its hooks.
func (i *instrument) node(nodes []parse.Node, n parse.Node, depth int) []parse.Node {
	switch n := n.(type) {
	case *parse.TextNode:
		i.text(n)
	case *parse.ActionNode:
		nodes = i.ask(nodes, n.Pipe, depth)
		if len(n.Pipe.Decl) == 0 {
			nodes = append(nodes, i.doubtPrinted(n.Pipe)...)
			i.out(n.Pipe)
		} else {
			i.declare(n.Pipe)
			i.take(n.Pipe)
		}
	case *parse.IfNode:
		nodes, past := i.branch(nodes, &n.BranchNode, depth)
		return append(append(nodes, n), past...)
	case *parse.WithNode:
		nodes, past := i.branch(nodes, &n.BranchNode, depth)
		return append(append(nodes, n), past...)
	case *parse.RangeNode:
		i.ranges = true
		nodes, past := i.branch(nodes, &n.BranchNode, depth)
		n.List.Nodes = append([]parse.Node{i.step(n.Position())}, n.List.Nodes...)
		return append(append(nodes, n), past...)
	case *parse.TemplateNode:
		i.body.calls = append(i.body.calls, n.Name)
		if n.Pipe != nil {
			nodes = i.ask(nodes, n.Pipe, depth)
			i.take(n.Pipe)
		}
		enter := hook("__in", n.Position())
		enter.Pipe.Cmds[0].Args = append(enter.Pipe.Cmds[0].Args, i.spot(n.Position()))
		return append(nodes, enter, n, hook("__leave", n.Position()))
	}
	return append(nodes, n)
}

// branch hooks a branch, and returns the nodes that follow it.
func (i *instrument) branch(nodes []parse.Node, n *parse.BranchNode, depth int) (before, past []parse.Node) {
	nodes = i.ask(nodes, n.Pipe, depth)
	d, nodes, past := i.hookCondition(nodes, n)
	declared := len(i.shadowed)
	i.declare(n.Pipe)
	i.take(n.Pipe)
	i.conditional(n)
	above, around := i.dot, i.under
	i.under = max(d, around)
	if n.NodeType != parse.NodeIf {
		i.dot, _ = i.of(n.Pipe)
	}
	i.list(n.List, depth+1)
	i.dot = above
	i.list(n.ElseList, depth+1)
	i.under = around
	i.endBlock(declared)
	return nodes, past
}

// text replaces a node's text by a slice of the source's, if they are equal.
func (i *instrument) text(n *parse.TextNode) {
	from, to := int(n.Pos), int(n.Pos)+len(n.Text)
	if to <= len(i.src.text) && string(i.src.text[from:to]) == string(n.Text) {
		n.Text = i.src.text[from:to:to]
	}
}

// out hooks the value that an action prints. The hook takes and returns a
// reflect.Value, since printing may depend on the value being addressable.
func (i *instrument) out(p *parse.PipeNode) {
	carries := carries(p)
	p.Cmds = append(p.Cmds, command("__out", p.Position(), i.spot(p.Position())))
	i.src.spots[len(i.src.spots)-1].carries = carries
}

// step returns an empty text at pos. Writing it counts a turn of a loop in a tenth
// of the time that calling a function takes.
func (i *instrument) step(pos parse.Pos) parse.Node {
	return &parse.TextNode{NodeType: parse.NodeText, Pos: pos, Text: i.src.text[pos:][:0]}
}

// take hooks a pipeline that calls templates and prints nothing.
func (i *instrument) take(p *parse.PipeNode) {
	if includes(p) {
		p.Cmds = append(p.Cmds, command("__take", p.Position()))
	}
}

// ask inserts hooks before a node whose pipeline asks for facts that only a cluster knows, and
// checks its depth.
func (i *instrument) ask(nodes []parse.Node, p *parse.PipeNode, depth int) []parse.Node {
	var asked asks
	i.whole = i.whole[:0]
	i.pipe(p, depth, &asked)
	d, _ := i.of(p)
	i.body.doubts |= 1 << d
	eachIncluded(p, func(name string) { i.body.calls = append(i.body.calls, name) })
	i.assign(p)
	for n, yes := range asked {
		if yes {
			h := hook("__ask", p.Position())
			h.Pipe.Cmds[0].Args = append(h.Pipe.Cmds[0].Args, number(n, p.Position()), i.spot(p.Position()))
			nodes = append(nodes, h)
		}
	}
	ranges := i.ranges
	i.ranges = false
	if ranges || i.reads(p) {
		for _, v := range i.whole {
			h := hook("__see", p.Position())
			h.Pipe.Cmds[0].Args = append(h.Pipe.Cmds[0].Args, v)
			nodes = append(nodes, h)
		}
	}
	return nodes
}

// reads reports whether a pipeline, at any depth, calls a function that reads
// maps by any key.
func (i *instrument) reads(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool { return slices.ContainsFunc(c.Args, i.reads) })
	case *parse.ChainNode:
		return i.reads(n.Node)
	case *parse.IdentifierNode:
		return readers[n.Ident]
	}
	return false
}

func (i *instrument) pipe(n parse.Node, depth int, asked *asks) {
	if depth > maxSyntax {
		i.err = errDeep
		return
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			i.src.read(c)
			for _, arg := range c.Args {
				i.pipe(arg, depth+1, asked)
			}
			i.found(c)
		}
		i.has(n)
	case *parse.ChainNode:
		asked.fields(n.Field)
		i.src.path(n.Field)
		i.pipe(n.Node, depth+1, asked)
	case *parse.FieldNode:
		asked.fields(n.Ident)
		i.src.path(n.Ident)
	case *parse.VariableNode:
		asked.fields(n.Ident[1:])
		i.src.path(n.Ident[1:])
		if len(n.Ident) == 1 {
			i.whole = append(i.whole, n)
		}
	case *parse.DotNode:
		i.whole = append(i.whole, n)
	case *parse.StringNode:
		asked.key(n.Text)
		i.src.strings = append(i.src.strings, n.Text)
	case *parse.IdentifierNode:
		if n.Ident == "lookup" {
			asked[asksLookup], i.src.looks = true, true
		}
	}
}

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

// number makes the spots' numbers unique.
func (i *instrument) number(base int) {
	for at, n := range i.pending {
		n.Int64 = int64(base + at)
		n.Text = strconv.Itoa(base + at)
	}
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
