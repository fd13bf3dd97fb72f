package report

import (
	"cmp"
	"fmt"
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
	notWhole     []Unit                     // units that were not rendered, or only partly, without a finding that says why
	unreachedCut int                        // units that nothing deploys and that were not rendered whole
	beforeCut    int                        // units that were not rendered whole before the change either, for the same reason
	found        [numClasses][]*group       // findings that count, worst severity first
	missingKinds []*missingKind             // missing objects and settings of undecided findings
	repeated     map[string]int             // assumptions that are shown once, with the number of findings
	changes      []unitChanges              // changes on the cluster
	byUnit       map[string][numClasses]int // findings that count, by unit
	newly        []proposal                 // what changed policies find, or enforce more strictly
	noLonger     []proposal                 // and what they no longer find, or enforce less strictly
	fixed        selection                  // was there before and is no more
	suppressed   selection                  // accepted for a time
	unreached    selection                  // results in units that nothing deploys
	unchanged    selection                  // was there before
}

func newDigest(r *Report) *digest {
	l := newList(r)
	none := selection{of: l}
	d := &digest{Report: r, results: l, changes: changesByUnit(r.Changes), fixed: none, suppressed: none, unreached: none, unchanged: none, byUnit: make(map[string][numClasses]int)}
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
	for n, x := range l.all() {
		d.add(n, x)
	}
	d.proposals()
	return d
}

// add counts an open finding in its unit, and adds one that is suppressed or unchanged.
func (d *digest) add(number uint32, x *policy.Result) {
	c, finding := classOf(x)
	switch {
	case !finding:
	case open(x):
		if unit := x.Object.Unit; unit != "" {
			counts := d.byUnit[unit]
			counts[c]++
			d.byUnit[unit] = counts
		}
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
	for _, x := range d.results.all() {
		if x.Engine == policy.EngineRender && x.Rule == policy.RuleIncomplete {
			return prose(x.Message)
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
	case c.moves():
		return strings.TrimPrefix(inUnit(c.From.Unit), " ")
	case c.From.Unit != c.Object.Unit:
		return full(*c.From) + inUnit(c.From.Unit)
	default:
		return full(*c.From)
	}
}

// Formats with a size limit are written in sections. Each has a share of the
// space, in thousandths, that is reserved for it. Space that a section does not
// need goes to the first sections that need more.
const (
	shareDenied     = 260
	shareBroken     = 100
	shareUndecided  = 90
	shareMissing    = 40
	shareWarned     = 60
	shareAudited    = 40
	shareNotWhole   = 60
	shareByUnit     = 20
	shareReach      = 40
	shareChanges    = 40
	shareDiffs      = 30
	shareNewly      = 30
	shareNoLonger   = 20
	shareFixed      = 20
	shareSuppressed = 20
	shareUnreached  = 10
	shareUnchanged  = 10
	shareAssumed    = 10
	shareNotes      = 20
	shareUnits      = 40
	shareRules      = 40
)

// A section is a part of a report that has items.
type section struct {
	id, title string
	head      string // of a table; see the page's template
	share     int
	n         int
	weight    func(i int) int    // how many results an item is; nil is one
	item      func(i int) string // the same text whenever it is called
	brief     func(i int) string // a shorter text for want of room; nil if there is none

	texts []string // of all items, if they are few enough to keep
	size  int      // bytes of all items, counted to a little above the room of all
	room  int      // bytes that the items may take
	left  int      // how many results are not shown
}

// total returns the number of results in the section.
func (s *section) total() int { return s.sum(0) }

// sum returns the number of results of the items from i on.
func (s *section) sum(from int) int {
	if s.weight == nil {
		return s.n - from
	}
	n := 0
	for i := from; i < s.n; i++ {
		n += s.weight(i)
	}
	return n
}

// allot divides the space among the sections.
func allot(limit int, all []*section) {
	free, keep := limit, limit
	for _, s := range all {
		var texts []string
		for i := 0; i < s.n && s.size <= limit; i++ {
			text := s.item(i)
			if s.size += len(text); s.size <= keep {
				texts = append(texts, text)
			}
		}
		if len(texts) == s.n {
			s.texts = texts
			keep -= s.size
		}
		s.room = min(s.size, s.share*limit/1000)
		free -= s.room
	}
	for _, s := range all {
		more := max(0, min(free, s.size-s.room))
		s.room += more
		free -= more
	}
}

// fit calls write with the items that fit: all, or the first ones in full and
// the others briefly, or as many as fit. The text says how many results are
// left out.
func (s *section) fit(write func(text string)) {
	if s.size <= s.room {
		for i := range s.n {
			if s.texts != nil {
				write(s.texts[i])
			} else {
				write(s.item(i))
			}
		}
		return
	}
	whole, briefly := s.n, s.n
	if s.brief != nil {
		whole, briefly = s.split()
	}
	used := 0
	for i := range briefly {
		text := ""
		if i < whole {
			text = s.item(i)
		} else {
			text = s.brief(i)
		}
		if used += len(text); used > s.room {
			s.left = s.sum(i)
			return
		}
		write(text)
	}
	s.left = s.sum(briefly)
}

// split returns how many items are written in full, and the end of those that
// are written briefly. At most half of the space is for brief ones.
func (s *section) split() (whole, briefly int) {
	room := s.room / 2
	for briefly = 0; briefly < s.n; briefly++ {
		if room -= len(s.brief(briefly)); room < 0 {
			break
		}
	}
	room = s.room - (s.room/2 - max(room, 0))
	for whole = 0; whole < briefly; whole++ {
		if room -= len(s.item(whole)) - len(s.brief(whole)); room < 0 {
			break
		}
	}
	return whole, briefly
}

// leftOut counts the findings that the sections leave out: "210 of 310 warned".
func leftOut(all []*section) string {
	var parts []string
	for _, s := range all {
		if s.left > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d under %q", s.left, s.total(), s.title))
		}
	}
	return strings.Join(parts, ", ")
}
