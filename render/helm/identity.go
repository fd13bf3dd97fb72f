package helm

import (
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// A node is one part of a tree of values. Templates hand values on as
// interfaces and strings, of which Go copies the reference and not what is
// there, so that a value is known again by its address wherever it turns up:
// after with, range and variables, in a dict, behind default or index.
type node struct {
	tree  *tree
	above *node
	key   string // below it: in a map, or the number of an item
	item  bool   // key is a number
	val   any    // at an address of its own, which this keeps from being another's
}

// A tree is what nodes are in: the values of the release, unless one of the
// fields is set.
type tree struct {
	text  string // that the tree was read from, with fromYaml
	chart *home  // of which it is the Chart.yaml
}

// path is that of the node's tree, from its root.
func (n *node) path() []string {
	if n.above == nil {
		return nil
	}
	return append(n.above.path(), n.key)
}

// word is the address by which a value in an interface is known: that of the
// map itself, else that of the copy that the interface refers to.
func word(v any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] }

// box returns a copy of a value that shares its address with no other. Go keeps
// small values and empty strings at addresses that all of them share.
func box(v any) any {
	switch v := v.(type) {
	case string:
		if v != "" {
			return strings.Clone(v)
		}
	case float64:
		if v != 0 {
			return v
		}
	}
	p := reflect.New(reflect.TypeOf(v)).Elem()
	p.Set(reflect.ValueOf(v))
	return p.Interface() // copies, since p is addressable
}

// A gardener plants trees: it gives each of their parts an address of its own
// and a node.
type gardener struct {
	nodes []*node
	free  []node // made together
	seen  map[unsafe.Pointer]bool
}

// plant plants a value, maps and lists in place. What it returns stands for it.
func (g *gardener) plant(t *tree, v any) any {
	if g.seen == nil {
		g.seen = map[unsafe.Pointer]bool{}
	}
	return g.value(v, node{tree: t}, 0)
}

func (g *gardener) value(v any, n node, depth int) any {
	if depth > maxValue {
		return v
	}
	switch v := v.(type) {
	case nil:
	case chartutil.Values:
		g.fields(v, n, depth)
	case map[string]any:
		g.fields(v, n, depth)
	case []any:
		n.val = box(v)
		above := g.add(n)
		for i := range v {
			v[i] = g.value(v[i], node{tree: n.tree, above: above, key: strconv.Itoa(i), item: true}, depth+1)
		}
		return n.val
	default:
		n.val = box(v)
		g.add(n)
		return n.val
	}
	return v
}

func (g *gardener) fields(m map[string]any, n node, depth int) {
	if m == nil || g.seen[word(m)] {
		return // it is at another path as well
	}
	g.seen[word(m)] = true
	n.val = m
	above := g.add(n)
	for _, key := range sortedKeys(m) {
		key = strings.Clone(key) // takes the place of the map's own
		m[key] = g.value(m[key], node{tree: n.tree, above: above, key: key}, depth+1)
	}
}

func (g *gardener) add(n node) *node {
	if len(g.free) == 0 {
		g.free = make([]node, 64)
	}
	added := &g.free[0]
	g.free = g.free[1:]
	*added = n
	g.nodes = append(g.nodes, added)
	return added
}

// metadata returns what a template sees of a Chart.yaml, planted.
func (g *gardener) metadata(h *home, md chart.Metadata) chart.Metadata {
	t := &tree{chart: h}
	root := &node{tree: t}
	for key, s := range map[string]*string{
		"name": &md.Name, "version": &md.Version, "appVersion": &md.AppVersion, "description": &md.Description,
		"home": &md.Home, "icon": &md.Icon, "type": &md.Type, "kubeVersion": &md.KubeVersion,
	} {
		if *s != "" {
			*s = strings.Clone(*s)
			g.add(node{tree: t, above: root, key: key, val: *s})
		}
	}
	return md
}

// A record says what a function made of what. Records are written while templates
// run and read when somebody asks.
type record struct {
	out  any // a string, or a value with an address of its own
	args []any
	yaml bool // out is args[0] as YAML or JSON
}

// What is kept of records. Of what is made beyond it only the line in the template
// is known.
const (
	maxRecords  = 1 << 20
	maxRecorded = 64 << 20 // bytes of text
)

func (r *run) keep(n record) {
	if s, ok := n.out.(string); ok {
		if s == "" || r.recorded > maxRecorded {
			return
		}
		r.recorded += len(s)
	}
	if len(r.records) < maxRecords {
		r.records = append(r.records, n)
	}
}

// carried notes that a function carried its arguments over into a string.
func (r *run) carried(out string, args ...any) { r.keep(record{out: out, args: args}) }

// marshaled notes that a function wrote a value as YAML or JSON.
func (r *run) marshaled(out string, v any) { r.keep(record{out: out, args: []any{v}, yaml: true}) }

// converted notes that a function made a number of a value.
func (r *run) converted(out, v any) any {
	out = box(out)
	r.keep(record{out: out, args: []any{v}})
	return out
}

// parsed notes that a function read a value from a text.
func (r *run) parsed(text string, v any) {
	if len(r.nodes) < maxRecords {
		r.plant(&tree{text: text}, v)
	}
}
