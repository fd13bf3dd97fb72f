// Package graph shows which objects deploy which units to which clusters. [New] returns the [Graph]
// of an Input; each of the [Formats] writes it.
package graph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

// Formats lists the formats of a graph.
var Formats = report.FormatList[*Graph]{
	{Name: "text", Doc: "for people: the units as a tree", Write: writeText},
	{Name: "json", Doc: "for programs: everything, with what preadmit fetch can bring", Write: writeJSON},
	{Name: "dot", Doc: "for Graphviz", Write: writeDot},
	{Name: "mermaid", Doc: "for Markdown that draws Mermaid", Write: writeMermaid},
}

// A Graph is the JSON of preadmit graph.
type Graph struct {
	Schema    string         `json:"schema"`
	Clusters  []Cluster      `json:"clusters"`
	Units     []Unit         `json:"units"`
	Documents map[string]int `json:"documents"`
	Remotes   []store.Need   `json:"remotes"`

	summary report.Summary
}

// A Cluster is a cluster to which units are deployed.
type Cluster struct {
	Name   string `json:"name"`
	Server string `json:"server"`
}

// Remotes returns the sources that units requested from the store.
func Remotes(in *load.Input) []store.Need {
	needed := make(map[render.Remote]*render.Span)
	for _, u := range slices.Concat(in.Head, in.Context, in.Given) {
		for _, e := range render.Errors(u.Err) {
			if e.Remote != nil {
				span := e.Span
				span.File = in.Tree.Display(span.File)
				needed[*e.Remote] = &span
			}
		}
	}
	all := []store.Need{}
	for _, r := range in.Tree.Store.Asked() {
		x := store.Need{Remote: r, Origin: needed[r]}
		state, entry := in.Tree.Store.State(&r)
		if x.State = state; entry != nil {
			x.Resolved, x.Digest, x.Size = entry.Resolved, entry.Digest, entry.Size
		}
		all = append(all, x)
	}
	return all
}

// A Unit is a unit with its deployment.
type Unit struct {
	report.Unit
	Release string         `json:"release"`
	Values  map[string]any `json:"values,omitempty"`
	Origin  render.Span    `json:"origin"`
}

// New returns the graph of the units in in.
func New(in *load.Input) *Graph {
	g := &Graph{Schema: "preadmit.graph/v1", Clusters: []Cluster{}, Units: []Unit{}, Documents: make(map[string]int), Remotes: Remotes(in)}
	for _, name := range documentKinds {
		g.Documents[name] = 0
	}
	servers := make(map[string]string)
	for _, c := range in.Clusters {
		servers[c.Name] = c.Server
	}
	for _, u := range in.Head {
		if _, ok := servers[u.Cluster]; !ok {
			servers[u.Cluster] = ""
		}
		x := Unit{Unit: report.NewUnit(u), Release: u.Release, Values: u.Values, Origin: u.Origin.Span}
		x.ID, x.Path, x.Owner = in.Tree.Display(x.ID), in.Tree.Display(x.Path), in.Tree.Display(x.Owner)
		x.Reason, x.Origin.File = in.Tree.DisplayIn(x.Reason), in.Tree.Display(x.Origin.File)
		g.Units = append(g.Units, x)
	}
	g.summary = report.New(report.Tool{}, in.Head, nil, nil).Summary
	evaluate.CountCovered(&g.summary, in)
	for _, d := range in.Documents() {
		g.Documents[string(d.State)]++
	}
	for name, server := range servers {
		g.Clusters = append(g.Clusters, Cluster{name, server})
	}
	slices.SortFunc(g.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return g
}

// documentKinds lists the states of YAML documents in the tree.
var documentKinds = []string{"rendered", "data", "in-chart", "unused", "local-config", "skipped", "deleted", "excluded", "fixture", "template"}

func writeJSON(w io.Writer, g *Graph, _ report.Options) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(g)
}

// children returns the units by the ID of their owner, or under "" if the owner
// is none of the units.
func (g *Graph) children() map[string][]*Unit {
	known := make(map[string]bool)
	for _, u := range g.Units {
		known[u.ID] = true
	}
	children := make(map[string][]*Unit)
	for i := range g.Units {
		u := &g.Units[i]
		owner := u.Owner
		if owner == u.ID || !known[owner] {
			owner = ""
		}
		children[owner] = append(children[owner], u)
	}
	return children
}

