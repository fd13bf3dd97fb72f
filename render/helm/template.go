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
}

// sources is a bounded cache of parsed templates by content.
type sources struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*parsing
	bytes int
	names map[string]any // names of functions
}

type parsing struct {
	once sync.Once
	src  *source
	err  error
}

const maxCached = 64 << 20 // bytes of template text

// spotNumbers returns numbers for spots that are unique among sources.
var spotNumbers atomic.Int64

// parse returns the source of a text, which is one of a chart whose templates
// set fields to doubtful values. The error is that of the parser, or says that
// the text is too deep.
func (c *sources) parse(text string, fields map[string]doubt) (*source, error) {
	key := sha256.Sum256([]byte(text))
	if len(fields) > 0 {
		key = sha256.Sum256(fmt.Appendf(key[:], "%v", fields)) // which prints its keys in order
	}
	c.mu.Lock()
	p := c.known[key]
	if c.names == nil {
		c.names = functionNames()
	}
	if p == nil {
		if c.known == nil || c.bytes > maxCached {
			c.known, c.bytes = map[[sha256.Size]byte]*parsing{}, 0
		}
		p = &parsing{}
		c.known[key] = p
		c.bytes += len(text) + 256
	}
	c.mu.Unlock()
	p.once.Do(func() { p.src, p.err = newSource(fmt.Sprintf("%s%x", idPrefix, key[:12]), text, c.names, fields) })
	return p.src, p.err
}

const idPrefix = "text@"

func newSource(id, text string, functions map[string]any, fields map[string]doubt) (*source, error) {
	trees, err := parse.Parse(id, text, "", "", functions)
	if err != nil {
		return nil, err
	}
	s := &source{id: id, text: []byte(text), main: trees[id], trees: trees, sets: map[string]doubt{}, returns: map[string]*returned{}, results: map[string]resultUse{}}
	if s.main == nil { // only definitions
		s.main = &parse.Tree{Name: id, ParseName: id, Root: &parse.ListNode{NodeType: parse.NodeList}}
	}
	delete(trees, id)
	in := instrument{src: s, weighing: weighing{variables: map[string]doubt{}, called: map[string]bool{}, compared: map[string]bool{}, templates: map[string][]string{}, fields: fields}}
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

// An instrument inserts hooks into a parsed template, without changing its
// output: `| __out N` behind an action that prints, `| __take` behind one that
// does not, an empty text at the head of loops, `__in` and `__leave` around calls,
// `__ask N` before what depends on the cluster, `__see` before what may read
// all data of the release, and `__has` around the API version given to
// APIVersions.Has.
type instrument struct {
	src     *source
	pending []*parse.NumberNode
	whole   []parse.Node // the dot and the variables in the pipeline that is being hooked
	ranges  bool         // which is that of a range
	body    *returned    // of the template that is being hooked
	weighing
	err error
}

var errDeep = fmt.Errorf("template has more than %d blocks or parentheses within one another", maxSyntax)

func (in *instrument) list(l *parse.ListNode, depth int) {
	if l == nil {
		return
	}
	if depth > maxSyntax {
		in.err = errDeep
		return
	}
	nodes := make([]parse.Node, 0, len(l.Nodes)+2)
	for _, n := range l.Nodes {
		nodes = in.node(nodes, n, depth)
	}
	l.Nodes = nodes
}

// node appends n with its hooks.
func (in *instrument) node(nodes []parse.Node, n parse.Node, depth int) []parse.Node {
	switch n := n.(type) {
	case *parse.TextNode:
		in.text(n)
	case *parse.ActionNode:
		nodes = in.ask(nodes, n.Pipe, depth)
		if len(n.Pipe.Decl) == 0 {
			nodes = append(nodes, in.doubtPrinted(n.Pipe)...)
			in.out(n.Pipe)
		} else {
			in.declare(n.Pipe)
			in.take(n.Pipe)
		}
	case *parse.IfNode:
		nodes, past := in.branch(nodes, &n.BranchNode, depth)
		return append(append(nodes, n), past...)
	case *parse.WithNode:
		nodes, past := in.branch(nodes, &n.BranchNode, depth)
		return append(append(nodes, n), past...)
	case *parse.RangeNode:
		in.ranges = true
		nodes, past := in.branch(nodes, &n.BranchNode, depth)
		n.List.Nodes = append([]parse.Node{in.step(n.Position())}, n.List.Nodes...)
		return append(append(nodes, n), past...)
	case *parse.TemplateNode:
		in.body.calls = append(in.body.calls, n.Name)
		if n.Pipe != nil {
			nodes = in.ask(nodes, n.Pipe, depth)
			in.take(n.Pipe)
		}
		enter := hook("__in", n.Position())
		enter.Pipe.Cmds[0].Args = append(enter.Pipe.Cmds[0].Args, in.spot(n.Position()))
		return append(nodes, enter, n, hook("__leave", n.Position()))
	}
	return append(nodes, n)
}

// branch hooks a branch, and returns the nodes that follow it.
func (in *instrument) branch(nodes []parse.Node, n *parse.BranchNode, depth int) (before, past []parse.Node) {
	nodes = in.ask(nodes, n.Pipe, depth)
	d, nodes, past := in.weigh(nodes, n)
	in.declare(n.Pipe)
	in.take(n.Pipe)
	above, around := in.dot, in.under
	in.under = max(d, around)
	if n.NodeType != parse.NodeIf {
		in.dot, _ = in.of(n.Pipe)
	}
	in.list(n.List, depth+1)
	in.dot = above
	in.list(n.ElseList, depth+1)
	in.under = around
	return nodes, past
}

// text replaces a node's text by a slice of the source's, if they are equal.
func (in *instrument) text(n *parse.TextNode) {
	from, to := int(n.Pos), int(n.Pos)+len(n.Text)
	if to <= len(in.src.text) && string(in.src.text[from:to]) == string(n.Text) {
		n.Text = in.src.text[from:to:to]
	}
}

// out hooks the value that an action prints. The hook takes and returns a
// reflect.Value, since printing may depend on the value being addressable.
func (in *instrument) out(p *parse.PipeNode) {
	carries := carries(p)
	p.Cmds = append(p.Cmds, command("__out", p.Position(), in.spot(p.Position())))
	in.src.spots[len(in.src.spots)-1].carries = carries
}

// step returns an empty text at pos. Writing it counts a turn of a loop in a tenth
// of the time that calling a function takes.
func (in *instrument) step(pos parse.Pos) parse.Node {
	return &parse.TextNode{NodeType: parse.NodeText, Pos: pos, Text: in.src.text[pos:][:0]}
}

// take hooks a pipeline that calls templates and prints nothing.
func (in *instrument) take(p *parse.PipeNode) {
	if includes(p) {
		p.Cmds = append(p.Cmds, command("__take", p.Position()))
	}
}

// ask inserts hooks before a node whose pipeline asks for what only a cluster
// knows, and checks its depth.
func (in *instrument) ask(nodes []parse.Node, p *parse.PipeNode, depth int) []parse.Node {
	var asked asks
	in.whole = in.whole[:0]
	in.pipe(p, depth, &asked)
	in.returned(p)
	in.assign(p)
	for i, yes := range asked {
		if yes {
			h := hook("__ask", p.Position())
			h.Pipe.Cmds[0].Args = append(h.Pipe.Cmds[0].Args, number(i, p.Position()), in.spot(p.Position()))
			nodes = append(nodes, h)
		}
	}
	ranges := in.ranges
	in.ranges = false
	if ranges || in.reads(p) {
		for _, v := range in.whole {
			h := hook("__see", p.Position())
			h.Pipe.Cmds[0].Args = append(h.Pipe.Cmds[0].Args, v)
			nodes = append(nodes, h)
		}
	}
	return nodes
}

// reads reports whether a pipeline, at any depth, calls a function that reads
// maps by any key.
func (in *instrument) reads(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool { return slices.ContainsFunc(c.Args, in.reads) })
	case *parse.ChainNode:
		return in.reads(n.Node)
	case *parse.IdentifierNode:
		return readers[n.Ident]
	}
	return false
}

