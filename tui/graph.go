package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A graph shows what deploys what: the clusters, the units on them, and below
// each unit those that its objects make.
type graph struct {
	roots  []*node
	units  map[string]*node // by identity
	folded map[string]bool  // by key
	rows   []graphRow

	cursor, top int
	height      int
	scroll      int // scroll position of the preview
}

// A node is a unit, or a heading above several.
type node struct {
	key      string
	title    string
	unit     *report.Unit // nil for a heading
	parent   *node
	children []*node

	own, all tally // results of the unit, and of everything below it too
}

// A tally counts the open results by how bad they are.
type tally struct{ denied, undecided, warned, audited int }

type graphRow struct {
	*node
	depth int
}

func newGraph() *graph { return &graph{folded: make(map[string]bool)} }

// load loads the units of a report. The cursor stays on its node.
func (g *graph) load(r *report.Report) {
	was := g.node()
	g.units, g.roots = make(map[string]*node, len(r.Units)), nil
	for i := range r.Units {
		u := &r.Units[i]
		if g.units[u.Identity()] == nil {
			g.units[u.Identity()] = &node{key: u.Identity(), unit: u}
		}
	}
	heads := g.headings(r.Units)
	for i := range r.Units {
		u := &r.Units[i]
		n := g.units[u.Identity()]
		if n.unit != u {
			continue
		}
		if owner := g.units[u.Owner]; owner != nil && !owner.below(n) {
			n.parent = owner
		} else if n.parent = heads.of(u); n.parent == nil {
			g.roots = append(g.roots, n)
			continue
		}
		n.parent.children = append(n.parent.children, n)
	}
	g.roots = append(g.roots, heads.inOrder()...)
	g.entitle()
	g.build()
	if was != nil {
		g.to(was.key)
	}
}

// below reports whether a node is n or made by it, directly or indirectly.
func (n *node) below(other *node) bool {
	for up := n; up != nil; up = up.parent {
		if up == other {
			return true
		}
	}
	return false
}

// headings holds a heading for each cluster, if clusters are known, and one for
// the units that nothing deploys.
type headings struct {
	clusters  map[string]*node
	unreached *node
}

func (g *graph) headings(units []report.Unit) *headings {
	h := &headings{clusters: make(map[string]*node)}
	for i := range units {
		if c := units[i].Cluster; c != "" && h.clusters[c] == nil {
			h.clusters[c] = &node{key: "cluster " + c, title: "cluster " + report.Name(c)}
		}
	}
	h.unreached = &node{key: "unreached", title: "nothing found here deploys these"}
	return h
}

// of returns the heading for a unit that no other makes, or nil if it needs
// none.
func (h *headings) of(u *report.Unit) *node {
	if u.Status == string(render.Unreached) {
		return h.unreached
	}
	return h.clusters[u.Cluster]
}

func (h *headings) inOrder() []*node {
	var all []*node
	for _, n := range h.clusters {
		if len(n.children) > 0 {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return strings.Compare(a.key, b.key) })
	if len(h.unreached.children) > 0 {
		all = append(all, h.unreached)
	}
	return all
}

// entitle gives units titles that are unique below the same node.
func (g *graph) entitle() {
	for _, n := range g.units {
		title := n.unit.Identity()
		if c := n.unit.Cluster; c != "" {
			title = strings.TrimPrefix(title, c+":")
			if n.parent != nil && n.parent.unit != nil && n.parent.unit.Cluster != c {
				title += " on " + c
			}
		}
		n.title = report.Visible(title, 1024)
	}
}

// count counts the open results of each unit.
func (g *graph) count(entries []*entry) {
	for _, n := range g.units {
		n.own = tally{}
	}
	for _, e := range entries {
		if n := g.units[e.Object.Unit]; n != nil && !e.proposed {
			n.own.add(e)
		}
	}
	for _, n := range g.roots {
		n.sum()
	}
}

func (t *tally) add(e *entry) {
	switch now := e.state(); {
	case now == isUndecided:
		t.undecided++
	case now != isNew && (now != isKnown || !e.Unreached):
	case e.rank == 0:
		t.denied++
	case e.class == "audit":
		t.audited++
	default:
		t.warned++
	}
}

func (n *node) sum() tally {
	n.all = n.own
	for _, c := range n.children {
		x := c.sum()
		n.all = tally{n.all.denied + x.denied, n.all.undecided + x.undecided, n.all.warned + x.warned, n.all.audited + x.audited}
	}
	return n.all
}