func writeText(w io.Writer, g *Graph, _ report.Options) error {
	fmt.Fprintln(w, g.summary.Completeness())
	t := &tree{w: w, children: g.children(), done: make(map[string]bool)}
	for _, u := range t.children[""] {
		if u.Status != string(render.Unreached) {
			t.unit(u, 0)
		}
	}
	for i := range g.Units { // units that only deploy each other, and what these deploy
		if u := &g.Units[i]; u.Status != string(render.Unreached) && !t.done[u.ID] {
			t.unit(g.loop(u), 0)
		}
	}
	if g.summary.Unreached > 0 {
		fmt.Fprintln(w, "nothing found here deploys:")
		for i := range g.Units {
			if u := &g.Units[i]; u.Status == string(render.Unreached) {
				t.unit(u, 1)
			}
		}
	}
	return nil
}

// loop returns u's nearest owner that deploys itself, directly or through others, or
// else its last owner that something deploys.
func (g *Graph) loop(u *Unit) *Unit {
	owners := make(map[string]*Unit)
	for i := range g.Units {
		if o := &g.Units[i]; o.Status != string(render.Unreached) {
			owners[o.ID] = o
		}
	}
	for seen := make(map[string]bool); !seen[u.ID] && owners[u.Owner] != nil; u = owners[u.Owner] {
		seen[u.ID] = true
	}
	return u
}

// A tree writes units below the units that deploy them.
type tree struct {
	w        io.Writer
	children map[string][]*Unit
	done     map[string]bool
}

func (t *tree) unit(u *Unit, depth int) {
	if t.done[u.ID] {
		return
	}
	t.done[u.ID] = true
	where := ""
	if u.Path != u.ID && u.Path != "" {
		where = "  " + u.Path
	}
	state := policy.Plural(u.Objects, "object")
	if u.Status != string(render.Rendered) && u.Status != string(render.Unreached) {
		state = cmp.Or(strings.ReplaceAll(u.Status, "-", " "), state)
	}
	if u.Reason != "" {
		state += ": " + u.Reason
	}
	fmt.Fprintf(t.w, "%s%s%s  %s\n", strings.Repeat("  ", depth), report.Plain(u.ID), report.Plain(where), report.Plain(state))
	for _, c := range t.children[u.ID] {
		t.unit(c, depth+1)
	}
}

// label returns the text of a unit in a drawing.
func (u *Unit) label() string {
	if u.Status == string(render.Rendered) {
		return u.ID + " (" + policy.Plural(u.Objects, "object") + ")"
	}
	return u.ID + " (" + strings.ReplaceAll(u.Status, "-", " ") + ")"
}

func writeDot(w io.Writer, g *Graph, _ report.Options) error {
	fmt.Fprintln(w, "digraph preadmit {")
	fmt.Fprintln(w, "  rankdir=LR; node [shape=box];")
	for i := range g.Units {
		u := &g.Units[i]
		fmt.Fprintf(w, "  n%d [label=%s];\n", i, dotQuoted(u.label()))
	}
	g.edges(func(from, to int) { fmt.Fprintf(w, "  n%d -> n%d;\n", from, to) })
	_, err := fmt.Fprintln(w, "}")
	return err
}

func dotQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(report.Plain(s)) + `"`
}

func writeMermaid(w io.Writer, g *Graph, _ report.Options) error {
	_, err := fmt.Fprintln(w, "graph LR")
	for i := range g.Units {
		fmt.Fprintf(w, "  n%d[\"%s\"]\n", i, report.MermaidText(report.Plain(g.Units[i].label())))
	}
	g.edges(func(from, to int) { fmt.Fprintf(w, "  n%d --> n%d\n", from, to) })
	return err
}

// edges calls f for each unit that another unit deploys, with the indices of both.
func (g *Graph) edges(f func(from, to int)) {
	index := make(map[string]int)
	for i, u := range g.Units {
		index[u.ID] = i
	}
	for i, u := range g.Units {
		if from, ok := index[u.Owner]; ok && from != i {
			f(from, i)
		}
	}
}
