package helm

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// An instrument inserts hooks into a parsed template, without changing its output: `| __out N`
// behind an action that prints, `| __val N K` behind the other commands of pipelines, `| __if N`
// behind the condition of a block with keys, `__each N` at the head of loops, and `__in` and
// `__leave` around calls. It describes to them what they see.
type instrument struct {
	src     *source
	pending []*parse.NumberNode
	known   []map[string]*variable // that templates can see, by blocks
	dot     *variable
	block   *block
	changes *changes // of the innermost block or template
	err     error
}

var errDeep = fmt.Errorf("template has more than %d blocks or parentheses within one another", maxSyntax)

// template hooks a template.
func (i *instrument) template(name string, l *parse.ListNode) {
	root := &variable{root: true}
	i.known, i.dot, i.block, i.changes = []map[string]*variable{{"$": root}}, root, nil, &changes{}
	if name != "" {
		i.src.bodies[name] = i.changes
	}
	i.list(l, 0)
}

func (i *instrument) list(l *parse.ListNode, depth int) {
	if l == nil {
		return
	}
	if depth > maxSyntax {
		i.err = errDeep
		return
	}
	i.known = append(i.known, map[string]*variable{})
	nodes := make([]parse.Node, 0, len(l.Nodes)+2)
	for _, n := range l.Nodes {
		nodes = i.node(nodes, n, depth)
	}
	l.Nodes = nodes
	i.known = i.known[:len(i.known)-1]
}

// node appends n with its hooks.
func (i *instrument) node(nodes []parse.Node, n parse.Node, depth int) []parse.Node {
	switch n := n.(type) {
	case *parse.TextNode:
		i.text(n)
	case *parse.ActionNode:
		i.pipe(n.Pipe, pipe{prints: len(n.Pipe.Decl) == 0}, depth)
	case *parse.IfNode:
		i.branch(&n.BranchNode, depth)
	case *parse.WithNode:
		i.branch(&n.BranchNode, depth)
	case *parse.RangeNode:
		i.branch(&n.BranchNode, depth)
	case *parse.TemplateNode:
		i.changes.calls = append(i.changes.calls, n.Name)
		if n.Pipe != nil {
			i.pipe(n.Pipe, pipe{calls: true}, depth)
		} else {
			enter := hook("__in", n.Position())
			enter.Pipe.Cmds[0].Args = append(enter.Pipe.Cmds[0].Args, i.spotOf(&pipe{src: i.src, around: i.block}, n.Position()))
			nodes = append(nodes, enter)
		}
		return append(nodes, n, hook("__leave", n.Position()))
	}
	return append(nodes, n)
}

// branch hooks a branch.
func (i *instrument) branch(n *parse.BranchNode, depth int) {
	b := &block{around: i.block, sides: [2]bool{writes(n.List), writes(n.ElseList)}}
	if leavesLoop(n.List) || leavesLoop(n.ElseList) { // then the other side is the rest of the loop
		b.sides = [2]bool{true, true}
	}
	dot, above := i.dot, i.changes
	i.known = append(i.known, map[string]*variable{})
	inner := dot
	if n.NodeType != parse.NodeIf {
		b.dot = &variable{}
		inner = b.dot
	}
	if n.NodeType == parse.NodeRange {
		b.list = &variable{}
	}
	p := i.pipe(n.Pipe, pipe{heads: b}, depth)
	i.conditional(n)
	i.block, i.changes, i.dot = b, &b.changes, inner
	i.list(n.List, depth+1)
	if b.list != nil {
		each := hook("__each", n.Position())
		args := []parse.Node{i.shared(p, n.Position()), &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Position()}}
		for _, v := range n.Pipe.Decl {
			args = append(args, v)
		}
		each.Pipe.Cmds[0].Args = append(each.Pipe.Cmds[0].Args, args...)
		n.List.Nodes = append([]parse.Node{each}, n.List.Nodes...)
	}
	i.dot = dot
	i.list(n.ElseList, depth+1)
	i.block, i.changes = b.around, above
	above.keys, above.calls, above.any, above.text = append(above.keys, b.keys...), append(above.calls, b.calls...), above.any || b.any, above.text || b.text
	if b.around != nil {
		b.around.assigned = append(b.around.assigned, b.assigned...)
	}
	i.known = i.known[:len(i.known)-1]
}

