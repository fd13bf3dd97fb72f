// Package fixes makes the edits of files that remove findings, and proves them.
//
// Run takes the options of an evaluation and paths. It returns the findings, each with its edits or
// the reason why it has none, and the texts of the edited files. Nothing is written.
//
//   - propose.go: the findings of a run, with the changes of objects that policy/fix finds
//   - place.go: a change of an object becomes edits of the file that determines the field
//   - prove.go: files are edited, and everything is rendered and evaluated again; an edit whose
//     finding stays, or that makes anything else fail, is dropped
package fixes

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report/objects"
)

// Options select the findings to fix.
type Options struct {
	Rules  []string // POLICY or POLICY/RULE, * matches any text; none means all
	Unsafe bool     // also use fixes that may change what runs
}

// A Reason says why a finding is not fixed. The zero Reason is that of a fixed one.
type Reason string

// The reasons.
const (
	NoValue   Reason = "no rule or standard determines the value"
	NeedsFlag Reason = "only with --unsafe: the fix may change what runs"
	NoPlace   Reason = "the field is written by a template, or where no edit is made"
	Stays     Reason = "dropped: the finding stays after the edit"
	Breaks    Reason = "dropped: something else fails, or is undecided, after the edit"
	TooLong   Reason = "dropped: not proved after several rounds"
	Unedited  Reason = "dropped: the way the file is written does not allow the edit"
)

// A Finding is a failure of the run.
type Finding struct {
	Result  policy.Result
	Fixes   []policy.Fix
	Reason  Reason
	Because *policy.Result // with Breaks, what else fails; may be nil

	object   *render.Object
	tried    int      // the state of the object, counted from 1, with which no fix was found
	unplaced bool     // a fix with a value has no place
	edits    [][]edit // for each fix, the edits that may make it, the best first
	waits    bool     // not tried in this round
}

// A Change holds what Run found.
type Change struct {
	Findings   []Finding
	Texts      map[string]string // of the edited files, by their names in the tree
	Incomplete int               // results that the first run could not decide
	Tree       *load.Tree
	before     map[string][]byte
}

// Run evaluates, and finds and proves the fixes.
func Run(ctx context.Context, o *evaluate.Options, s Options, args []string) (*Change, error) {
	in, e, err := evaluated(ctx, o, nil, nil, args)
	if err != nil {
		return nil, err
	}
	if err := e.NameRules("--rule", s.Rules); err != nil {
		return nil, err
	}
	c := &Change{Tree: in.Tree, before: make(map[string][]byte)}
	for i := range e.Results {
		if r := &e.Results[i]; r.Undecided() && r.Baseline.Counts() && !r.Unreached {
			c.Incomplete++
		}
	}
	c.Findings = s.findings(in, e)
	p := &placer{in: in, files: make(map[string]*places), texts: c.before}
	if err := s.propose(ctx, o, in, e, c.Findings, p); err != nil {
		return nil, err
	}
	return c, c.prove(ctx, o, in.Graph, args, e.Results)
}

// evaluated runs an evaluation with other texts of some files. It uses units of a graph that has
// rendered the tree without them, which may be nil, where no text reaches.
func evaluated(ctx context.Context, o *evaluate.Options, texts map[string]string, other *cache.Graph, args []string) (*load.Input, *evaluate.Evaluation, error) {
	fresh := *o
	fresh.Texts, fresh.Rendered, fresh.Again = texts, other, true
	in, err := load.Load(ctx, &fresh.Sources, args, bytes.NewReader(nil))
	if err != nil {
		return nil, nil, err
	}
	e, err := evaluate.Run(ctx, &fresh, in, args, bytes.NewReader(nil))
	return in, e, err
}

// Diff writes the edits as a unified diff, file by file.
func (c *Change) Diff(w io.Writer) error {
	for _, file := range slices.Sorted(maps.Keys(c.Texts)) {
		name := c.Tree.Display(file)
		if _, err := io.WriteString(w, objects.UnifiedDiff("a/"+name, c.before[file], "b/"+name, []byte(c.Texts[file]))); err != nil {
			return err
		}
	}
	return nil
}

// Before returns the text of an edited file as the run read it.
func (c *Change) Before(file string) []byte { return c.before[file] }

// Count returns the number of findings for each reason.
func (c *Change) Count() map[Reason]int {
	n := make(map[Reason]int)
	for i := range c.Findings {
		n[c.Findings[i].Reason]++
	}
	return n
}

// selects reports whether a result is of one of the rules to fix.
func (s *Options) selects(r *policy.Result) bool {
	return len(s.Rules) == 0 || evaluate.MatchesRule(s.Rules, r.Policy, r.Rule)
}

// reserved reports whether a file is never edited.
func reserved(file string) bool {
	return slices.Contains(strings.Split(file, "/"), ".git") || strings.HasPrefix(file, ".preadmit/") || strings.HasPrefix(file, disk.Outside+"/")
}
