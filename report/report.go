// Package report writes reports.
//
// A [Report] is plain data: units, rules and results. [Write] writes it in one of
// the [Formats]. Its children write what other commands print, in formats of
// their own. Outside tools rely on the JSON format. [Read] reads it back, so that a saved
// report can be written in every other format. Formats decide nothing:
// [Report.Denied] and [Report.Incomplete] say how the run ended, and the exit code
// uses them too.
//
// The files:
//
//   - report.go, list.go: a report and its results; shard.go joins the reports of parts
//   - format.go lists the formats, each in a file of its name: text.go (with printer.go,
//     summary.go), concise.go, json.go, sarif.go (with sarif*.go), markdown.go, github.go,
//     junit.go, gitlab.go, html.go (with htmlfinding.go), policyreport.go
//   - class.go groups the findings that read as one; digest.go divides a report into the
//     parts of markdown and HTML, and shares their space
//   - tally.go counts; missing.go, changes.go and rehearsal.go list what a report has besides
//     findings; reach.go draws a change
//   - source.go, excerpt.go: lines of files, and their addresses
//   - escape.go: all text of others passes through it, so that none acts on a terminal,
//     a runner or a page
//   - verify.go, verifyplace.go: the command verify
//   - policies.go, coverage.go, mutation.go: the reports of other commands
//   - screen.go: what the screen and the editor need
package report