// String describes the counts in words.
func (t tally) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{t.denied, "denied"}, {t.undecided, "unknown"}, {t.warned, "warned"}, {t.audited, "audited"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}

// build builds the rows again, after folding.
func (g *graph) build() {
	g.rows = g.rows[:0]
	for _, n := range g.roots {
		g.rowsOf(n, 0)
	}
	g.move(0)
}

func (g *graph) rowsOf(n *node, depth int) {
	g.rows = append(g.rows, graphRow{n, depth})
	if !g.folded[n.key] {
		for _, c := range n.children {
			g.rowsOf(c, depth+1)
		}
	}
}

// node returns the node under the cursor, or nil in an empty graph.
func (g *graph) node() *node {
	if g.cursor < 0 || g.cursor >= len(g.rows) {
		return nil
	}
	return g.rows[g.cursor].node
}

// move moves the cursor and the window, within bounds.
func (g *graph) move(by int) {
	if by != 0 {
		g.scroll = 0
	}
	g.cursor = max(0, min(g.cursor+by, len(g.rows)-1))
	g.top = windowOn(g.cursor, g.top, g.height, len(g.rows))
}

// to moves to a node, and unfolds the nodes above it.
func (g *graph) to(key string) (ok bool) {
	n := g.units[key]
	if n != nil {
		for up := n.parent; up != nil; up = up.parent {
			delete(g.folded, up.key)
		}
		g.build()
	}
	for i := range g.rows {
		if g.rows[i].key == key {
			g.move(i - g.cursor)
			return true
		}
	}
	return false
}

// fold folds the cursor's node or, if that can't be folded, the one above it.
func (g *graph) fold(folded bool) {
	n := g.node()
	if n == nil {
		return
	}
	if folded && (len(n.children) == 0 || g.folded[n.key]) && n.parent != nil {
		n = n.parent
	}
	g.folded[n.key] = folded
	g.build()
	g.to(n.key)
}

// foldAll folds every node, or opens all.
func (g *graph) foldAll(folded bool) {
	n := g.node()
	if n == nil {
		return
	}
	clear(g.folded)
	for i := range g.rows {
		if folded && len(g.rows[i].children) > 0 {
			g.folded[g.rows[i].key] = true
		}
	}
	for up := n; folded && up.parent != nil; n = up {
		up = up.parent
	}
	g.build()
	g.to(n.key)
}

// unitUnreached reports whether nothing found in the tree deploys the unit.
func (n *node) unitUnreached() bool {
	return n.unit != nil && n.unit.Status == string(render.Unreached)
}

// next moves to the next node of the first level, or the previous one.
func (g *graph) next(by int) {
	for i := g.cursor + by; i >= 0 && i < len(g.rows); i += by {
		if g.rows[i].depth == 0 {
			g.move(i - g.cursor)
			return
		}
	}
}

// ownersOf returns the units that deploy a unit, the root first, and the unit
// last.
func ownersOf(units []report.Unit, id string) []*report.Unit {
	var chain []*report.Unit
	for id != "" && len(chain) < 64 {
		i := slices.IndexFunc(units, func(u report.Unit) bool { return u.Identity() == id })
		if i < 0 || slices.Contains(chain, &units[i]) {
			break
		}
		chain = append(chain, &units[i])
		id = units[i].Owner
	}
	slices.Reverse(chain)
	return chain
}

// unitTitle names a unit with its source and destination.
func unitTitle(u *report.Unit) string {
	title := u.Identity()
	if u.Path != "" && u.Path != u.Identity() {
		title += " from " + u.Path
	}
	if u.Cluster != "" && !strings.HasPrefix(u.Identity(), u.Cluster+":") {
		title += " on " + u.Cluster
	}
	return title
}

