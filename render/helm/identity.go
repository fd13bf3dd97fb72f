package helm

import (
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// A node is one part of a tree of values. Templates pass values on as
// interfaces and strings. Go copies only the reference, so a value can be
// recognized by its address wherever it turns up: after with, range and
// variables, in a dict, behind default or index.
type node struct {
	tree  *tree
	above *node
	key   string // key in the map or index in the list above
	item  bool   // key is a number
	val   any    // has an address of its own, which nothing else gets while the node holds it
}

// A tree is the origin of nodes: the values of the release, unless one of the
// fields is set.
type tree struct {
	text  string       // the text that fromYaml read the tree from
	chart *chartValues // the chart, if the tree is its Chart.yaml
}

// path returns the path of the node from the root of its tree.
func (n *node) path() []string {
	if n.above == nil {
		return nil
	}
	return append(n.above.path(), n.key)
}

// word returns the address that identifies a value in an interface: that of the
// map itself, else that of the copy that the interface refers to.
func word(v any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] }

// box returns a copy of a value at an address of its own. Go keeps small values
// and empty strings at shared addresses.
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
	return p.Interface() // this copies, since p is addressable
}

// A treeBuilder gives each part of a tree an address of its own and a node.
type treeBuilder struct {
	nodes []*node
	free  []node // allocated together and not used yet
	seen  map[unsafe.Pointer]bool
}

// addTree adds a map or list to a tree, and changes it in place.
func (g *treeBuilder) addTree(t *tree, v any) {
	if g.seen == nil {
		g.seen = map[unsafe.Pointer]bool{}
	}
	g.value(v, node{tree: t}, 0)
}

func (g *treeBuilder) value(v any, n node, depth int) any {
	if depth > maxValue {
		return v
	}
	switch v := v.(type) {
	case nil:
		if !n.item { // its key has an address
			g.add(n)
		}
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

func (g *treeBuilder) fields(m map[string]any, n node, depth int) {
	if m == nil || g.seen[word(m)] {
		return // the value is at another path as well
	}
	g.seen[word(m)] = true
	n.val = m
	above := g.add(n)
	for _, key := range sortedKeys(m) {
		key = strings.Clone(key) // replaces the map's own key
		m[key] = g.value(m[key], node{tree: n.tree, above: above, key: key}, depth+1)
	}
}

func (g *treeBuilder) add(n node) *node {
	if len(g.free) == 0 {
		g.free = make([]node, 64)
	}
	added := &g.free[0]
	g.free = g.free[1:]
	*added = n
	g.nodes = append(g.nodes, added)
	return added
}

// metadata returns a Chart.yaml as templates see it, with nodes for its fields.
func (g *treeBuilder) metadata(h *chartValues, md chart.Metadata) chart.Metadata {
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

// A record says from which values a function made its result. Records are
// written while templates run and read when an origin is asked for.
type record struct {
	out  any // a string, or a value with an address of its own
	args []any
	yaml bool // out is args[0] written as YAML or JSON
}

// Limits of records. Of results beyond them, only the line in the template is
// known.
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

// carried records that a function copied its arguments into a string.
func (r *run) carried(out string, args ...any) { r.keep(record{out: out, args: args}) }

// marshaled records that a function wrote a value as YAML or JSON.
func (r *run) marshaled(out string, v any) { r.keep(record{out: out, args: []any{v}, yaml: true}) }

// converted records that a function converted a value to a number.
func (r *run) converted(out, v any) any {
	out = box(out)
	r.keep(record{out: out, args: []any{v}})
	return out
}

// parsed records that a function parsed a value from a text.
func (r *run) parsed(text string, v any) {
	if len(r.nodes) < maxRecords {
		r.addTree(&tree{text: text}, v)
	}
}
