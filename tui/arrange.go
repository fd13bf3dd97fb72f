package tui

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/report"
)

// A section is a part of the results with a tab of its own.
type section int

const (
	sectionNew section = iota
	sectionAll
	sectionSuppressed
	sectionUndecided
	sectionPassed
	sectionProposed
	sectionGraph // shows what deploys what instead of results
	numSections
)

var sectionNames = [numSections]string{"New", "All", "Suppressed", "Not evaluated", "Passed", "Proposed", "Graph"}

// title returns the name of a section.
func (s section) title(x *index) string {
	if s == sectionNew && !x.compared() {
		return "Open"
	}
	return sectionNames[s]
}

// shown reports whether a section is shown; some are not if they are empty.
func (s section) shown(x *index) bool {
	switch s {
	case sectionProposed:
		return len(x.report.Proposed) > 0
	case sectionGraph:
		return len(x.report.Units) > 0
	}
	return true
}

func (s section) has(e *entry) bool {
	if e.proposed || s == sectionProposed {
		return e.proposed && s == sectionProposed
	}
	switch now := e.state(); s {
	case sectionNew:
		return now == isNew
	case sectionSuppressed:
		return now == isSuppressed
	case sectionUndecided:
		return now == isUndecided
	case sectionPassed:
		return now == isPassed || now == isFixed
	case sectionGraph:
		return false
	default:
		return now != isPassed && now != isFixed
	}
}

// sectionCount returns the number of results in a section.
func (s *session) sectionCount(x section) int {
	switch x {
	case sectionNew:
		return s.counts[isNew]
	case sectionAll:
		return s.counts[isNew] + s.counts[isKnown] + s.counts[isSuppressed] + s.counts[isUndecided]
	case sectionSuppressed:
		return s.counts[isSuppressed]
	case sectionUndecided:
		return s.counts[isUndecided]
	case sectionPassed:
		return s.counts[isPassed] + s.counts[isFixed]
	case sectionGraph:
		return len(s.report.Units)
	default:
		return len(s.report.Proposed)
	}
}

// A grouping is the property that groups results.
type grouping int

const (
	byRule grouping = iota
	byFile
	byUnit
	byObject
	ungrouped
	numGroupings
)

var groupingNames = [numGroupings]string{"rule", "file", "unit", "object", "nothing"}

func (g grouping) of(e *entry) groupKey {
	switch g {
	case byRule:
		return groupKey{e.Policy, e.Rule, e.Engine}
	case byFile:
		return groupKey{a: e.file}
	case byUnit:
		return groupKey{a: e.Object.Unit}
	case byObject:
		return groupKey{e.Object.Namespace + "/" + e.Object.Name, e.Object.Kind, e.Object.Unit}
	default:
		return groupKey{}
	}
}

// name returns the name of a group.
func (g grouping) name(e *entry) string {
	switch g {
	case byRule:
		return report.RuleName(e.Result)
	case byFile:
		return cmp.Or(report.Visible(e.file, 1024), "no file is known")
	case byUnit:
		return cmp.Or(report.Visible(e.Object.Unit, 1024), "no unit")
	case byObject:
		return cmp.Or(report.ObjectName(e.Object), "no object")
	default:
		return "everything"
	}
}

// groupKey identifies a group without making a string for each entry.
type groupKey struct{ a, b, c string }

// An ordering is the order of groups, and of entries in them.
type ordering int

const (
	byWorst ordering = iota
	bySize
	byName
	numOrderings
)

var orderingNames = [numOrderings]string{"worst first", "most first", "name"}

// A spec selects the results to show, and their arrangement.
type spec struct {
	section  section
	filter   filter
	grouping grouping
	ordering ordering
}

// A group holds the entries with a common property, or the groups of a
// directory. The items, counts and rank of a directory are those of everything
// below it.
type group struct {
	key      groupKey
	name     string
	items    []*entry
	counts   [numStates]int
	rank     int
	parent   *group
	children []*group
	depth    int // number of groups above it
}

// An arrangement holds the groups for a spec, those in directories below them.
type arrangement struct {
	groups []*group
	n      int // number of entries in them
}

