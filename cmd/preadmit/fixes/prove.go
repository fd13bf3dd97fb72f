package fixes

import (
	"context"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/yamledit"
)

// Limits of how often everything is rendered and evaluated again. Other places are tried in the first
// rounds only.
const (
	maxRounds = 12
	maxMoves  = 4
)

// prove drops findings, and tries other places for their edits, until the edits of the rest remove
// these findings and nothing else fails. If that does not end, no edit is left.
func (c *Change) prove(ctx context.Context, o *evaluate.Options, args []string, before []policy.Result) error {
	known := make(map[outcome]bool)
	for i := range before {
		if r := &before[i]; wrong(r) {
			known[outcomeOf(r)] = true
		}
	}
	for round := range maxRounds {
		for c.Texts = c.apply(); c.Texts == nil; {
			c.Texts = c.apply() // without the findings whose edits can't be made
		}
		if len(c.Texts) == 0 {
			return nil
		}
		_, e, err := evaluated(ctx, o, c.Texts, args)
		if err != nil {
			return err
		}
		if !c.dropped(known, e.Results, round < maxMoves) {
			return nil
		}
	}
	for i := range c.Findings {
		c.Findings[i].giveUp(Breaks)
	}
	c.Texts = nil
	return nil
}

// An outcome identifies what is wrong with an object, or in a file, whatever the line.
type outcome struct {
	engine, policy, rule, field string
	object                      render.Key
	undecided                   bool
}

func outcomeOf(r *policy.Result) outcome {
	x := outcome{r.Engine, r.Policy, r.Rule, "", r.Object, r.Undecided()}
	if (r.Engine == policy.EngineSchema || r.Engine == policy.EngineCRD || r.Object.Kind == "") && len(r.Fields) > 0 {
		x.field = r.Fields[0]
	}
	if r.Object.Kind == "" {
		x.field += r.Message
	}
	return x
}

func wrong(r *policy.Result) bool {
	return (r.Outcome == policy.Fail || r.Undecided()) && r.Baseline != policy.Absent
}

// apply returns the texts of the files with the current edits of all findings. If an edit can't be
// made, its finding goes on to the next place, or is dropped, and the result is nil.
func (c *Change) apply() map[string]string {
	texts := make(map[string]string)
	done := make(map[string][]render.Edit)
	for i := range c.Findings {
		f := &c.Findings[i]
		if f.Reason != "" {
			continue
		}
		for k := range f.edits {
			e := f.edits[k][0]
			if slices.ContainsFunc(done[e.file], func(x render.Edit) bool { return sameEdit(x, e.Edit) }) {
				continue
			}
			text, changed := texts[e.file]
			if !changed {
				text = string(c.before[e.file])
			}
			after, err := yamledit.Apply(e.file, []byte(text), e.document, e.Edit)
			if err != nil {
				f.next(k, Unedited)
				return nil
			}
			texts[e.file] = string(after)
			done[e.file] = append(done[e.file], e.Edit)
		}
	}
	return texts
}

func sameEdit(a, b render.Edit) bool {
	return a.Pointer == b.Pointer && a.Delete == b.Delete && render.Equal(a.Value, b.Value)
}

// next goes on to the next place for a fix of a finding, or drops the finding.
func (f *Finding) next(fix int, why Reason) {
	if f.edits[fix] = f.edits[fix][1:]; len(f.edits[fix]) == 0 {
		f.giveUp(why)
	}
}

func (f *Finding) giveUp(why Reason) {
	if f.Reason == "" {
		f.Reason = why
	}
}

// dropped compares the results with edits to those before. It moves on or drops the findings that stay,
// and drops those whose edits may be the reason for something else that fails. It reports whether
// there are any.
func (c *Change) dropped(known map[outcome]bool, results []policy.Result, mayMove bool) bool {
	now := make(map[outcome]bool)
	var added []*policy.Result
	for i := range results {
		if r := &results[i]; wrong(r) {
			x := outcomeOf(r)
			now[x] = true
			if !known[x] {
				added = append(added, r)
			}
		}
	}
	any := false
	var active []*Finding
	for i := range c.Findings {
		if c.Findings[i].Reason == "" {
			active = append(active, &c.Findings[i])
		}
	}
	for _, f := range active {
		if now[outcomeOf(&f.Result)] {
			if !mayMove || !f.moveOn() {
				f.giveUp(Stays)
			}
			any = true
		}
	}
	for _, r := range added {
		if !blame(active, r) {
			drop(active, r, func(*Finding) bool { return true })
		}
		any = true
	}
	return any
}

// moveOn goes on to the next places of all fixes of a finding that have one, and reports whether
// there is any.
func (f *Finding) moveOn() bool {
	moved := false
	for k := range f.edits {
		if len(f.edits[k]) > 1 {
			f.edits[k], moved = f.edits[k][1:], true
		}
	}
	return moved
}

// blame drops those of the findings whose edits were made that may be the reason for an added failure:
// those about its object, else with edits in its files, else of its unit. It reports whether there
// are any.
func blame(active []*Finding, r *policy.Result) bool {
	return drop(active, r, func(f *Finding) bool { return f.Result.Object == r.Object }) || drop(active, r, func(f *Finding) bool {
		return slices.ContainsFunc(f.edits, func(edits []edit) bool {
			return len(edits) > 0 && slices.ContainsFunc(r.Origins, func(o render.Origin) bool { return o.File == edits[0].file })
		})
	}) || drop(active, r, func(f *Finding) bool { return f.Result.Object.Unit == r.Object.Unit })
}

func drop(active []*Finding, because *policy.Result, of func(*Finding) bool) bool {
	any := false
	for _, f := range active {
		if !of(f) {
			continue
		}
		if any = true; f.Reason == "" {
			f.Reason, f.Because = Breaks, because
		}
	}
	return any
}
