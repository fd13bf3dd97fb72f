package fixes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/yamledit"
	"github.com/preadmit/preadmit/report"
)

// A Place identifies the findings of a rule at a line: one alert, or one diagnostic of an editor.
type Place struct {
	Policy, Rule, File string
	Line               int
}

// PlaceOf returns the place of a result.
func PlaceOf(x *policy.Result) Place {
	at := report.Place(x)
	return Place{x.Policy, x.Rule, at.File, at.Line}
}

// Each returns a Change for each place of the selected findings. It is proved without those that change
// the same objects or documents, and has no texts if a finding of the place has no fix.
func (f *Finder) Each(ctx context.Context, s Options) ([]*Change, error) {
	c, err := f.propose(ctx, &s, true)
	if err != nil {
		return nil, err
	}
	var all []*Change
	at := make(map[Place]*Change)
	for _, x := range c.Findings {
		place := PlaceOf(&x.Result)
		if at[place] == nil {
			at[place] = &Change{Tree: c.Tree, before: c.before}
			all = append(all, at[place])
		}
		at[place].Findings = append(at[place].Findings, x)
	}
	left := slices.DeleteFunc(slices.Clone(all), func(c *Change) bool { return !c.fixed() })
	for len(left) > 0 {
		trial := &Change{Tree: c.Tree, before: c.before}
		changed, read := sets.New[any](), sets.New[any]()
		var tried, later []*Change
		for _, x := range left {
			edits, reads := x.touched(c.placer)
			if changed.HasAny(reads...) || read.HasAny(edits...) {
				later = append(later, x)
				continue
			}
			tried, trial.Findings = append(tried, x), append(trial.Findings, x.Findings...)
			changed.Insert(edits...)
			read.Insert(reads...)
		}
		if err := f.prove(ctx, trial); err != nil {
			return all, err
		}
		for _, x := range tried {
			if x.fixed() {
				x.Texts = x.apply()
			}
		}
		left = later
	}
	return all, nil
}

// Mark sets the fixes of the results of the run, as Each finds them.
func (f *Finder) Mark(ctx context.Context, s Options) error {
	all, err := f.Each(ctx, s)
	for _, c := range all {
		for _, x := range c.Findings {
			x.result.Fix = c.repair()
		}
	}
	return err
}

// fixed reports whether no finding is given up.
func (c *Change) fixed() bool {
	return !slices.ContainsFunc(c.Findings, func(f *Finding) bool { return f.Reason != "" })
}

type document struct {
	file  string
	index int
}

// touched returns the keys (documents, charts, objects) that the change edits, and those that its objects are
// rendered from, which include the edited ones. Two changes can be proved in one round if neither edits a key
// that the other reads.
func (c *Change) touched(p *placer) (edits, reads []any) {
	for _, f := range c.Findings {
		edits = append(edits, f.object)
		if f.object.Unit.Kind == "helm" { // a template may test a value that no field comes from
			edits = append(edits, f.object.Unit)
		}
		for _, all := range f.edits {
			for _, e := range all {
				edits = append(edits, document{e.file, e.document})
			}
		}
		for pointer := range render.Fields(f.object.Object, "") {
			for _, at := range f.object.At(pointer) {
				if place, ok := p.places(at.File).fields[yamledit.WithoutFile(at.Span)]; ok {
					reads = append(reads, document{at.File, place.Document})
				}
			}
		}
	}
	return edits, append(reads, edits...)
}

// Why returns the reason why the findings of a place have no fix.
func (c *Change) Why() string {
	for _, f := range c.Findings {
		switch {
		case f.Because != nil:
			return report.Plain(fmt.Sprintf("%s: %s: %s", f.Reason, report.RuleName(f.Because), f.Because.Message))
		case f.Reason != "":
			return string(f.Reason)
		}
	}
	return string(NoValue)
}

// Safe reports whether running programs do not notice the change.
func (c *Change) Safe() bool {
	return !slices.ContainsFunc(c.Findings, func(f *Finding) bool {
		return f.Reason == "" && slices.ContainsFunc(f.Fixes, func(x policy.Fix) bool { return x.Unsafe })
	})
}

// Title returns the title of the change in reports and menus, such as "Set allowPrivilegeEscalation: false (safe)".
func (c *Change) Title() string {
	var all []string
	for _, f := range c.Findings {
		for _, x := range f.Fixes {
			if text := x.String(); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(all[:most], policy.Plural(more, "more change"))
	}
	risk := " (may change what runs)"
	if c.Safe() {
		risk = " (safe)"
	}
	text := strings.Join(all, ", ") + risk
	return report.Plain(strings.ToUpper(text[:1]) + text[1:])
}
