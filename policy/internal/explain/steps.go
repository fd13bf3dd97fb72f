package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A tracer lists the sub-expressions of an evaluation with their values.
type tracer struct {
	steps []Step
	most  int
	hide  bool
	seen  map[*node]bool // variables already shown
}

func (r *run) steps(top *node) []Step {
	t := &tracer{most: r.input.Steps, hide: r.secret(), seen: make(map[*node]bool)}
	t.walk(top, 0, "")
	return t.steps
}

func (t *tracer) walk(n *node, depth int, loop string) {
	if n == nil || n.x == nil || len(t.steps) >= t.most {
		return
	}
	switch n.x.op {
	case opConst, opRoot, opLocal:
		return
	}
	t.steps = append(t.steps, Step{
		Depth: depth, Loop: loop, Text: cut(n.x.source(), maxAtom), Value: t.value(n.val), Error: failed(n),
	})
	if n.x.op == opVariable {
		if n.via != nil && !t.seen[n.via] {
			t.seen[n.via] = true
			t.walk(n.via, depth+1, "")
		}
		return
	}
	for _, kid := range n.kids {
		if isArgument(n.x, kid.x) {
			t.walk(kid, depth+1, loop)
		}
	}
	for i := range n.turns {
		turn := &n.turns[i]
		name := strings.Join(slices.DeleteFunc([]string{loop, t.label(n.x, turn)}, func(s string) bool { return s == "" }), ", ")
		for _, part := range []*node{turn.test, turn.body, turn.last} {
			if part != nil && isArgument(n.x, part.x) {
				t.walk(part, depth+1, name)
			}
		}
	}
}

// isArgument reports whether sub is part of x's own text. Loop variables lead to nodes
// of other places.
func isArgument(x, sub *code) bool {
	return sub != nil && slices.Contains(x.args, sub)
}

// label names the element of an iteration.
func (t *tracer) label(x *code, of *turn) string {
	vars := x.expr.AsComprehension()
	var parts []string
	for i, name := range []string{vars.IterVar(), vars.IterVar2()} {
		n := of.frame.vars[i]
		if n == nil || name == "" {
			continue
		}
		text := t.value(n.val)
		if at := placeOf(n.val); at != nil {
			text = element(at.steps())
			if text == "" {
				text = pointer(at.steps())
			}
		}
		parts = append(parts, name+" = "+text)
	}
	return strings.Join(parts, ", ")
}

func (t *tracer) value(v ref.Val) string {
	if !t.hide {
		return shown(v)
	}
	switch v.(type) {
	case types.Bool, types.Null:
		return shown(v)
	}
	return "(hidden)"
}

// container shows a list or map in brief.
func container(v ref.Val) string {
	if v == nil {
		return ""
	}
	switch c := v.(type) {
	case traits.Mapper:
		return mapText(c)
	case traits.Lister:
		return listText(c)
	case *types.Type:
		return c.TypeName()
	}
	if s, ok := v.(fmt.Stringer); ok {
		return cut(s.String(), maxLine)
	}
	return cut(fmt.Sprint(v.Value()), maxLine)
}

// maxKeys is the most keys of a map that are shown.
const maxKeys = 6

// mapText shows a map by its name, if it has one, or else by its keys.
func mapText(m traits.Mapper) string {
	size, _ := m.Size().(types.Int)
	if name, ok := m.Find(types.String("name")); ok && size > 1 {
		if s, ok := name.(types.String); ok {
			return fmt.Sprintf("{name: %q, … %d keys}", cut(string(s), 60), int(size))
		}
	}
	var keys []string
	for it := m.Iterator(); it.HasNext() == types.True && len(keys) < 1000; {
		keys = append(keys, fmt.Sprint(it.Next().Value()))
	}
	slices.Sort(keys)
	if len(keys) > maxKeys {
		keys = append(keys[:maxKeys], fmt.Sprintf("… %d keys", int(size)))
	}
	return cut("{"+strings.Join(keys, ", ")+"}", maxLine)
}

// listText shows the first elements of a list.
func listText(l traits.Lister) string {
	size, _ := l.Size().(types.Int)
	var b strings.Builder
	b.WriteByte('[')
	for i := range min(int(size), 8) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(shown(l.Get(types.Int(i))))
	}
	if size > 8 {
		fmt.Fprintf(&b, ", … %d in all", int(size))
	}
	b.WriteByte(']')
	return cut(b.String(), maxLine)
}
