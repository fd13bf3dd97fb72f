package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A digest divides a report into the parts that markdown and HTML show. Every finding is in one
// part.
type digest struct {
	*Report
	results      *list
	tally        tally
	notWhole     []Unit               // units that were not rendered, or only partly, without a finding that says why
	unreachedCut int                  // units that nothing deploys and that were not rendered whole
	beforeCut    int                  // units that were not rendered whole before the change either, for the same reason
	found        [numClasses][]*group // findings that count, worst severity first
	missingKinds []*missingKind       // missing objects and settings of undecided findings
	repeated     map[string]int       // assumptions that are shown once, with the number of findings
	changes      []unitChanges        // changes on the cluster
	newly        []proposal           // what changed policies find, or enforce more strictly
	noLonger     []proposal           // and what they no longer find, or enforce less strictly
	fixed        selection            // was there before and is no more
	suppressed   selection            // accepted for a time
	unreached    selection            // results in units that nothing deploys
	unchanged    selection            // was there before
}

func newDigest(r *Report) *digest {
	l := newList(r)
	none := selection{of: l}
	d := &digest{Report: r, results: l, changes: changesByUnit(r.Changes), fixed: none, suppressed: none, unreached: none, unchanged: none}
	d.tally = newTally(d.results, r.Passes)
	all := groups(d.results, open)
	found, missing := splitMissing(all)
	d.missingKinds, d.repeated = missing, repeatedAssumptions(found, missing)
	reported, before := unitsReported(d.results, open), unitsReported(d.results, unchanged)
	for _, u := range r.Units {
		switch {
		case !u.missing() && u.Reason == "" || reported[u.Identity()]:
		case before[u.Identity()]:
			d.beforeCut++
		case u.unreached():
			d.unreachedCut++
		default:
			d.notWhole = append(d.notWhole, u)
		}
	}
	for _, g := range found {
		d.found[g.class] = append(d.found[g.class], g)
	}
	for _, found := range d.found {
		slices.SortStableFunc(found, func(a, b *group) int {
			return cmp.Compare(severityRank(a.severity), severityRank(b.severity))
		})
	}
	for n, x := range l.outlines() {
		d.accepted(n, x)
	}
	d.proposals()
	return d
}

// accepted adds a result that does not count: suppressed or unchanged.
func (d *digest) accepted(number uint32, x *policy.Result) {
	_, finding := classOf(x)
	switch {
	case !finding || open(x):
	case x.Baseline == policy.Absent:
		d.fixed.add(number)
	case x.Suppression != nil:
		d.suppressed.add(number)
	case x.Unreached:
		d.unreached.add(number)
	default:
		d.unchanged.add(number)
	}
}

func (d *digest) proposals() {
	for _, p := range proposals(d.Report) {
		if p.looser {
			d.noLonger = append(d.noLonger, p)
		} else {
			d.newly = append(d.newly, p)
		}
	}
}

// withUnits returns the report with a result for each unit that was not rendered
// without one, for formats without units.
func withUnits(r *Report) *Report {
	with := *r
	with.Results = slices.Concat(r.Results, Unrendered(r))
	return &with
}

// evaluated returns the sentence with the numbers of objects, units, rules and
// policies.
func (d *digest) evaluated() string {
	s := d.Summary
	deployed := ""
	if d.followed() {
		deployed = "Deployed: " + s.Completeness() + ". "
	}
	return deployed + "Checked: " + policy.Plural(s.Objects, "object") + " of " + policy.Plural(s.Rendered+s.Unreached, "unit") + ofAll(s) +
		" by " + d.evaluators() + "."
}

// cutShort returns why the run ended before everything was evaluated, or "".
func (d *digest) cutShort() string {
	for n, x := range d.results.outlines() {
		if x.Engine == policy.EngineRender && x.Rule == policy.RuleIncomplete {
			return prose(d.results.at(n).Message)
		}
	}
	return ""
}

// weights returns the number of results in each group.
func weights(found []*group) func(i int) int {
	return func(i int) int { return found[i].results.len() }
}

// unitChanges holds the changes of one unit.
type unitChanges struct {
	unit, cluster string
	changes       []Change // sorted by operation, then by object
}

// changesByUnit sorts changes by cluster and unit.
func changesByUnit(changes []Change) []unitChanges {
	sorted := slices.Clone(changes)
	slices.SortStableFunc(sorted, func(a, b Change) int {
		return cmp.Or(
			strings.Compare(a.Cluster, b.Cluster),
			strings.Compare(a.Object.Unit, b.Object.Unit),
			cmp.Compare(slices.Index(happenings, a.happens()), slices.Index(happenings, b.happens())),
			compareObjects(a.Object, b.Object),
		)
	})
	var units []unitChanges
	for _, c := range sorted {
		if n := len(units); n == 0 || units[n-1].unit != c.Object.Unit || units[n-1].cluster != c.Cluster {
			units = append(units, unitChanges{unit: c.Object.Unit, cluster: c.Cluster})
		}
		u := &units[len(units)-1]
		u.changes = append(u.changes, c)
	}
	return units
}

func compareObjects(a, b render.Key) int {
	return cmp.Or(
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.APIVersion, b.APIVersion),
	)
}

// from returns the object's former unit or version, if it had another one.
func (c *Change) from() string {
	switch {
	case c.From == nil:
		return ""
	case c.From.Unit != c.Object.Unit:
		return full(*c.From) + inUnit(c.From.Unit)
	default:
		return full(*c.From)
	}
}
