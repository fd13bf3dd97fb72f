package fixes

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// maxRounds limits how often the edited files are rendered and evaluated.
const maxRounds = 40

// A part is findings that may depend on each other, because their edits are in the same files or
// about the same objects. Parts are proved at the same time.
type part struct {
	tested []*Finding   // passed together
	trying []*Finding   // tried in this round, together with the tested ones
	later  [][]*Finding // tried in later rounds
}

// prove drops findings, and tries other places for their edits, until the edits of the rest remove
// these findings and nothing else fails. Findings that fail together are halved until the one that
// fails is alone.
func (f *Finder) prove(ctx context.Context, c *Change) error {
	known := make(map[outcome]bool)
	for i := range f.Run.Results {
		if r := &f.Run.Results[i]; wrong(r) {
			known[outcomeOf(r)] = true
		}
	}
	parts := c.parts()
	for round := range maxRounds {
		if round == maxRounds-1 { // what passed so far is proved once more without the rest
			for _, p := range parts {
				for _, f := range slices.Concat(p.trying, slices.Concat(p.later...)) {
					f.giveUp(TooLong)
				}
				p.trying, p.later = nil, nil
			}
		}
		for c.Texts = c.apply(); len(c.Texts) == 0; c.Texts = c.apply() {
			if !start(parts) {
				return nil
			}
		}
		_, e, err := evaluated(ctx, f.Options, c.Texts, f.Input.Graph, f.Args)
		if err != nil {
			return err
		}
		if !c.judge(parts, known, e.Results) {
			return nil
		}
	}
	for _, f := range c.Findings {
		f.giveUp(TooLong)
	}
	c.Texts = nil
	return nil
}

// parts divides the findings with edits into parts.
func (c *Change) parts() []*part {
	of := make(map[any]*part)
	var all []*part
	for _, f := range c.Findings {
		if f.Reason != "" {
			continue
		}
		keys := []any{f.object}
		for _, edits := range f.edits {
			for _, e := range edits {
				keys = append(keys, e.file)
			}
		}
		p := &part{}
		for _, k := range keys {
			if other := of[k]; other != nil && other != p {
				p.trying = append(p.trying, other.trying...)
				other.trying = nil
				for k, x := range of {
					if x == other {
						of[k] = p
					}
				}
			}
			of[k] = p
		}
		p.trying = append(p.trying, f)
		all = append(all, p)
	}
	return slices.DeleteFunc(all, func(p *part) bool { return len(p.trying) == 0 })
}

// start begins with what parts try later, where they try nothing now, and reports whether any does.
func start(parts []*part) bool {
	any := false
	for _, p := range parts {
		for p.trying = active(p.trying); len(p.trying) == 0 && len(p.later) > 0; p.trying = active(p.trying) {
			p.trying, p.later = p.later[0], p.later[1:]
			for _, f := range p.trying {
				f.waits = false
			}
			any = true
		}
	}
	return any
}

// active returns those of the findings that are not given up.
func active(findings []*Finding) []*Finding {
	return slices.DeleteFunc(findings, func(f *Finding) bool { return f.Reason != "" })
}

// An outcome identifies what is wrong with an object, or in a file, whatever the line.
type outcome struct {
	engine, policy, rule, field string
	object                      render.Key
	undecided                   bool
}