// arrange returns the arrangement of entries. It runs while the screen is in use, so
// it reads only the fields that load set and the states. Filters about marks and
// staged decisions are the exception.
func arrange(entries []*entry, s spec) arrangement {
	var a arrangement
	byKey := make(map[groupKey]*group)
	for _, e := range entries {
		if !s.section.has(e) || !s.filter.match(e) {
			continue
		}
		key := s.grouping.of(e)
		g := byKey[key]
		if g == nil {
			g = &group{key: key, name: s.grouping.name(e), rank: e.rank}
			byKey[key] = g
			a.groups = append(a.groups, g)
		}
		g.items = append(g.items, e)
		g.counts[e.state()]++
		g.rank = min(g.rank, e.rank)
		a.n++
	}
	for _, g := range a.groups {
		slices.SortStableFunc(g.items, compareEntries(s.ordering))
	}
	if s.grouping == byFile {
		slices.SortFunc(a.groups, func(a, b *group) int { return strings.Compare(a.key.a, b.key.a) })
		a.groups = nest(a.groups, nil, s.ordering)
	}
	slices.SortStableFunc(a.groups, compareGroups(s.ordering))
	return a
}

// nest arranges the groups of files, which are sorted by path, as a tree below
// the directory parent. A directory with a single entry is joined with it.
func nest(files []*group, parent *group, o ordering) []*group {
	cut, depth := 0, 0
	if parent != nil {
		cut, depth = len(parent.key.a), parent.depth+1
	}
	var level []*group
	for len(files) > 0 {
		g, n := files[0], 1
		if i := strings.IndexByte(g.key.a[cut:], '/'); i >= 0 {
			first := g.key.a[:cut+i+1]
			for n < len(files) && strings.HasPrefix(files[n].key.a, first) {
				n++
			}
		}
		if n > 1 {
			g = &group{key: groupKey{a: commonDirectory(g.key.a, files[n-1].key.a), b: "directory"}, rank: g.rank}
		}
		g.parent, g.depth = parent, depth
		if parent != nil || n > 1 {
			g.name = report.Visible(g.key.a[cut:], 1024)
		}
		if n > 1 {
			g.hold(nest(files[:n], g, o), o)
		}
		level, files = append(level, g), files[n:]
	}
	return level
}

// hold puts groups into a directory.
func (g *group) hold(children []*group, o ordering) {
	slices.SortStableFunc(children, compareGroups(o))
	g.children = children
	for _, c := range children {
		g.items = append(g.items, c.items...)
		g.rank = min(g.rank, c.rank)
		for s, n := range c.counts {
			g.counts[s] += n
		}
	}
}

// commonDirectory returns the directory that holds two files, with a slash at its end.
func commonDirectory(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return a[:strings.LastIndexByte(a[:i], '/')+1]
}

func compareEntries(o ordering) func(a, b *entry) int {
	return func(a, b *entry) int {
		if o == byWorst && a.rank != b.rank {
			return cmp.Compare(a.rank, b.rank)
		}
		if o == byName {
			return cmp.Or(strings.Compare(a.Object.Name, b.Object.Name), strings.Compare(a.Object.Namespace, b.Object.Namespace))
		}
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	}
}

func compareGroups(o ordering) func(a, b *group) int {
	return func(a, b *group) int {
		switch o {
		case byWorst:
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(len(b.items), len(a.items)), strings.Compare(a.name, b.name))
		case bySize:
			return cmp.Or(cmp.Compare(len(b.items), len(a.items)), strings.Compare(a.name, b.name))
		default:
			return strings.Compare(a.name, b.name)
		}
	}
}

// A filter is a list of terms that must all hold: words that occur in a
// result's names, file or message, and field:value.
type filter []term

type term struct {
	field string // "" for a word
	value string // lower case
	not   bool
	exact bool // the value must be the whole field
}

