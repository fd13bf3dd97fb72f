package kustomize

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// The line and column of a node tell where its value is written. Nodes of files and patches
// have lines from the moment they are read (see tag.go), and keep them through merges and
// copies. This file gives lines to the nodes that transformers and generators write: it looks
// at all nodes before and after each of them runs. So the place of a value is known whatever
// the transformer, and if the value stays the same.

// A step is one run of a transformer or generator. The nodes that it wrote have its line,
// and a column that counts them from 1.
type step struct {
	line    int
	origins [][]render.Origin
	wrote   []written
}

// A written is a node that a step wrote.
type written struct {
	origin   int32  // in step.origins, -1 for none
	was      spot   // of the value before the step, if the new one contains it
	from     spot   // of the value that the new one was copied from
	wasFirst bool   // the value before is the place that a person would edit first
	text     string // the part that the step wrote
}

// A spot is the line and column of a node.
type spot struct{ line, column int32 }

// A change describes the cause of a step. Without anything set it writes nothing of its own:
// nodes that are new have the places of those that they replace.
type change struct {
	role    render.Role
	configs []config                   // the entries that ask for it, the most specific first
	at      []render.Origin            // the place, if it is the same for every node
	weak    bool                       // what the step writes has places of its own, except for what is new or another value
	data    map[string][]render.Origin // the places of the keys that a generator writes into data
	source  spot                       // from which a replacement copies; zero for a sourceValue
	copied  string                     // what it copies
	patch   *yaml.Node                 // a strategic merge patch, of which kustomize writes some values anew
	renamed func(was, now string) *yaml.Node
}

// A config is the part of a file that configures a transformer.
type config struct {
	value any
	at    func(field ...any) render.Span
}

// A recording compares objects before and after a step.
type recording struct {
	a      *accumulation
	change *change
	before []noted
	known  map[string]int32 // indices of step.origins
	step   *step
}

// A noted is a node before a step. Those inside it follow it, up to end.
type noted struct {
	node       *yaml.Node
	key, value string
	spot
	end int32
}

// record runs a step on objects, which it may add to or replace, and gives lines to what the
// step writes.
func (a *accumulation) record(c change, objects func() []*resource.Resource, run func() error) error {
	r := &recording{a: a, change: &c, before: a.noted[:0], known: map[string]int32{}}
	roots := map[*resource.Resource]int32{}
	var order []int32
	for _, o := range objects() {
		order = append(order, int32(len(r.before)))
		roots[o] = order[len(order)-1]
		r.note("", o.YNode())
	}
	err := run()
	if err == nil {
		for i, o := range objects() {
			was, ok := roots[o]
			if !ok && i < len(order) {
				was, ok = order[i], true
			}
			if !ok {
				was = -1
			}
			if n := o.YNode(); n != nil { // a patch may delete the object
				r.visit(n, was, nil)
			}
		}
	}
	if r.step != nil {
		a.inputs.steps = append(a.inputs.steps, r.step)
	}
	clear(r.before)
	a.noted = r.before
	return err
}

func (r *recording) note(key string, n *yaml.Node) {
	i := len(r.before)
	r.before = append(r.before, noted{node: n, key: key, value: n.Value, spot: spotOf(n)})
	for j, c := range n.Content {
		if n.Kind != yaml.MappingNode {
			r.note("", c)
		} else if j%2 == 1 {
			r.note(n.Content[j-1].Value, c)
		}
	}
	r.before[i].end = int32(len(r.before))
}

func spotOf(n *yaml.Node) spot { return spot{int32(n.Line), int32(n.Column)} }

// visit settles the places of a node and of all nodes in it. was is the index of the node
// that stood there before, -1 for none.
func (r *recording) visit(n *yaml.Node, was int32, path []string) {
	r.settle(n, was, path)
	if was >= 0 && n.Kind == yaml.SequenceNode && n.Line >= firstLines && r.before[was].spot != spotOf(n) && !r.keeps(was, n) {
		was = -1 // another list
	}
	next, end := was+1, was
	if was >= 0 {
		end = r.before[was].end
	}
	for i, c := range n.Content {
		key, found := "", int32(-1)
		switch {
		case n.Kind != yaml.MappingNode:
			key = strconv.Itoa(i)
			found = r.item(was, next, end, n, i)
		case i%2 == 0:
			continue
		default:
			key = n.Content[i-1].Value
			found = r.find(was, next, end, func(b *noted) bool { return b.key == key })
		}
		if found >= 0 {
			next = r.before[found].end
		}
		r.visit(c, found, append(path, key))
	}
}