func (in *instrument) pipe(n parse.Node, depth int, asked *asks) {
	if depth > maxSyntax {
		in.err = errDeep
		return
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			in.src.read(c)
			for _, arg := range c.Args {
				in.pipe(arg, depth+1, asked)
			}
		}
		in.has(n)
	case *parse.ChainNode:
		asked.fields(n.Field)
		in.src.path(n.Field)
		in.pipe(n.Node, depth+1, asked)
	case *parse.FieldNode:
		asked.fields(n.Ident)
		in.src.path(n.Ident)
	case *parse.VariableNode:
		asked.fields(n.Ident[1:])
		in.src.path(n.Ident[1:])
		if len(n.Ident) == 1 {
			in.whole = append(in.whole, n)
		}
	case *parse.DotNode:
		in.whole = append(in.whole, n)
	case *parse.StringNode:
		asked.key(n.Text)
		in.src.strings = append(in.src.strings, n.Text)
	case *parse.IdentifierNode:
		if n.Ident == "lookup" {
			asked[asksLookup], in.src.looks = true, true
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
func (in *instrument) spot(pos parse.Pos) *parse.NumberNode {
	in.src.spots = append(in.src.spots, action(in.src.text, int(pos)))
	n := number(len(in.src.spots)-1, pos)
	in.pending = append(in.pending, n)
	return n
}

// number makes the spots' numbers unique.
func (in *instrument) number(base int) {
	for i, n := range in.pending {
		n.Int64 = int64(base + i)
		n.Text = strconv.Itoa(base + i)
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