// text replaces a node's text by a slice of the source's, if they are equal.
func (i *instrument) text(n *parse.TextNode) {
	from, to := int(n.Pos), int(n.Pos)+len(n.Text)
	if to <= len(i.src.text) && string(i.src.text[from:to]) == string(n.Text) {
		n.Text = i.src.text[from:to:to]
	}
}

// pipe hooks a pipeline and those in it, and completes its description.
func (i *instrument) pipe(n *parse.PipeNode, of pipe, depth int) *pipe {
	p := &of
	p.src, p.around, p.kids = i.src, i.block, includes(n)
	if depth > maxSyntax {
		i.err = errDeep
		return p
	}
	spot := i.spotOf(p, n.Position())
	i.src.spots[p.spot].carries = p.prints && carries(n)
	i.changed(n)
	p.cmds = make([]segment, len(n.Cmds))
	cmds := make([]*parse.CommandNode, 0, 2*len(n.Cmds))
	for k, c := range n.Cmds {
		i.command(&p.cmds[k], c, depth)
		last := command("__val", n.Position(), i.again(spot), number(k, n.Position()))
		if p.prints && k == len(n.Cmds)-1 {
			last = command("__out", n.Position(), spot)
		}
		cmds = append(cmds, c, last)
	}
	n.Cmds = cmds
	i.declare(p, n)
	return p
}

// command describes a command. Functions among its arguments become pipelines, and so do the
// values that templates are called with, so that a hook sees them.
func (i *instrument) command(to *segment, c *parse.CommandNode, depth int) {
	i.src.read(c)
	args := c.Args
	if f, ok := args[0].(*parse.IdentifierNode); ok {
		to.function, args = f.Ident, args[1:]
		i.src.looks = i.src.looks || f.Ident == "lookup"
	}
	calls := to.function == "include" || to.function == "tpl"
	for k, arg := range args {
		data := calls && k == 1
		_, isPipe := arg.(*parse.PipeNode)
		if _, is := arg.(*parse.IdentifierNode); is || data && !isPipe {
			arg = &parse.PipeNode{NodeType: parse.NodePipe, Pos: arg.Position(), Cmds: []*parse.CommandNode{{NodeType: parse.NodeCommand, Pos: arg.Position(), Args: []parse.Node{arg}}}}
			args[k] = arg
		}
		to.args = append(to.args, i.operand(arg, depth))
	}
}

func (i *instrument) operand(n parse.Node, depth int) operand {
	switch n := n.(type) {
	case *parse.PipeNode:
		return operand{pipe: i.pipe(n, pipe{nested: true}, depth+1)}
	case *parse.ChainNode:
		o := i.operand(n.Node, depth+1)
		o.path = append(o.path, n.Field...)
		i.src.path(n.Field)
		return o
	case *parse.FieldNode:
		i.src.path(n.Ident)
		return operand{base: i.dot, path: n.Ident}
	case *parse.VariableNode:
		i.src.path(n.Ident[1:])
		return operand{base: i.variable(n.Ident[0]), path: n.Ident[1:]}
	case *parse.DotNode:
		return operand{base: i.dot}
	case *parse.StringNode:
		i.src.strings = append(i.src.strings, n.Text)
		return operand{literal: n.Text, value: reflect.ValueOf(n.Text), isText: true}
	case *parse.NumberNode:
		return operand{literal: n.Text, value: reflect.ValueOf(int(n.Int64))}
	case *parse.BoolNode:
		return operand{value: reflect.ValueOf(n.True)}
	}
	return operand{}
}

func (i *instrument) variable(name string) *variable {
	for k := len(i.known) - 1; k >= 0; k-- {
		if v := i.known[k][name]; v != nil {
			return v
		}
	}
	return i.known[0]["$"] // the parser refuses others
}

// declare describes the variables that a pipeline sets.
func (i *instrument) declare(p *pipe, n *parse.PipeNode) {
	p.assign = n.IsAssign
	for _, v := range n.Decl {
		if p.assign {
			x := i.variable(v.Ident[0])
			p.sets = append(p.sets, x)
			if i.block != nil {
				i.block.assigned = append(i.block.assigned, x)
			}
			continue
		}
		x := &variable{}
		i.known[len(i.known)-1][v.Ident[0]] = x
		p.sets = append(p.sets, x)
	}
}