// keeps reports whether a list has an item that a list before the step had.
func (r *recording) keeps(was int32, list *yaml.Node) bool {
	return slices.ContainsFunc(list.Content, func(n *yaml.Node) bool {
		return r.find(was, was+1, r.before[was].end, func(b *noted) bool { return b.node == n }) >= 0
	})
}

// find returns the index of the first entry of a map or list before the step that fits. It
// tries the one at next first.
func (r *recording) find(was, next, end int32, fits func(*noted) bool) int32 {
	if next < end && fits(&r.before[next]) {
		return next
	}
	for i := was + 1; i < end; i = r.before[i].end {
		if fits(&r.before[i]) {
			return i
		}
	}
	return -1
}

// item returns the index of the item of a list before the step that is an item now: the same
// node, one with the same merge key, an equal scalar, or the one at the same place in a list
// of the same length.
func (r *recording) item(was, next, end int32, list *yaml.Node, i int) int32 {
	n := list.Content[i]
	if found := r.find(was, next, end, func(b *noted) bool { return b.node == n }); found >= 0 {
		return found
	}
	if n.Kind == yaml.ScalarNode {
		return r.find(was, next, end, func(b *noted) bool { return b.value == n.Value && b.node.Kind == n.Kind })
	}
	for _, key := range mergeKeys {
		want := entryOf(n, key)
		if want == nil || want.Kind != yaml.ScalarNode {
			continue
		}
		return r.find(was, next, end, func(b *noted) bool {
			have := entryOf(b.node, key)
			return have != nil && have.Value == want.Value
		})
	}
	count, at := 0, int32(-1)
	for b := was + 1; b < end; b = r.before[b].end {
		if count == i {
			at = b
		}
		count++
	}
	if count != len(list.Content) {
		return -1
	}
	return at
}

// settle gives a node a line if the step wrote it.
func (r *recording) settle(n *yaml.Node, i int32, path []string) {
	var was *noted
	if i >= 0 {
		was = &r.before[i]
	}
	switch {
	case n.Line < 0: // see identities
		n.Line = -n.Line
		if was != nil && was.value == n.Value && was.line > 0 {
			n.Line, n.Column = int(was.line), int(was.column)
		}
		return
	case n.Line >= firstLines && (was == nil || was.node != n || was.spot != spotOf(n) || !rewritten(n.Value, was.value)):
		return
	}
	if p := r.change.patch; p != nil {
		if e := nodeAt(p, path); e != nil && e.Value == n.Value && e.Line >= firstLines {
			n.Line, n.Column = e.Line, e.Column
			return
		}
	}
	var w written
	var held string
	if was != nil && was.line >= firstLines {
		held = was.value
		if c := r.change; c.renamed != nil && held != n.Value {
			if name := c.renamed(held, n.Value); name != nil {
				r.write(n, written{origin: -1, was: was.spot, from: spotOf(name), wasFirst: true})
				return
			}
		}
	} else {
		was = nil
	}
	at, pointer, text, ok := r.change.wrote(path, n.Value, held, was != nil)
	if !ok && was != nil {
		n.Line, n.Column = int(was.line), int(was.column)
		return
	}
	w.origin = r.origin(at, pointer)
	if c := r.change; c.copied != "" && strings.Contains(n.Value, c.copied) {
		w.from, text = c.source, c.copied
	}
	if text != n.Value && was != nil {
		w.was, w.wasFirst, w.text = was.spot, n.Value == text+held || n.Value == held+text, text
	}
	r.write(n, w)
}

// partAt returns the spot of one part of the value at a spot. A separator stands between the parts. Steps that
// wrote other parts are gone back over.
func (a *accumulation) partAt(at spot, part, separator string) spot {
	for {
		i := slices.IndexFunc(a.inputs.steps, func(s *step) bool { return int32(s.line) == at.line })
		if i < 0 {
			return at
		}
		w := a.inputs.steps[i].wrote[at.column-1]
		if w.was == (spot{}) || slices.Contains(strings.Split(w.text, separator), part) {
			return at
		}
		at = w.was
	}
}

// rewritten reports whether a scalar was set, be it to an equal text.
func rewritten(now, was string) bool {
	return now != was || now != "" && unsafe.StringData(now) != unsafe.StringData(was)
}

func (r *recording) write(n *yaml.Node, w written) {
	if r.step == nil {
		r.step = &step{line: r.a.bases.nextStep()}
	}
	r.step.wrote = append(r.step.wrote, w)
	n.Line, n.Column = r.step.line, len(r.step.wrote)
}