import (
	"cmp"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Schema names the version of the JSON report.
const Schema = "preadmit.report/v1"

// A Report holds the results of one run.
type Report struct {
	Schema  string          `json:"schema"`
	Tool    Tool            `json:"tool"`
	Units   []Unit          `json:"units"`
	Summary Summary         `json:"summary"`
	Results []policy.Result `json:"results"`
	Rules   []policy.Rule   `json:"rules"` // every rule that was applied, sorted
	Notes   []string        `json:"notes"` // assumptions about the whole run, such as the default pack

	Documents []Document `json:"documents"` // Kubernetes objects in the tree's files, with their states

	// Base is the revision that the tree was compared with, or nil. Changes are
	// the changes on the cluster. Proposed are the results that changed
	// policies add (Baseline is New) or remove (Absent); all other results are
	// those of the base's policies.
	Base     *Base           `json:"base,omitempty"`
	Changes  []Change        `json:"changes,omitempty"`
	Proposed []policy.Result `json:"proposed,omitempty"`

	// Shard identifies the part of a run that the report is; nil means all of
	// it.
	Shard *Shard `json:"shard,omitempty"`

	// Passes are results that are kept apart when there are very many: all
	// yields them among the others. If it is nil, all results are in Results.
	Passes *policy.Passes      `json:"-"`
	Held   *policy.CompactList `json:"-"` // so are these, which are not passes

	Rehearsal *Rehearsal `json:"rehearsal,omitempty"` // the rehearsed change, or nil

	// Tree contains the files from which source lines are read, for code frames
	// and line hashes, or is nil.
	Tree fs.FS `json:"-"`
}

// A Base is a revision with which the tree was compared.
type Base struct {
	Revision string `json:"revision"` // as given
	Commit   string `json:"commit"`   // 40 hexadecimal digits
}

// A Change is a change to one object on the cluster.
type Change struct {
	Operation policy.Operation `json:"operation"`
	Object    render.Key       `json:"object"`
	Cluster   string           `json:"cluster,omitempty"`   // cluster of its unit, if known
	From      *render.Key      `json:"from,omitempty"`      // its earlier unit or version, if it had another
	Unchanged bool             `json:"unchanged,omitempty"` // it moves only
	Recreated bool             `json:"recreated,omitempty"` // its deployer deletes it and creates it again
	Uncertain bool             `json:"uncertain,omitempty"` // it is unknown whether it is on the cluster, since at the base its unit could not be rendered or its deployer did not act: it is created or updated, or perhaps deleted
	Dropped   bool             `json:"dropped,omitempty"`   // its old deployer deletes it, unless the new one applies it first
	Origin    *render.Span     `json:"origin,omitempty"`    // where the object is written; at the base where it is deleted
	// Diff is the change of the object as rendered, in lines of a unified diff.
	// Values of Secrets are covered, and long diffs are cut.
	Diff string `json:"diff,omitempty"`
	// Takes says what a cluster deletes along with the object: the objects in a
	// Namespace, the objects of a definition's kind.
	Takes string `json:"takes,omitempty"`
}

// Tool is the program that wrote the report.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Unit is a rendered source without its objects.
type Unit struct {
	ID        string `json:"id"` // that objects name as their unit
	Path      string `json:"path"`
	Kind      string `json:"kind"`
	Renderer  string `json:"renderer"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Owner     string `json:"owner"`  // the ID of the unit whose object makes it
	Status    string `json:"status"` // a render.State
	Objects   int    `json:"objects"`
	Reason    string `json:"reason"` // why it was not rendered whole
}

// Identity returns the unit's ID. Reports of earlier versions have only paths.
func (u *Unit) Identity() string { return cmp.Or(u.ID, u.Path) }

// missing reports whether objects of the unit that are deployed are unknown.
func (u *Unit) missing() bool {
	return u.Status != string(render.Rendered) && u.Status != string(render.Suspended) && u.Status != string(render.Unreached)
}

// unreached reports whether nothing found in the tree deploys the unit.
func (u *Unit) unreached() bool { return u.Status == string(render.Unreached) }

// Summary counts units, objects, policies and rules, and results by outcome.
type Summary struct {
	Units    int `json:"units"`
	Rendered int `json:"rendered"`

	// Units by each other state, and all of them; Clusters counts the clusters
	// to which units are deployed.
	Discovered  int    `json:"discovered"`
	Failed      int    `json:"failed"`
	NotRendered int    `json:"notRendered"`
	Suspended   int    `json:"suspended"`
	Foreign     int    `json:"foreign"`
	Unreached   int    `json:"unreached"`
	Excluded    int    `json:"excluded"` // files with objects that are left out
	Clusters    int    `json:"clusters"`
	Roots       int    `json:"roots,omitempty"` // declared units, and units with GitOps objects that no other unit makes
	Doubt       string `json:"doubt,omitempty"` // a sentence about roots that seem not to be those of a cluster, with the line of the configuration that settles it

	Objects    int `json:"objects"`
	Policies   int `json:"policies"`
	Rules      int `json:"rules"`
	Pass       int `json:"pass"`
	Fail       int `json:"fail"`
	Skip       int `json:"skip"`
	Unknown    int `json:"unknown"`
	Error      int `json:"error"`
	New        int `json:"new"`
	Suppressed int `json:"suppressed"`

	Documents map[render.DocumentState]int `json:"documents,omitempty"` // by state
}

// New makes a report of units, rules and results, and counts them. It does not
// sort. The caller must not change the results afterwards.
func New(tool Tool, units []*render.Unit, rules []policy.Rule, results []policy.Result) *Report {
	r := &Report{
		Schema: Schema, Tool: tool,
		Units: []Unit{}, Notes: []string{}, Rules: append([]policy.Rule{}, rules...), Results: nonNil(results),
	}
	for _, u := range units {
		r.Units = append(r.Units, NewUnit(u))
	}
	r.Summary.units(r.Units)
	policies := make(map[[2]string]bool)
	for _, rule := range rules {
		policies[[2]string{rule.Engine, rule.Policy}] = true
	}
	r.Summary.Policies, r.Summary.Rules = len(policies), len(rules)
	for i := range results {
		r.count(&results[i])
	}
	return r
}

// AddPasses adds passes, which must be sorted, to the results. The caller must
// not change them afterwards.
func (r *Report) AddPasses(passes *policy.Passes) {
	r.Passes = passes
	for x, n := range passes.Rules() {
		if r.Summary.Pass += n; x.Baseline == policy.New {
			r.Summary.New += n
		}
	}
}

// AddHeld adds other results, which must be sorted. The caller must not change them
// afterwards.
func (r *Report) AddHeld(held *policy.CompactList) {
	r.Held = held
	for x := range held.All() {
		r.count(x)
	}
}

// all yields every result in the report's order. A result is valid until the next one
// comes.
func (r *Report) all() iter.Seq[*policy.Result] {
	rest := policy.Each(sorted(r.Results))
	if r.Held.Len() > 0 {
		rest = policy.Merged(r.Held.All(), rest)
	}
	return policy.Merged(rest, r.Passes.All())
}

// Others yields every result that is not in Passes, in any order. A result is valid until
// the next one comes.
func (r *Report) Others() iter.Seq[*policy.Result] {
	return func(yield func(*policy.Result) bool) {
		for i := range r.Results {
			if !yield(&r.Results[i]) {
				return
			}
		}
		r.Held.All()(yield)
	}
}

// NewUnit describes a unit.
func NewUnit(u *render.Unit) Unit {
	n := Unit{
		ID: u.Identity(), Path: u.Path, Kind: u.Kind, Renderer: u.Renderer, Name: u.Name, Namespace: u.Namespace,
		Cluster: u.Cluster, Status: u.Status(), Objects: len(u.Objects), Reason: u.Reason,
	}
	if n.Renderer == "" {
		n.Renderer = map[string]string{"helm": "helm", "kustomize": "kustomize", "manifest": "directory"}[u.Kind]
	}
	if u.Owner != nil && u.Owner.Unit != nil {
		n.Owner = u.Owner.Unit.Identity()
	}
	if failures := render.Failures(u.Err); len(failures) > 0 {
		n.Reason = failures[0].Error()
	}
	return n
}

// units counts units by their states.
func (s *Summary) units(units []Unit) {
	clusters := make(map[string]bool)
	for i := range units {
		s.Objects += units[i].Objects
		clusters[units[i].Cluster] = true
		switch render.State(units[i].Status) {
		case render.Rendered:
			s.Rendered++
		case render.Failed:
			s.Failed++
		case render.NotRendered:
			s.NotRendered++
		case render.Suspended:
			s.Suspended++
		case render.Foreign:
			s.Foreign++
		case render.Unreached:
			s.Unreached++
		}
	}
	if len(clusters) > 1 {
		delete(clusters, "") // of which the tree does not say on which they are
	}
	s.Units, s.Discovered, s.Clusters = len(units), len(units), len(clusters)
}

func (r *Report) count(x *policy.Result) {
	switch x.Outcome {
	case policy.Pass:
		r.Summary.Pass++
	case policy.Fail:
		r.Summary.Fail++
	case policy.Skip:
		r.Summary.Skip++
	case policy.Unknown:
		r.Summary.Unknown++
	case policy.Error:
		r.Summary.Error++
	}
	if x.Baseline == policy.New {
		r.Summary.New++
	}
	if x.Suppression != nil {
		r.Summary.Suppressed++
	}
}

// Denied counts the failures whose action is at least the given one, without
// suppressed and unchanged ones.
func (r *Report) Denied(least policy.Action) int {
	n := 0
	for x := range r.Others() {
		if x.Outcome == policy.Fail && x.Action.AtLeast(least) && open(x) {
			n++
		}
	}
	return n
}

// Incomplete counts the results that say that something could not be rendered,
// compiled or decided.
func (r *Report) Incomplete() int {
	n := 0
	for x := range r.Others() {
		if x.Undecided() && open(x) {
			n++
		}
	}
	return n
}

// Completeness says how many of the units were rendered.
func (s *Summary) Completeness() string {
	text := policy.Plural(s.Discovered, "unit")
	if s.Roots > 0 {
		text += " from " + policy.Plural(s.Roots, "root")
	}
	if s.Clusters > 1 {
		text += " on " + policy.Plural(s.Clusters, "cluster")
	}
	var states []string
	for _, x := range []struct {
		n    int
		word string
	}{
		{s.Rendered, "rendered"},
		{s.Failed, "failed"},
		{s.NotRendered, "not rendered"},
		{s.Foreign, "of other repositories"},
		{s.Suspended, "suspended"},
		{s.Unreached, "that nothing found here deploys"},
	} {
		if x.n > 0 {
			states = append(states, strconv.Itoa(x.n)+" "+x.word)
		}
	}
	if len(states) > 0 {
		text += ": " + strings.Join(states, ", ")
	}
	if s.Excluded > 0 {
		text += "; " + policy.Plural(s.Excluded, "file") + " excluded"
	}
	if s.Doubt != "" {
		text += ". " + prose(s.Doubt)
	}
	return text
}

// followed reports whether GitOps objects or the configuration declare what is
// deployed.
func (r *Report) followed() bool {
	return slices.ContainsFunc(r.Units, func(u Unit) bool { return u.ID != "" && u.ID != u.Path || u.Status == string(render.Unreached) })
}

// A Document is a Kubernetes object in a file of the tree, with its state.
type Document struct {
	File   string               `json:"file"`
	Line   int                  `json:"line"`
	Kind   string               `json:"kind"`
	State  render.DocumentState `json:"state"`
	Units  []string             `json:"units,omitempty"`  // that give it its state
	Reason string               `json:"reason,omitempty"` // why it is not deployed

	Usual bool `json:"-"` // as render.TreeDocument has it
}

// A Shard says which part of a run a report is. A part has the results of some of the
// units. Everything else in it is the same in all parts.
type Shard struct {
	Number int    `json:"number"` // from 1
	Of     int    `json:"of"`
	Run    string `json:"run"` // the same in all parts of a run, and in no part of another
}

// A Rehearsal describes a run that compares one tree under two sets of rules: two
// versions of the API server, or policies before and after they are enforced. Results
// that only the second set gives are new; all others are unchanged.
type Rehearsal struct {
	From string `json:"from,omitempty"` // version of Kubernetes
	To   string `json:"to,omitempty"`

	Enforced []string      `json:"enforced,omitempty"` // patterns of the policies, as given
	Rows     []EnforcedRow `json:"rows,omitempty"`     // the most failures first
}

// An EnforcedRow counts the results that would be denied in one namespace, or
// for one value of a label.
type EnforcedRow struct {
	Name     string   `json:"name"`
	Objects  int      `json:"objects"`
	Failures int      `json:"failures"`
	Policies []string `json:"policies"`
}

// happenings are the words of Change.happens, in the order in which readers get them.
var happenings = []string{"created", "created or updated", "updated", "recreated", "perhaps deleted", "deleted", "moved"}

// moves reports whether the object has another unit alone.
func (c *Change) moves() bool {
	if c.From == nil {
		return false
	}
	from := *c.From
	from.Unit = c.Object.Unit
	return from == c.Object
}

// movesOnly reports whether the object moves, and nothing else of it changes but what follows from that.
func (c *Change) movesOnly() bool {
	return c.moves() && !c.Recreated && (c.Unchanged || c.Diff != "" && Routine(strings.Split(c.Diff, "\n")))
}

// happens names what happens to the object.
func (c *Change) happens() string {
	switch {
	case c.Recreated:
		return "recreated"
	case c.Unchanged:
		return "moved"
	case c.Uncertain && c.Operation == policy.Delete:
		return "perhaps deleted"
	case c.Uncertain:
		return "created or updated"
	case c.Operation == policy.Create:
		return "created"
	case c.Operation == policy.Delete:
		return "deleted"
	default:
		return "updated"
	}
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
