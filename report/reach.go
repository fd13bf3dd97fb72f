package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A reached unit is one that a change reaches: objects in it change, or it
// deploys a unit in which objects change.
type reached struct {
	id, cluster string
	status      string // if it was not rendered
	changes     []Change
	below       []*reached
	placed      bool // it is a root, or below the unit that deploys it
}

// reachOf returns the units that a change reaches, below those that deploy them.
// all counts them.
func reachOf(units []Unit, changed []unitChanges) (roots []*reached, all int) {
	known := make(map[string]*Unit, len(units))
	for i := range units {
		known[units[i].Identity()] = &units[i]
	}
	nodes := make(map[string]*reached)
	var node func(id, cluster string) *reached
	node = func(id, cluster string) *reached {
		if n := nodes[id]; n != nil {
			return n
		}
		n, owner := &reached{id: id, cluster: cluster}, (*reached)(nil)
		nodes[id] = n
		if u := known[id]; u != nil {
			n.cluster = cmp.Or(u.Cluster, cluster)
			if u.missing() || u.Status == string(render.Suspended) {
				n.status = strings.ReplaceAll(name(u.Status), "-", " ")
			}
			if known[u.Owner] != nil {
				owner = node(u.Owner, "")
			}
		}
		if owner != nil && owner.placed {
			owner.below = append(owner.below, n)
		} else { // no owner, or units that deploy each other
			roots = append(roots, n)
		}
		n.placed = true
		return n
	}
	for i := range changed {
		n := node(changed[i].unit, changed[i].cluster)
		n.changes = append(n.changes, changed[i].changes...)
	}
	return roots, len(nodes)
}

// A shape is a unit or an object in the picture of a change. Its text is safe to
// show.
type shape struct {
	Name, Count string
	Class       string // of an object: what happens to it
	Below       []*shape
}

// picture returns the units that the change reaches with the objects that change
// in them, at most the given number of shapes. Units come first: those without
// room for their objects, or with more than perUnit, have their number alone.
// There is no picture if no unit deploys another.
func (d *digest) picture(most, perUnit int) []*shape {
	roots, all := reachOf(d.Units, d.changes)
	if !slices.ContainsFunc(roots, func(r *reached) bool { return r.below != nil }) {
		return nil
	}
	room := most
	if all > most {
		room-- // for the number of the others
	}
	var drawn []*shape
	var units []*reached
	var draw func(nodes []*reached, depth int) []*shape
	draw = func(nodes []*reached, depth int) (level []*shape) {
		for _, n := range nodes {
			if room == 0 || depth == maxDepth {
				break
			}
			room--
			s := &shape{Name: (&unitChanges{unit: n.id, cluster: n.cluster}).onCluster(strings.TrimSpace)}
			drawn, units = append(drawn, s), append(units, n)
			s.Below = draw(n.below, depth+1)
			level = append(level, s)
		}
		return level
	}
	picture := draw(roots, 0)
	for i, n := range units {
		counts := []string{n.status, happeningCount(n.changes, "object"), classCount(d.byUnit[n.id])}
		drawn[i].Count = strings.Join(slices.DeleteFunc(counts, func(s string) bool { return s == "" }), " · ")
		if len(n.changes) > min(room, perUnit) {
			continue
		}
		room -= len(n.changes)
		for j := range n.changes {
			c := &n.changes[j]
			drawn[i].Below = append(drawn[i].Below, &shape{Class: c.happens(), Name: short(c.Object)})
		}
	}
	if left := all - len(drawn); left > 0 {
		picture = append(picture, &shape{Name: "and " + policy.Plural(left, "more unit")})
	}
	return picture
}

// maxDepth bounds the depth of a picture: browsers give up at 512 nested elements.
const maxDepth = 50

// classCount formats counts of findings as "3 denied, 1 warned".
func classCount(counts [numClasses]int) string {
	var words []string
	for c, n := range counts {
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, classes[c].count))
		}
	}
	return strings.Join(words, ", ")
}

// A unitFindings holds the numbers of open findings of a unit, by class.
type unitFindings struct {
	unit   string
	counts [numClasses]int
}

// findingsByUnit returns the units with findings, the worst first.
func (d *digest) findingsByUnit() []unitFindings {
	var all []unitFindings
	for unit, counts := range d.byUnit {
		all = append(all, unitFindings{unit, counts})
	}
	slices.SortFunc(all, func(a, b unitFindings) int {
		return cmp.Or(-slices.Compare(a.counts[:], b.counts[:]), strings.Compare(a.unit, b.unit))
	})
	return all
}

// mermaid draws a picture as Mermaid does, with objects in round boxes.
func mermaid(picture []*shape) string {
	var b strings.Builder
	b.WriteString("graph LR\n")
	n := 0
	var draw func(from string, level []*shape)
	draw = func(from string, level []*shape) {
		for _, s := range level {
			id := fmt.Sprintf("n%d", n)
			n++
			label, left, right := s.Name, "[", "]"
			if s.Class != "" {
				label, left, right = s.Class+": "+s.Name, "([", "])"
			}
			label = elided(label, maxLabel)
			if s.Count != "" {
				label += ": " + s.Count
			}
			b.WriteString("  " + from + id + left + `"` + MermaidText(label) + `"` + right + "\n")
			draw(id+" --> ", s.Below)
		}
	}
	draw("", picture)
	return strings.TrimSuffix(b.String(), "\n")
}

// maxLabel bounds a name in a picture, in characters.
const maxLabel = 60

// elided cuts a text in the middle, since both ends of a path distinguish it.
func elided(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return string(r[:limit/2]) + "…" + string(r[len(r)-limit/2+1:])
}
