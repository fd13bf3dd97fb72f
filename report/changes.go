package report

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const (
	maxTextChanges = 20  // objects whose changes text shows without -v
	maxTextDiff    = 20  // lines of each; where there are more, those around the changed ones are left out
	maxDiffLine    = 200 // bytes
)

// losses returns the changes that delete more than the object.
func losses(r *Report) []*Change {
	var found []*Change
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Takes != "" {
			found = append(found, c)
		}
	}
	return found
}

// loses names what happens to an object with which more is deleted.
func (c *Change) loses() string {
	if c.Dropped {
		return "perhaps deleted"
	}
	return c.happens()
}

// diffLines returns the lines of the diff, safe to show.
func (c *Change) diffLines() []string {
	var lines []string
	for line := range strings.Lines(c.Diff) {
		lines = append(lines, visible(strings.TrimRight(line, "\n"), maxDiffLine))
	}
	return lines
}

// losses writes the deletions that delete more than the object, before
// everything else.
func (p *printer) losses(r *Report) {
	found := losses(r)
	for _, c := range found {
		p.line(p.paint(red, c.loses()), p.paint(bold, ": "+full(c.Object)), " and with it ", prose(c.Takes))
		switch {
		case c.Dropped:
			p.note("why", name(c.From.Unit)+" deletes it, unless "+name(c.Object.Unit)+" applies it first")
		case c.Origin != nil:
			p.note("was at", name(c.Origin.String()))
		}
	}
	if len(found) > 0 {
		p.line()
	}
}

// fixed writes which failures of the base are no more.
func (p *printer) fixed(r *Report, results *list) {
	word, deletes := r.fixedWord(), r.deletes()
	if p.Verbose { // lists all that does not count
		return
	}
	all := groups(results, func(x *policy.Result) bool { return x.Baseline == policy.Absent })
	for i, g := range all {
		if i == maxTextChanges {
			p.line("… and ", strconv.Itoa(len(all)-i), " more "+word+" (-v shows all)")
			break
		}
		x := g.first()
		p.line(p.paint(green, word+withObject(allIn(deletes, g.results))), ": ", subject(x.Object), headlineOf(x), " ["+ruleName(x.Engine, x.Policy, x.Rule)+"]")
		if keys := objects(g.results); len(keys) > 1 {
			p.pad = ""
			p.list("  likewise in "+policy.Plural(len(keys)-1, "more object")+": ", p.names(keys[1:], keys[0].Unit))
		}
	}
	if len(all) > 0 {
		p.line()
	}
}

// deletes returns the objects that the change deletes.
func (r *Report) deletes() map[render.Key]bool {
	deleted := make(map[render.Key]bool)
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Operation == policy.Delete {
			deleted[c.Object] = true
		}
	}
	return deleted
}

// allIn reports whether the objects of all results are in a set.
func allIn(set map[render.Key]bool, s selection) bool {
	for _, x := range s.all() {
		if !set[x.Object] {
			return false
		}
	}
	return true
}

// withObject returns the words to add to a fixed failure if it is fixed only because its object is
// deleted.
func withObject(deleted bool) string {
	if !deleted {
		return ""
	}
	return ", its object is deleted"
}

// clusterChanges writes the changes of objects.
func (p *printer) clusterChanges(r *Report) {
	if p.embedded {
		return
	}
	all := alike(changesByUnit(r.Changes))
	for i, same := range all {
		if i == maxTextChanges && !p.Verbose {
			p.line("… and ", policy.Plural(len(all)-i, "more change"), " (-v shows all)")
			break
		}
		p.change(same[0])
		p.others(same)
	}
	if len(all) > 0 {
		p.line()
	}
}

