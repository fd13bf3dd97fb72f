package gotemplate

import (
	"fmt"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
)

// Functions by how they treat the order of a list.
var (
	ofMaps    = map[string]bool{"keys": true, "values": true} // return the entries of maps in random order
	orderless = map[string]bool{"sortAlpha": true, "has": true, "mustHas": true, "len": true, "empty": true}
	keepOrder = map[string]bool{"concat": true, "uniq": true, "mustUniq": true, "compact": true, "mustCompact": true, "without": true, "mustWithout": true, "append": true, "mustAppend": true, "prepend": true, "mustPrepend": true}
)

// unsorted replaces the functions that return the entries of maps by functions that fail for more
// than one entry, except where the order of the entries does not matter. sorted reports that it
// does not matter for the value of n.
func unsorted(n parse.Node, sorted bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				unsorted(child, false)
			}
		}
	case *parse.ActionNode:
		unsorted(n.Pipe, false)
	case *parse.TemplateNode:
		unsorted(n.Pipe, false)
	case *parse.IfNode:
		unsortedBranch(&n.BranchNode, true)
	case *parse.WithNode:
		unsortedBranch(&n.BranchNode, false)
	case *parse.RangeNode:
		unsortedBranch(&n.BranchNode, false)
	case *parse.ChainNode:
		unsorted(n.Node, sorted)
	case *parse.PipeNode:
		for i := 0; n != nil && i < len(n.Cmds); i++ { // the last command first: its input is the output of those before it
			sorted = unsortedCommand(n.Cmds[len(n.Cmds)-1-i], sorted)
		}
	}
}

func unsortedBranch(n *parse.BranchNode, sorted bool) {
	unsorted(n.Pipe, sorted)
	unsorted(n.List, false)
	unsorted(n.ElseList, false)
}

// unsortedCommand does the same for a command. sorted reports whether the order of its result
// matters not; the returned value, whether the order of its last argument does not.
func unsortedCommand(c *parse.CommandNode, sorted bool) bool {
	name, ok := c.Args[0].(*parse.IdentifierNode)
	if !ok {
		unsorted(c.Args[0], sorted)
		return false
	}
	if ofMaps[name.Ident] && !sorted {
		name.Ident = "__" + name.Ident
	}
	sorted = orderless[name.Ident] || keepOrder[name.Ident] && sorted
	for _, arg := range c.Args[1:] {
		unsorted(arg, sorted)
	}
	return sorted
}

// entries returns sprig's function with that name, changed to fail for more than one entry.
func entries(name string) any {
	all := sprig.GenericFuncMap()[name]
	return func(maps ...map[string]any) ([]any, error) {
		var list []any
		switch f := all.(type) {
		case func(...map[string]any) []string: // keys
			for _, key := range f(maps...) {
				list = append(list, key)
			}
		case func(map[string]any) []any: // values
			for _, m := range maps {
				list = append(list, f(m)...)
			}
		}
		if len(list) > 1 {
			return nil, fmt.Errorf("%s returns the entries of a map in a different order each time, so the result is unknown: sort them with sortAlpha", name)
		}
		return list, nil
	}
}
