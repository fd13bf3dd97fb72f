package helm

import (
	"bytes"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/preadmit/preadmit/render"
)

// An omission is a block of a template that wrote nothing, because its condition has
// a value that is false or empty.
type omission struct {
	off  int32 // in the output
	keys []keyLine
	val  any // of the condition
}

// A keyLine is a line of a template that begins with the key of a map.
type keyLine struct {
	key    string
	indent int // -1 in the line of the condition, since the output decides there
}

// conditional hooks the condition of a block if the block's text has keys of maps.
func (i *instrument) conditional(n *parse.BranchNode) {
	keys := keyLines(n.List)
	if len(keys) == 0 || n.NodeType == parse.NodeRange {
		return
	}
	pos := n.Pipe.Position()
	n.Pipe.Cmds = append(n.Pipe.Cmds, command("__if", pos, i.spot(pos)))
	i.src.spots[len(i.src.spots)-1].keys = keys
}

// keyLines returns the lines of a block's text that begin with a key.
func keyLines(l *parse.ListNode) (keys []keyLine) {
	for at, n := range l.Nodes {
		t, ok := n.(*parse.TextNode)
		if !ok {
			continue
		}
		for k, line := range bytes.Split(t.Text, []byte("\n")) {
			name := bytes.TrimLeft(line, " ")
			colon := bytes.IndexByte(name, ':')
			if colon <= 0 || k == 0 && at > 0 || !plainKey(name[:colon]) {
				continue
			}
			key := keyLine{string(name[:colon]), len(line) - len(name)}
			if k == 0 {
				key.indent = -1
			}
			keys = append(keys, key)
		}
	}
	return keys
}

func plainKey(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// hookIf records a condition that leaves out its block.
func (r *run) hookIf(n int, v reflect.Value) reflect.Value {
	if !v.IsValid() || !v.CanInterface() || r.omissions == maxRecords {
		return v
	}
	if truth, ok := template.IsTrue(v.Interface()); !ok || truth {
		return v
	}
	r.omissions++
	f := r.frame
	src := r.spot(f, n)
	f.omitted = append(f.omitted, omission{int32(f.out.Len()), src.spots[n-src.base].keys, v.Interface()})
	return v
}

// omitted returns the place of the value that made a template leave out the field key of the map at
// a pointer.
func (p *provenance) omitted(pointer, key string) (render.Origin, bool) {
	positions, ok := p.positions.(*render.Positions)
	if !ok {
		return render.Origin{}, false
	}
	_, value, ok := positions.Field(pointer)
	if !ok || value.Line == 0 {
		return render.Origin{}, false
	}
	from := p.part.offset(value.Line, value.Column)
	if from >= len(p.part.text) || p.part.text[from] == '{' {
		return render.Origin{}, false
	}
	s := p.part.x.valueIndex
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index()
	return s.omitted(p.part.trace, p.part.written(from), key, 0)
}

// omitted looks for the block in the trace that wrote the map at an offset, and
// before in the templates that it called for that.
func (s *valueIndex) omitted(t *trace, from int, key string, depth int) (render.Origin, bool) {
	if at, kid, ok := t.kidAt(from); ok && depth < maxHops {
		if o, ok := s.omitted(kid, at, key, depth+1); ok {
			return o, true
		}
	}
	indent := from - 1 - strings.LastIndexByte(t.text[:from], '\n')
	end := blockEnd(t.text, from, indent)
	for _, o := range t.omitted {
		if int(o.off) < from || int(o.off) > end || !o.leaves(key, indent, t.text) {
			continue
		}
		if n := s.boxes[word(o.val)]; n != nil {
			return s.place(hit{node: n, key: true}, n.val)
		}
	}
	return render.Origin{}, false
}

// kidAt returns the trace of the called template that wrote an offset, and the offset
// there.
func (t *trace) kidAt(from int) (at int, kid *trace, ok bool) {
	e, start, end := t.eventAt(from)
	if e == nil || e.text {
		return 0, nil, false
	}
	for i := len(e.kids) - 1; i >= 0; i-- {
		if at, _, ok = align(t.text[start:end], e.kids[i].text, from-start, from-start+1); ok {
			return at, e.kids[i], true
		}
	}
	return 0, nil, false
}

// leaves reports whether the block has a key at an indentation.
func (o *omission) leaves(key string, indent int, text string) bool {
	for _, k := range o.keys {
		if k.indent < 0 {
			line := text[1+strings.LastIndexByte(text[:o.off], '\n') : o.off]
			if k.indent = len(line); strings.TrimLeft(line, " ") != "" {
				continue
			}
		}
		if k.key == key && k.indent == indent {
			return true
		}
	}
	return false
}

// blockEnd returns the offset of the line behind the map that begins at from and whose
// keys have an indentation.
func blockEnd(text string, from, indent int) int {
	for at := from; ; {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n + 1
		line, _, _ := strings.Cut(text[at:], "\n")
		if strings.TrimSpace(line) != "" && indentation(line) < indent {
			return at
		}
	}
}