// nodePane shows a node: the chain that deploys it, its state, and its results by
// rule.
func (m *model) nodePane(n *node, width int) pane {
	var p pane
	p.wrap(titleLine, noLanguage, n.title, width)
	if n.unit == nil {
		p.add(plainLine, policy.Plural(len(n.children), "unit")+" directly below"+cmp.Or(prefixed(": ", n.all.String()), ", nothing open"))
		return p
	}
	u := n.unit
	for _, f := range []struct{ name, value string }{
		{"state", u.Status},
		{"why", u.Reason},
		{"path", u.Path},
		{"rendered by", u.Renderer},
		{"cluster", u.Cluster},
		{"namespace", u.Namespace},
		{"objects", fmt.Sprint(u.Objects)},
		{"open", n.own.String()},
		{"and below", n.all.String()},
	} {
		if f.value != "" && (f.name != "and below" || n.all != n.own) {
			p.wrap(plainLine, noLanguage, fmt.Sprintf("%-12s %s", f.name, f.value), width)
		}
	}
	p.add(plainLine, "")
	p.add(dimLine, "deployed by")
	for i, up := range ownersOf(m.session.report.Units, u.Identity()) {
		p.wrap(plainLine, noLanguage, strings.Repeat("  ", min(i, 8))+unitTitle(up), width)
	}
	m.unitRules(&p, u.Identity(), width)
	return p
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// unitRules adds the rules with open results in a unit.
func (m *model) unitRules(p *pane, id string, width int) {
	of := func(e *entry) bool { return e.Object.Unit == id && (e.state() == isNew || e.state() == isUndecided) }
	var mine []*entry
	for _, e := range m.session.entries {
		if of(e) && !e.proposed {
			mine = append(mine, e)
		}
	}
	if len(mine) == 0 {
		return
	}
	p.add(plainLine, "")
	p.add(dimLine, "open, by rule")
	for _, g := range arrange(mine, spec{section: sectionAll}).groups {
		p.wrap(plainLine, noLanguage, fmt.Sprintf("%4d %s  %s", len(g.items), g.items[0].class, g.name), width)
	}
}

// graphLines returns the rows of the graph in the window.
func (m *model) graphLines(r rect) []string {
	g := m.graph
	var lines []string
	for i := g.top; i < min(len(g.rows), g.top+r.h); i++ {
		lines = append(lines, m.nodeLine(g.rows[i], i == g.cursor, r.w))
	}
	return block(lines, r.w, r.h)
}

// nodeLine draws a row: a symbol, the name, the state and the counts.
func (m *model) nodeLine(row graphRow, cursor bool, width int) string {
	n := row.node
	fold := "  "
	switch {
	case len(n.children) > 0 && m.graph.folded[n.key]:
		fold = "▸ "
	case len(n.children) > 0:
		fold = "▾ "
	}
	sign, open := " ", n.own
	if cursor {
		sign = ">"
	}
	if n.unit == nil || m.graph.folded[n.key] {
		open = n.all
	}
	right := strings.TrimPrefix(n.state()+prefixed(", ", open.String()), ", ")
	left := sign + strings.Repeat("  ", min(row.depth, 12)) + fold
	style, symbol := m.symbol(n, open)
	least := min(ansi.StringWidth(n.title), 30) // cells for the name, which is more important than counts
	room := width - ansi.StringWidth(left) - 3
	for _, shorter := range []string{open.String(), ""} {
		if room-ansi.StringWidth(right) < least {
			right = shorter
		}
	}
	room = max(1, room-ansi.StringWidth(right))
	name := pad(elide(n.title, room), room)
	if cursor {
		return m.theme.selected.Render(fit(left+symbol+" "+name+" "+right, width))
	}
	return fit(left+style.Render(symbol)+" "+name+" "+m.theme.dim.Render(right), width)
}

// state describes the state of a unit that is not simply rendered.
func (n *node) state() string {
	switch {
	case n.unit == nil:
		return ""
	case n.unit.Status != string(render.Rendered) && !n.unitUnreached():
		return n.unit.Status
	}
	return policy.Plural(n.unit.Objects, "object")
}

// symbol returns the symbol and style for the worst open result of a node.
func (m *model) symbol(n *node, open tally) (lipgloss.Style, string) {
	switch {
	case open.denied > 0:
		return m.theme.class(0)
	case n.unit != nil && n.unit.Status == string(render.Failed):
		return m.theme.class(1)
	case open.undecided > 0 || n.unit != nil && (n.unit.Status == string(render.NotRendered) || n.unit.Status == string(render.Foreign)):
		return m.theme.class(2)
	case open.warned+open.audited > 0:
		return m.theme.class(3)
	case n.unit == nil && !strings.HasPrefix(n.key, "cluster "), n.unit != nil && n.unit.Status == string(render.Suspended):
		return m.theme.dim, "·"
	}
	return m.theme.good, "✓"
}

// nodeLines returns the preview of the node under the cursor.
func (m *model) nodeLines(r rect) []string {
	n := m.graph.node()
	if n == nil {
		return block(nil, r.w, r.h)
	}
	p := m.nodePane(n, r.w)
	m.graph.scroll = max(0, min(m.graph.scroll, len(p.lines)-r.h))
	var lines []string
	for i := m.graph.scroll; i < min(len(p.lines), m.graph.scroll+r.h); i++ {
		lines = append(lines, m.paneLine(&p.lines[i], r.w))
	}
	return block(lines, r.w, r.h)
}