// alike groups changes that happen alike and change the same lines in objects of one kind, and objects that move
// from one unit to another. Groups are in the order of their first change, those of routine changes last. Every other
// change is a group of its own.
func alike(units []unitChanges) [][]*Change {
	var groups [][]*Change
	at := make(map[string]int)
	for i := range units {
		for j := range units[i].changes {
			c := &units[i].changes[j]
			key := ""
			if lines := c.changedLines(); c.movesOnly() {
				key = c.happens() + " " + c.From.Unit + "\n" + c.Object.Unit
			} else if lines != "" && c.From == nil {
				key = c.happens() + " " + c.Object.APIVersion + " " + c.Object.Kind + "\n" + lines
			}
			if key != "" {
				if k, ok := at[key]; ok {
					groups[k] = append(groups[k], c)
					continue
				}
				at[key] = len(groups)
			}
			groups = append(groups, []*Change{c})
		}
	}
	isRoutine := func(g []*Change) bool { return g[0].Diff != "" && Routine(strings.Split(g[0].Diff, "\n")) }
	last := slices.DeleteFunc(slices.Clone(groups), func(g []*Change) bool { return !isRoutine(g) })
	return append(slices.DeleteFunc(groups, isRoutine), last...)
}

// routine matches a changed line of a diff that follows from other changes: the label with a chart's version,
// or an annotation with a checksum or with the Application that deploys the object.
var routine = regexp.MustCompile(`^[-+] *"?(helm\.sh/chart|checksum/[^: ]+|argocd\.argoproj\.io/tracking-id)"?: `)

// Routine reports whether a diff, of lines, changes labels and annotations alone that follow from other
// changes. Readers get it last.
func Routine(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return diffColour(line) != "" && !routine.MatchString(line) })
}

// changedLines returns the lines that an update removes and adds.
func (c *Change) changedLines() string {
	var b strings.Builder
	for line := range strings.Lines(c.Diff) {
		if c.Operation == policy.Update && diffColour(line) != "" {
			b.WriteString(line)
		}
	}
	return b.String()
}

// others names the objects that change like the first.
func (p *printer) others(same []*Change) {
	if len(same) == 1 {
		return
	}
	keys := make([]render.Key, len(same))
	for i, c := range same {
		keys[i] = c.Object
	}
	p.pad = ""
	what := "  the same lines change in "
	if same[0].movesOnly() {
		what = "  likewise "
	}
	p.list(what+policy.Plural(len(same)-1, "more object")+": ", p.names(keys[1:], keys[0].Unit))
}

func (p *printer) change(c *Change) {
	place := ""
	if c.Origin != nil {
		place = " at " + name(c.Origin.String())
	}
	if from := c.from(); from != "" {
		place += ", was " + from
	}
	if c.Origin == nil || c.Object.Unit != c.Origin.File {
		u := unitChanges{unit: c.Object.Unit, cluster: c.Cluster}
		place = " in " + u.onCluster(strings.TrimSpace) + place
	}
	p.line(p.paint(bold, c.happens()+": "), full(c.Object)+place)
	lines := c.diffLines()
	if c.movesOnly() && !p.Verbose {
		return
	}
	if len(lines) > maxTextDiff && !p.Verbose {
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, " ") })
	}
	for i, line := range lines {
		if i == maxTextDiff && !p.Verbose {
			p.line("    … and ", policy.Plural(len(lines)-i, "more line"), p.flag("shows them"))
			break
		}
		if colour := diffColour(line); colour != "" {
			line = p.paint(colour, line)
		}
		p.line("    ", line)
	}
}

func diffColour(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return ""
}

// onCluster returns the unit's name, formatted by quote, followed by the cluster unless the name
// begins with it.
func (u *unitChanges) onCluster(quote func(string) string) string {
	unit := quote(cmp.Or(visible(u.unit, maxMessage), "(no unit)"))
	if u.cluster == "" || strings.HasPrefix(u.unit, u.cluster+":") {
		return unit
	}
	return unit + " on " + quote(name(u.cluster))
}

// A clusterShare is the part of a change that concerns one cluster.
type clusterShare struct {
	cluster string // "" where the tree does not say
	count   string
	units   []string // units with their number of changes
}

