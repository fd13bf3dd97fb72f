// Package report writes what was found.
//
// In goes a [Report], plain data made of units and results; out comes one of
// the [Formats]. The JSON format is the contract that outside tools rely on,
// and [Read] takes it back, so every format can also be made from yesterday's
// file. Formats decide nothing: what counts as denied is said by [Report.Denied]
// and [Report.Incomplete], which the exit code uses too.
package report

import (
	"io/fs"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Schema names the version of the JSON report.
const Schema = "preadmit.report/v1"

// A Report is one run: what was rendered and what the rules said of it.
type Report struct {
	Schema  string          `json:"schema"`
	Tool    Tool            `json:"tool"`
	Units   []Unit          `json:"units"`
	Summary Summary         `json:"summary"`
	Results []policy.Result `json:"results"`
	Rules   []policy.Rule   `json:"rules"` // every rule that was applied, sorted
	Notes   []string        `json:"notes"` // what was assumed for the whole run, such as the default pack

	// Base is what the tree was compared with, nil where there was nothing;
	// Changes is what would change on the cluster, and Proposed what changed
	// policies would newly say of it (Baseline is New) and no longer say
	// (Absent). The results are those of the base's policies.
	Base     *Base           `json:"base,omitempty"`
	Changes  []Change        `json:"changes,omitempty"`
	Proposed []policy.Result `json:"proposed,omitempty"`

	// Tree is where source lines are read from, for code frames and line
	// hashes; nil where the tree is not at hand.
	Tree fs.FS `json:"-"`
}

// A Base is the revision that the tree was compared with.
type Base struct {
	Revision string `json:"revision"` // as it was asked for
	Commit   string `json:"commit"`   // 40 hexadecimal digits
}

// A Change is what would happen to one object.
type Change struct {
	Operation policy.Operation `json:"operation"`
	Object    render.Key       `json:"object"`
	From      *render.Key      `json:"from,omitempty"`      // what it was, where its unit or version is another
	Unchanged bool             `json:"unchanged,omitempty"` // it moves only
}

// Tool is the program that made the report.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Unit is a rendered source without its objects.
type Unit struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	Owner   string `json:"owner"`
	Status  string `json:"status"` // "rendered", "failed", "not-rendered"
	Objects int    `json:"objects"`
	Reason  string `json:"reason"` // why it was not rendered whole
}

// Summary counts. Units to Rules count what was looked at, Pass to Error
// results by outcome.
type Summary struct {
	Units      int `json:"units"`
	Rendered   int `json:"rendered"`
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
}

// New makes a report of units, rules and results, and counts. It sorts nothing.
func New(tool Tool, units []*render.Unit, rules []policy.Rule, results []policy.Result) *Report {
	r := &Report{
		Schema: Schema, Tool: tool,
		Units: []Unit{}, Notes: []string{}, Rules: append([]policy.Rule{}, rules...), Results: append([]policy.Result{}, results...),
	}
	for _, u := range units {
		r.Units = append(r.Units, newUnit(u))
		r.Summary.Objects += len(u.Objects)
		if u.Status() == "rendered" {
			r.Summary.Rendered++
		}
	}
	r.Summary.Units = len(units)
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

func newUnit(u *render.Unit) Unit {
	n := Unit{Path: u.Path, Kind: u.Kind, Name: u.Name, Cluster: u.Cluster, Status: u.Status(), Objects: len(u.Objects)}
	if u.Owner != nil {
		k := u.Owner.Key()
		n.Owner = k.Kind + "/" + k.Namespace + "/" + k.Name
	}
	for _, e := range render.Errors(u.Err) {
		if !e.Warning {
			n.Reason = e.Error()
			break
		}
	}
	return n
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

// Denied counts the failures whose action is at least the given one, those
// that are suppressed or were there before left out.
func (r *Report) Denied(least policy.Action) int {
	n := 0
	for i := range r.Results {
		x := &r.Results[i]
		if x.Outcome == policy.Fail && x.Action.AtLeast(least) && x.Suppression == nil && (x.Baseline == "" || x.Baseline == policy.New) {
			n++
		}
	}
	return n
}

// Incomplete counts the results that say that something could not be rendered,
// compiled or decided.
func (r *Report) Incomplete() int {
	n := 0
	for i := range r.Results {
		if x := &r.Results[i]; x.Undecided() && x.Suppression == nil && (x.Baseline == "" || x.Baseline == policy.New) {
			n++
		}
	}
	return n
}