// origin returns the index in step.origins of places, which a pointer identifies.
func (r *recording) origin(at func() []render.Origin, pointer string) int32 {
	i, ok := r.known[pointer]
	if !ok {
		if r.step == nil {
			r.step = &step{line: r.a.bases.nextStep()}
		}
		i = int32(len(r.step.origins))
		r.step.origins = append(r.step.origins, at())
		r.known[pointer] = i
	}
	return i
}

// wrote returns the places that wrote a field, with a name for them, and the text that they
// added to what the field held before, or the value itself. ok is false if the step did not
// mean to write the field: kustomize sets all annotations of an object again to add its own.
func (c *change) wrote(path []string, now, was string, had bool) (at func() []render.Origin, pointer, text string, ok bool) {
	whole := func() []render.Origin {
		if len(c.configs) == 0 {
			return c.at
		}
		return []render.Origin{{Span: c.configs[0].at(), Role: c.role}}
	}
	if c.at != nil {
		return whole, "", now, !c.weak || !had || now != was
	}
	if len(path) == 2 && (path[0] == "data" || path[0] == "binaryData") {
		if found, ok := c.data[path[1]]; ok {
			return func() []render.Origin { return found }, "data" + path[1], now, true
		}
	}
	if c.data != nil && had && now == was {
		return whole, "", now, false
	}
	for i, config := range c.configs {
		if pointer, text, score := config.find(path, now, was); score > 0 && (score == sameKey || !isAnnotation(path)) {
			return func() []render.Origin {
				return []render.Origin{{Span: config.at(elements(pointer)...), Role: c.role}}
			}, fmt.Sprint(i, pointer), text, true
		}
	}
	return whole, "", now, len(c.configs) > 0 && !isAnnotation(path)
}

func isAnnotation(path []string) bool {
	return len(path) > 1 && path[0] == "metadata" && path[1] == "annotations"
}

// How certain it is that a text of a configuration was written into a field.
const (
	nameIsPart = iota + 1 // the name by which the transformer selects is part of the value
	isPart                // it is part of the value, and of what the field held before
	isNewPart             // it is a part of the value that the field did not hold before
	isName
	sameText // it is the value
	sameKey  // it has the field's name, too
)

// find returns the pointer of the text in the configuration that was most likely written into
// a field, the text, and how certain that is. Of equally certain ones, it is the last in the value.
func (c config) find(path []string, now, was string) (best, written string, score int) {
	if now == "" || len(path) == 0 {
		return "", "", 0
	}
	end := 0
	for pointer, v := range render.Fields(c.value, "") {
		if !render.IsScalar(v) || v == nil {
			continue
		}
		text, key := fmt.Sprint(v), pointer[strings.LastIndexByte(pointer, '/')+1:]
		at := strings.LastIndex(now, text)
		if text == "" || at < 0 {
			continue
		}
		n := isPart
		switch {
		case text == now && (pointer == "" || render.Pointer(path[len(path)-1])[1:] == key):
			n = sameKey
		case text == now && key != "name":
			n = sameText
		case text == now:
			n = isName
		case !strings.Contains(was, text):
			n = isNewPart
		case key == "name":
			n = nameIsPart
		}
		if n > score || n == score && at+len(text) > end {
			best, written, score, end = pointer, text, n, at+len(text)
		}
	}
	return best, written, score
}

// identities marks the fields by which a patch names its target and the items of lists.
// Where an object has the same value there, that keeps its place.
func identities(n *yaml.Node, inList bool, depth int) {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		names := depth == 0 && (key == "kind" || key == "apiVersion") || inList && slices.Contains(mergeKeys, key)
		if names && v.Kind == yaml.ScalarNode {
			v.Line = -v.Line
		}
		if meta := depth == 0 && key == "metadata"; meta {
			for _, field := range []string{"name", "namespace"} {
				if e := entryOf(v, field); e != nil {
					e.Line = -e.Line
				}
			}
		}
	}
	for i, c := range n.Content {
		if n.Kind == yaml.SequenceNode || i%2 == 1 {
			identities(c, n.Kind == yaml.SequenceNode, depth+1)
		}
	}
}

// mergeKeys are the fields that identify items of lists, the most specific
// first. They are the merge keys of the Kubernetes API, see patchMergeKey in
// k8s.io/api.
var mergeKeys = []string{"name", "containerPort", "port", "mountPath", "devicePath", "ip", "key", "topologyKey", "uid", "type", "id", "path", "host"}

func entryOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