// filterFields are the fields of terms, with their descriptions.
var filterFields = []struct{ name, doc string }{
	{"rule", "policy/rule"},
	{"kind", "the object's kind"},
	{"ns", "its namespace"},
	{"name", "its name"},
	{"unit", "the unit that it is of"},
	{"file", "the file to edit"},
	{"sev", "severity, or denied, warning, audit, error, unknown"},
	{"is", "open, new, known, suppressed, unknown, passed, fixed, staged, marked"},
}

// parseFilter parses a filter: words between blanks, "quoted words", with !
// before those that must not occur. Any text is a valid filter.
func parseFilter(s string) filter {
	var f filter
	for _, word := range splitWords(strings.ToLower(s)) {
		t := term{}
		t.value, t.not = strings.CutPrefix(word, "!")
		if field, value, ok := strings.Cut(t.value, ":"); ok && isField(field) {
			t.field, t.value = field, value
		} else if t.value == "new" || t.value == "open" {
			t.field = "is"
		}
		t.value = strings.ReplaceAll(t.value, `"`, "")
		if value, ok := strings.CutPrefix(t.value, "="); ok && t.field != "" {
			t.value, t.exact = value, true
		}
		if t.value != "" {
			f = append(f, t)
		}
	}
	return f
}

func isField(name string) bool {
	return slices.ContainsFunc(filterFields, func(f struct{ name, doc string }) bool { return f.name == name })
}

// splitWords splits at blanks that are not between quotes.
func splitWords(s string) []string {
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t')
	})
}

func (f filter) match(e *entry) bool {
	for i := range f {
		if f[i].match(e) == f[i].not {
			return false
		}
	}
	return true
}

func (t *term) match(e *entry) bool {
	if t.exact {
		return slices.ContainsFunc(t.values(e), func(v string) bool { return strings.EqualFold(v, t.value) })
	}
	switch t.field {
	case "":
		return strings.Contains(e.text, t.value)
	case "rule":
		return contains(e.Policy, t.value) || contains(e.Rule, t.value) ||
			strings.Contains(t.value, "/") && contains(e.Policy+"/"+e.Rule, t.value)
	case "kind":
		return len(e.Object.Kind) >= len(t.value) && strings.EqualFold(e.Object.Kind[:len(t.value)], t.value)
	case "ns":
		return contains(e.Object.Namespace, t.value)
	case "name":
		return contains(e.Object.Name, t.value)
	case "unit":
		return contains(e.Object.Unit, t.value)
	case "file":
		return contains(e.file, t.value)
	case "sev":
		return strings.HasPrefix(string(e.Severity), t.value) || strings.HasPrefix(e.class, t.value) || strings.EqualFold(string(e.Action), t.value)
	default:
		return t.is(e)
	}
}

// values returns the values of the term's field in an entry.
func (t *term) values(e *entry) []string {
	switch t.field {
	case "rule":
		return []string{e.Policy, e.Rule, e.Policy + "/" + e.Rule}
	case "kind":
		return []string{e.Object.Kind}
	case "ns":
		return []string{e.Object.Namespace}
	case "name":
		return []string{e.Object.Name}
	case "unit":
		return []string{e.Object.Unit}
	case "file":
		return []string{e.file}
	case "sev":
		return []string{string(e.Severity), e.class, string(e.Action)}
	default:
		return []string{stateWords[e.state()]}
	}
}

func (t *term) is(e *entry) bool {
	switch t.value {
	case "staged":
		return e.accepted || e.restored
	case "marked":
		return e.marked
	case "unknown":
		return e.state() == isUndecided
	case "open":
		return e.state() == isNew
	}
	i := slices.Index(stateWords[:], t.value)
	return i >= 0 && e.state() == state(i)
}

// contains reports whether s contains a lower-case text, in any case.
func contains(s, lower string) bool {
	if strings.Contains(s, lower) {
		return true
	}
	for i := 0; i+len(lower) <= len(s); i++ {
		if s[i]|0x20 == lower[0]|0x20 && strings.EqualFold(s[i:i+len(lower)], lower) {
			return true
		}
	}
	return len(s) >= utf8.UTFMax && !isASCII(s) && strings.Contains(strings.ToLower(s), lower)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