// changeShares splits a change by cluster. A change of one unit has no shares.
func changeShares(units []unitChanges) []clusterShare {
	if len(units) < 2 {
		return nil
	}
	var shares []clusterShare
	for from := 0; from < len(units); {
		s, all := clusterShare{cluster: units[from].cluster}, []Change(nil)
		for ; from < len(units) && units[from].cluster == s.cluster; from++ {
			u := &units[from]
			all = append(all, u.changes...)
			s.units = append(s.units, cmp.Or(visible(strings.TrimPrefix(u.unit, s.cluster+":"), maxMessage), "no unit")+" ("+happeningCount(u.changes, "")+")")
		}
		s.count = changeCount(all)
		shares = append(shares, s)
	}
	return shares
}

// where names the share's cluster, if there is one to name.
func (c *clusterShare) where() string {
	if c.cluster == "" {
		return "in " + policy.Plural(len(c.units), "unit")
	}
	return name(c.cluster)
}

// changeSummary writes how much changes, and in which clusters and units.
func (p *printer) changeSummary(r *Report) {
	p.remark("change", r.changeCount()+", from "+name(r.Base.Revision)+" ("+name(shortCommit(r.Base.Commit))+")")
	shares := changeShares(changesByUnit(r.Changes))
	p.pad = ""
	for i := range shares {
		s := &shares[i]
		head := s.where() + ": "
		if len(shares) > 1 {
			head = s.where() + ", " + s.count + ": "
		}
		p.list("  "+head, p.few(s.units))
	}
}

// A proposal holds objects for which a changed policy has another result than the
// base's.
type proposal struct {
	word    string // such as "newly denied"
	instead string // such as "instead of denied", if both find it
	looser  bool   // less is denied, warned about or audited
	results []*policy.Result
}

// proposals returns what changed policies add and remove, a proposal for each rule and
// message.
func proposals(r *Report) []proposal {
	sorted := append([]policy.Result(nil), r.Proposed...)
	policy.Sort(sorted)
	was, is := make(map[string]*policy.Result), make(map[string]*policy.Result)
	for i := range sorted {
		if x := &sorted[i]; x.Baseline == policy.Absent {
			was[identical(x)] = x
		} else {
			is[identical(x)] = x
		}
	}
	var all []proposal
	index := make(map[[3]string]int)
	for i := range sorted {
		x := &sorted[i]
		c, finding := classOf(x)
		p := proposal{word: "newly " + wordOf(x)}
		if x.Baseline == policy.Absent {
			p.word, p.looser = "no longer "+wordOf(x), true
		}
		switch old := was[identical(x)]; {
		case !finding, x.Baseline == policy.Absent && is[identical(x)] != nil:
			continue // the other result says so
		case x.Baseline != policy.Absent && old != nil:
			before, _ := classOf(old)
			p.instead, p.looser = "instead of "+wordOf(old), c > before
			p.word = wordOf(x) + " " + p.instead
		}
		key := [3]string{p.word, ruleName(x.Engine, x.Policy, x.Rule), x.Message}
		at, ok := index[key]
		if !ok {
			at = len(all)
			index[key], all = at, append(all, p)
		}
		all[at].results = append(all[at].results, x)
	}
	return all
}

// identical returns a key that is equal for results of a rule about an object that differ
// in their action alone.
func identical(x *policy.Result) string {
	return strings.Join([]string{
		string(x.Engine), x.Policy, x.Rule, string(x.Operation), x.Message,
		render.Pointer(x.Object.APIVersion, x.Object.Kind, x.Object.Namespace, x.Object.Name, x.Object.Unit), strings.Join(x.Fields, " "),
	}, "\x00")
}

// others says how many other objects a proposal is about, or returns "".
func (p *proposal) others() string {
	if n := len(p.results) - 1; n > 0 {
		return ", and " + policy.Plural(n, "more object")
	}
	return ""
}
