package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

// graphOptions are the flags of check that are about what is deployed, and the format.
type graphOptions struct {
	checkOptions
	format string
}

func newGraphCommand(code *int) *cobra.Command {
	var o graphOptions
	cmd := &cobra.Command{
		Use:   "graph [PATH ...]",
		Short: "Show which objects deploy which units, on which cluster",
		Long: `Show the units that Argo CD and Flux objects at each PATH (default: the current
directory) deploy, with the objects that make them, and what nothing deploys.`,
		RunE: runs(code, o.runGraph, "output"),
	}
	o.addSourceFlags(cmd.Flags())
	o.addPolicyFlags(cmd.Flags())
	o.addUserFlags(cmd.Flags())
	o.addChangeFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.format, "output", "o", "text", "`FORMAT`: text, json, dot or mermaid")
	return cmd
}

var graphFormatNames = []string{"text", "json", "dot", "mermaid"}

// graphFormats maps names to the writers of a graph.
var graphFormats = map[string]func(w io.Writer, g *graphOutput) error{
	"text": writeGraphText, "json": writeGraphJSON, "dot": writeGraphDot, "mermaid": writeGraphMermaid,
}

func (o *graphOptions) runGraph(ctx context.Context, args []string, std stdio) (int, error) {
	if err := checkFormat(o.format, graphFormatNames...); err != nil {
		return 0, err
	}
	write := graphFormats[o.format]
	addresses := o.addresses()
	o.Policies, o.Data, o.Base, o.Sparse = nil, nil, "", true
	_, cancel, in, err := o.load(ctx, args, std)
	if err != nil {
		return 0, err
	}
	defer cancel()
	for _, address := range addresses { // they are needed, too
		_, _ = in.Tree.Store.Fetched(render.NewAddressed(address))
	}
	g := newGraphOutput(in)
	w := bufio.NewWriter(std.out)
	if err := write(w, g); err != nil {
		return 0, brokenPipe(err)
	}
	if err := brokenPipe(w.Flush()); err != nil {
		return 0, err
	}
	for _, u := range g.Units {
		if u.Status == string(render.Failed) || u.Status == string(render.NotRendered) || u.Status == string(render.Foreign) {
			return exitIncomplete, nil
		}
	}
	return exitOK, nil
}

// A graphOutput is the JSON of preadmit graph.
type graphOutput struct {
	Schema    string         `json:"schema"`
	Clusters  []graphCluster `json:"clusters"`
	Units     []graphUnit    `json:"units"`
	Documents map[string]int `json:"documents"`
	Remotes   []store.Need   `json:"remotes"`

	summary report.Summary
}

type graphCluster struct {
	Name   string `json:"name"`
	Server string `json:"server"`
}

// remotes returns the sources that units requested from the store.
func remotes(in *load.Input) []store.Need {
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

type graphUnit struct {
	report.Unit
	Release string         `json:"release"`
	Values  map[string]any `json:"values,omitempty"`
	Origin  render.Span    `json:"origin"`
}

func newGraphOutput(in *load.Input) *graphOutput {
	g := &graphOutput{Schema: "preadmit.graph/v1", Clusters: []graphCluster{}, Units: []graphUnit{}, Documents: make(map[string]int), Remotes: remotes(in)}
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
		x := graphUnit{Unit: report.NewUnit(u), Release: u.Release, Values: u.Values, Origin: u.Origin.Span}
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
		g.Clusters = append(g.Clusters, graphCluster{name, server})
	}
	slices.SortFunc(g.Clusters, func(a, b graphCluster) int { return strings.Compare(a.Name, b.Name) })
	return g
}

// documentKinds lists the states of YAML documents in the tree.
var documentKinds = []string{"rendered", "data", "in-chart", "unused", "local-config", "skipped", "deleted", "excluded", "fixture", "template"}

func writeGraphJSON(w io.Writer, g *graphOutput) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(g)
}

// children returns the units by the ID of their owner, or under "" if the owner
// is none of the units.
func (g *graphOutput) children() map[string][]*graphUnit {
	known := make(map[string]bool)
	for _, u := range g.Units {
		known[u.ID] = true
	}
	children := make(map[string][]*graphUnit)
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

func writeGraphText(w io.Writer, g *graphOutput) error {
	fmt.Fprintln(w, g.summary.Completeness())
	t := &graphText{w: w, children: g.children(), done: make(map[string]bool)}
	for _, u := range t.children[""] {
		if u.Status != string(render.Unreached) {
			t.unit(u, 0)
		}
	}
	for i := range g.Units { // which only make each other
		if u := &g.Units[i]; u.Status != string(render.Unreached) {
			t.unit(u, 0)
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

type graphText struct {
	w        io.Writer
	children map[string][]*graphUnit
	done     map[string]bool
}

func (g *graphText) unit(u *graphUnit, depth int) {
	if g.done[u.ID] {
		return
	}
	g.done[u.ID] = true
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
	fmt.Fprintf(g.w, "%s%s%s  %s\n", strings.Repeat("  ", depth), report.Plain(u.ID), report.Plain(where), report.Plain(state))
	for _, c := range g.children[u.ID] {
		g.unit(c, depth+1)
	}
}

// label returns the text of a unit in a drawing.
func (g *graphUnit) label() string {
	if g.Status == string(render.Rendered) {
		return g.ID + " (" + policy.Plural(g.Objects, "object") + ")"
	}
	return g.ID + " (" + strings.ReplaceAll(g.Status, "-", " ") + ")"
}

func writeGraphDot(w io.Writer, g *graphOutput) error {
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

func writeGraphMermaid(w io.Writer, g *graphOutput) error {
	_, err := fmt.Fprintln(w, "graph LR")
	for i := range g.Units {
		fmt.Fprintf(w, "  n%d[\"%s\"]\n", i, mermaidEscaped.Replace(report.Plain(g.Units[i].label())))
	}
	g.edges(func(from, to int) { fmt.Fprintf(w, "  n%d --> n%d\n", from, to) })
	return err
}

var mermaidEscaped = strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "#", "#35;")

// edges calls f for each unit that another one makes, by their indices.
func (g *graphOutput) edges(f func(from, to int)) {
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
