package pattern

import "github.com/preadmit/preadmit/policy/internal/reads"

// Reads records the parts of a value that matching it reads.
func (p *Pattern) Reads(value reads.Flow) { p.root.reads(value) }

func (n *node) reads(value reads.Flow) {
	switch {
	case n.kind == scalarNode, n.kind == listNode && len(n.list) > 0 && n.list[0].kind != mapNode:
		value.Consume()
	case n.kind == listNode:
		items := value.Items()
		for _, e := range n.list {
			e.reads(items)
		}
	default:
		n.readsMap(value)
	}
}

func (n *node) readsMap(value reads.Flow) {
	for _, entries := range [][]entry{n.anchors, n.rest} {
		for i := range entries {
			e := &entries[i]
			if n.expand && e.wild {
				value.Consume() // any key may be the one
				continue
			}
			f := value.Field(e.key)
			if !e.star && e.anchor != Negation { // else it only has to be there
				e.value.reads(f)
			}
		}
	}
}