// changed records the maps' fields that a pipeline sets, and the templates that it calls.
func (i *instrument) changed(n *parse.PipeNode) {
	for _, c := range n.Cmds {
		f, _ := c.Args[0].(*parse.IdentifierNode)
		switch {
		case f == nil:
		case f.Ident == "include":
			if name, ok := textArgument(c, 1); ok {
				i.changes.calls = append(i.changes.calls, name)
			} else {
				i.changes.text = true
			}
		case f.Ident == "tpl":
			i.changes.text = true
		case f.Ident == "set":
			if key, ok := textArgument(c, 2); ok {
				i.changes.keys = append(i.changes.keys, key)
			} else {
				i.changes.any = true
			}
		case strings.HasPrefix(strings.ToLower(strings.TrimPrefix(f.Ident, "must")), "merge"):
			i.merged(c)
		}
	}
}

// merged records the fields that a merge sets. They are known if they are those of a dict with
// literal keys.
func (i *instrument) merged(c *parse.CommandNode) {
	if len(c.Args) > 1 && len(c.Args) <= 3 && isFresh(c.Args[1]) {
		return
	}
	for _, arg := range c.Args[min(2, len(c.Args)):] {
		p, ok := arg.(*parse.PipeNode)
		if !ok || !isFresh(p) {
			i.changes.any = true
			continue
		}
		for k := 1; k < len(p.Cmds[0].Args); k += 2 {
			if key, ok := textArgument(p.Cmds[0], k); ok {
				i.changes.keys = append(i.changes.keys, key)
			} else {
				i.changes.any = true
			}
		}
	}
}

// isFresh reports whether a node is a call of dict, whose result nothing else has.
func isFresh(n parse.Node) bool {
	p, ok := n.(*parse.PipeNode)
	if !ok || len(p.Cmds) != 1 {
		return false
	}
	f, ok := p.Cmds[0].Args[0].(*parse.IdentifierNode)
	return ok && f.Ident == "dict"
}

func textArgument(c *parse.CommandNode, k int) (string, bool) {
	if k >= len(c.Args) {
		return "", false
	}
	s, ok := c.Args[k].(*parse.StringNode)
	if !ok {
		return "", false
	}
	return s.Text, true
}

// spotOf adds a spot for a pipeline at pos, and returns it as the argument of a hook.
func (i *instrument) spotOf(p *pipe, pos parse.Pos) *parse.NumberNode {
	p.spot = len(i.src.spots)
	n := i.spot(pos)
	i.src.spots[p.spot].pipe = p
	return n
}

// again returns another argument for the same spot.
func (i *instrument) again(n *parse.NumberNode) *parse.NumberNode {
	copied := *n
	i.pending = append(i.pending, &copied)
	return &copied
}

func (i *instrument) shared(p *pipe, pos parse.Pos) *parse.NumberNode {
	n := number(p.spot, pos)
	i.pending = append(i.pending, n)
	return n
}

// number makes the spots' numbers unique.
func (i *instrument) number(base int) {
	for _, n := range i.pending {
		n.Int64 += int64(base)
		n.Text = strconv.Itoa(int(n.Int64))
	}
}

// writes reports whether a list of nodes may write something but blanks.
func writes(l *parse.ListNode) bool {
	return has(l, func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.TextNode:
			return strings.TrimSpace(string(n.Text)) != ""
		case *parse.ActionNode:
			return len(n.Pipe.Decl) == 0 && !fails(n.Pipe)
		case *parse.TemplateNode:
			return true
		}
		return false
	})
}

// leavesLoop reports whether a list of nodes may leave the loop around it, or its turn.
func leavesLoop(l *parse.ListNode) bool {
	return has(l, func(n parse.Node) bool {
		return n.Type() == parse.NodeBreak || n.Type() == parse.NodeContinue
	})
}

// has reports whether a node in the list, or in a branch in it, is one.
func has(l *parse.ListNode, is func(parse.Node) bool) bool {
	return l != nil && slices.ContainsFunc(l.Nodes, func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.IfNode:
			return has(n.List, is) || has(n.ElseList, is)
		case *parse.WithNode:
			return has(n.List, is) || has(n.ElseList, is)
		case *parse.RangeNode:
			return has(n.List, is) || has(n.ElseList, is)
		}
		return is(n)
	})
}

// fails reports whether a pipeline only checks something.
func fails(p *parse.PipeNode) bool {
	return slices.ContainsFunc(p.Cmds, func(c *parse.CommandNode) bool {
		name, ok := c.Args[0].(*parse.IdentifierNode)
		return ok && (name.Ident == "fail" || name.Ident == "required")
	})
}