func outcomeOf(r *policy.Result) outcome {
	x := outcome{r.Engine, r.Policy, r.Rule, "", r.Object, r.Undecided()}
	x.object.APIVersion = "" // which an edit may change
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

// apply returns the texts of the files with the current edits of the findings that are tried. If an
// edit can't be made, its finding goes on to the next place, or is dropped.
func (c *Change) apply() map[string]string {
	texts := make(map[string]string)
	var done []edit
	for _, f := range c.Findings {
		for f.Reason == "" && !f.waits {
			changed, made, failed := c.edit(f, texts, done)
			if failed < 0 {
				maps.Copy(texts, changed)
				done = append(done, made...)
				break
			}
			if f.edits[failed] = f.edits[failed][1:]; len(f.edits[failed]) == 0 {
				f.giveUp(Unedited)
			}
		}
	}
	return texts
}

// edit returns the texts of the files with the edits of a finding in addition to those that are done,
// and the edits that are new. failed is the index of the fix whose edit can't be made, else negative.
func (c *Change) edit(f *Finding, texts map[string]string, done []edit) (changed map[string]string, made []edit, failed int) {
	changed = make(map[string]string)
	for k := range f.edits {
		e := f.edits[k][0]
		if slices.ContainsFunc(done, e.equal) || slices.ContainsFunc(made, e.equal) {
			continue
		}
		text, ok := changed[e.file]
		if !ok {
			text, ok = texts[e.file]
		}
		if !ok {
			text = string(c.before[e.file])
		}
		after, err := e.apply([]byte(text))
		if err != nil {
			return nil, nil, k
		}
		changed[e.file] = string(after)
		made = append(made, e)
	}
	return changed, made, -1
}

func (e edit) equal(x edit) bool {
	return e.file == x.file && reflect.DeepEqual(e.patch, x.patch) && e.document == x.document && e.Pointer == x.Pointer && e.Delete == x.Delete && e.Key == x.Key && render.Equal(e.Value, x.Value)
}

func (f *Finding) giveUp(why Reason) {
	if f.Reason == "" {
		f.Reason = why
	}
}

// judge compares the results of a round with those before. It reports whether another round is
// needed.
func (c *Change) judge(parts []*part, known map[outcome]bool, results []policy.Result) bool {
	now := make(map[outcome]bool)
	failed := make(map[*part]*policy.Result)
	for i := range results {
		r := &results[i]
		if !wrong(r) {
			continue
		}
		x := outcomeOf(r)
		if now[x] = true; !known[x] {
			for _, p := range blamed(parts, r) {
				failed[p] = r
			}
		}
	}
	again := false
	for _, p := range parts {
		stays := false
		for _, f := range slices.Concat(p.tested, p.trying) {
			if f.Reason == "" && now[outcomeOf(&f.Result)] {
				if stays = true; !f.moveOn() {
					f.giveUp(Stays)
				}
			}
		}
		p.tested, p.trying = active(p.tested), active(p.trying)
		r := failed[p]
		again = again || stays || r != nil
		switch {
		case stays: // the rest is tried without what stays
		case r == nil:
			p.tested, p.trying = append(p.tested, p.trying...), nil
		case len(p.trying) == 0: // together with another part
			dropAll(p.tested, r)
			p.tested = nil
		case len(p.trying) == 1:
			if !p.trying[0].moveOn() {
				dropAll(p.trying, r)
			}
		default:
			half := len(p.trying) / 2
			p.later = slices.Insert(p.later, 0, slices.Clone(p.trying[half:]))
			for _, f := range p.trying[half:] {
				f.waits = true
			}
			p.trying = p.trying[:half]
		}
	}
	return start(parts) || again
}

func dropAll(findings []*Finding, because *policy.Result) {
	for _, f := range findings {
		f.Because = because
		f.giveUp(Breaks)
	}
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

// blamed returns the parts whose edits may be the reason for an added failure: those about its
// object, else those with edits in its files, else those of its unit, else all.
func blamed(parts []*part, r *policy.Result) []*part {
	for _, is := range []func(*Finding) bool{
		func(f *Finding) bool { return f.Result.Object == r.Object },
		func(f *Finding) bool {
			return slices.ContainsFunc(f.edits, func(edits []edit) bool {
				return len(edits) > 0 && slices.ContainsFunc(r.Origins, func(o render.Origin) bool { return o.File == edits[0].file })
			})
		},
		func(f *Finding) bool { return f.Result.Object.Unit == r.Object.Unit },
		func(*Finding) bool { return true },
	} {
		var found []*part
		for _, p := range parts {
			if slices.ContainsFunc(slices.Concat(p.tested, p.trying), is) {
				found = append(found, p)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}
