package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/preadmit/preadmit/policy"
)

// Undecided findings often need the same object or setting: a hundred rules
// need the labels of one Namespace, or fifty units one chart. They are shown as
// one block for each kind, with the command that gets the missing objects.

const maxItems = 10 // items of a block without -v

// A missingKind is one kind of missing objects or settings that leaves findings undecided.
type missingKind struct {
	class   class
	kind    string // as in policy.Missing
	rule    string // for sources
	hint    string // the next step
	items   []*missingItem
	results selection // each once
}

// A missingItem is a missing object, source or answer, with the findings that need it.
type missingItem struct {
	name    string // may be empty; safe to show
	results selection
}

type missingKey struct{ kind, rule string }

// splitMissing separates the groups that need missing data from the others. A group that is the
// only one to need data of a kind stays a group.
func splitMissing(all []*group) (rest []*group, missing []*missingKind) {
	waiting := make(map[missingKey]int) // how many groups and messages
	for _, g := range all {
		for _, k := range missingKeys(g) {
			waiting[k] += g.messages()
		}
	}
	byKey := make(map[missingKey]*missingKind)
	for _, g := range all {
		keys := missingKeys(g)
		if len(keys) == 0 || slices.ContainsFunc(keys, func(k missingKey) bool { return waiting[k] < 2 }) {
			rest = append(rest, g)
			continue
		}
		for _, k := range keys {
			if byKey[k] == nil {
				byKey[k] = &missingKind{class: g.class, kind: k.kind, rule: k.rule, hint: g.first().Hint, results: selection{of: g.results.of}}
				missing = append(missing, byKey[k])
			}
			byKey[k].add(g)
		}
	}
	for _, l := range missing {
		slices.SortStableFunc(l.items, func(a, b *missingItem) int {
			return cmp.Or(cmp.Compare(l.count(b.results), l.count(a.results)), strings.Compare(a.name, b.name))
		})
	}
	slices.SortStableFunc(missing, func(a, b *missingKind) int { return cmp.Compare(b.results.len(), a.results.len()) })
	return rest, missing
}

// messages counts the different messages of the group.
func (g *group) messages() int {
	seen := make(map[string]bool)
	for _, x := range g.results.all() {
		seen[x.Message] = true
	}
	return len(seen)
}

// missingKeys returns the kinds of missing objects of a group, or none if the
// group has another cause too.
func missingKeys(g *group) []missingKey {
	var keys []missingKey
	for _, x := range g.results.all() {
		if !x.Undecided() || len(x.Missing) == 0 {
			return nil
		}
		for _, m := range x.Missing {
			if k := keyOfMissing(x, m); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

func keyOfMissing(x *policy.Result, m policy.Missing) missingKey {
	if byUnit(m.Kind) {
		return missingKey{m.Kind, ruleName(x.Engine, x.Policy, x.Rule)}
	}
	return missingKey{kind: m.Kind}
}

func (m *missingKind) add(g *group) {
	for n, x := range g.results.all() {
		m.results.add(n)
		if x.Hint != m.hint {
			m.hint = ""
		}
		for _, missing := range x.Missing {
			if keyOfMissing(x, missing) == (missingKey{m.kind, m.rule}) {
				t := m.item(visible(missing.Name, maxMessage))
				t.results.add(n)
			}
		}
	}
}

func (m *missingKind) item(name string) *missingItem {
	for _, t := range m.items {
		if t.name == name {
			return t
		}
	}
	m.items = append(m.items, &missingItem{name: name, results: selection{of: m.results.of}})
	return m.items[len(m.items)-1]
}

// byUnit reports whether units, not results, need a kind of missing data.
func byUnit(kind string) bool { return kind == policy.MissingSource || kind == policy.MissingUnit }

// count counts the units that need a source or another unit, or else the results.
func (m *missingKind) count(results selection) int {
	if !byUnit(m.kind) {
		return results.len()
	}
	return len(unitsOf(results))
}

// counted returns count with its noun.
func (m *missingKind) counted(results selection) string {
	if !byUnit(m.kind) {
		return policy.Plural(results.len(), "result")
	}
	return policy.Plural(m.count(results), "unit")
}

// unitsOf returns the units of results, in order and without duplicates.
func unitsOf(s selection) []string {
	var units []string
	seen := make(map[string]bool)
	for _, x := range s.all() {
		if u := x.Object.Unit; !seen[u] {
			seen[u] = true
			units = append(units, u)
		}
	}
	return units
}

// headline says how many objects are missing and how many findings need them.
func (m *missingKind) headline() string {
	n, waiting := len(m.items), m.counted(m.results)
	verb := func(singular, pluralForm string) string {
		if n == 1 {
			return singular
		}
		return pluralForm
	}
	switch {
	case m.kind == policy.MissingSource:
		return fmt.Sprintf("%s that %s not in the tree %s %s from being rendered", policy.Plural(n, "source"), verb("is", "are"), verb("keeps", "keep"), waiting)
	case m.kind == policy.MissingUnit:
		return fmt.Sprintf("%s that can't be rendered %s %s, which can't be rendered either", policy.Plural(n, "unit"), verb("makes", "make"), waiting)
	case m.kind == policy.MissingUser:
		return "the user is unknown, and decides " + waiting
	case m.kind == policy.MissingAnswer:
		return fmt.Sprintf("%s of the API server that %s not known %s %s", policy.Plural(n, "answer"), verb("is", "are"), verb("decides", "decide"), waiting)
	case n == 1 && m.items[0].name == "":
		return fmt.Sprintf("objects of kind %s that are not here decide %s", name(m.kind), waiting)
	default:
		return fmt.Sprintf("%s that %s not here %s %s", m.noun(), verb("is", "are"), verb("decides", "decide"), waiting)
	}
}

// noun returns the number and name of the missing objects. A resource's name is
// plural already.
func (m *missingKind) noun() string {
	kind, n := name(m.kind), len(m.items)
	switch {
	case n == 1 || kind == "" || !unicode.IsUpper([]rune(kind)[0]):
		return fmt.Sprintf("%d %s", n, kind)
	case strings.HasSuffix(kind, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(kind, "y"))
	default:
		return fmt.Sprintf("%d %ss", n, kind)
	}
}

// commandWord matches words that are safe in a command that a person copies.
var commandWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)

// get returns the command that gets the missing objects from a cluster, or "".
func (m *missingKind) get() string {
	switch m.kind {
	case policy.MissingSource, policy.MissingUnit, policy.MissingUser, policy.MissingAnswer, "Secret", "secrets":
		return ""
	}
	kind := strings.ToLower(m.kind)
	if !commandWord.MatchString(kind) {
		return ""
	}
	to := " -o yaml > " + m.file()
	if m.kind == "Namespace" || m.kind == "CustomResourceDefinition" {
		return "kubectl get " + kind + "s" + to
	}
	namespace, object, namespaced := strings.Cut(m.items[0].name, "/")
	if len(m.items) == 1 && namespaced && commandWord.MatchString(namespace) && commandWord.MatchString(object) {
		return "kubectl get " + kind + " " + object + " -n " + namespace + to
	}
	return "kubectl get " + kind + " --all-namespaces" + to
}

// A Lack is a kind of objects whose absence leaves results undecided.
type Lack struct {
	Text      string // how many objects, and how many results they decide
	Get, File string // the command that gets them from a cluster, and the file that it writes
}

// Lacks returns the kinds of absent objects that a cluster has.
func (r *Report) Lacks() []Lack {
	var all []Lack
	_, missing := splitMissing(groups(newList(r), open))
	for _, m := range missing {
		if m.get() != "" {
			all = append(all, Lack{m.headline(), m.get(), m.file()})
		}
	}
	return all
}

func (m *missingKind) file() string {
	return strings.ToLower(strings.TrimSuffix(m.kind, "s")) + "s.yaml"
}

// give returns the flag that passes the missing objects to preadmit, or "".
func (m *missingKind) give() string {
	switch {
	case byUnit(m.kind):
		return ""
	case m.kind == policy.MissingUser:
		return "--as USER"
	case m.get() == "":
		return "--with FILE"
	default:
		return "--with " + m.file()
	}
}

// rules returns the names of the rules that need the missing objects, without
// duplicates.
func (m *missingKind) rules() []string {
	var names []string
	for _, x := range m.results.all() {
		if n := ruleName(x.Engine, x.Policy, x.Rule); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// text returns the item's name. If a single finding needs it, the finding's object or unit follows,
// unless the caller lists the findings anyway.
func (m *missingKind) text(t *missingItem, listed bool) string {
	if m.count(t.results) > 1 || listed && t.name != "" {
		return t.name
	}
	x := t.results.at(0)
	who := visible(x.Object.Unit, maxMessage)
	if x.Object.Kind != "" {
		who = short(x.Object) + inUnit(x.Object.Unit)
	}
	switch {
	case who == "":
		return t.name
	case t.name == "":
		return who
	default:
		return t.name + " (" + who + ")"
	}
}

// neededBy returns the names of the objects and units that need the item.
func (m *missingItem) neededBy() []string {
	var names []string
	for _, k := range objects(m.results) {
		names = append(names, short(k)+inUnit(k.Unit))
	}
	withObjects := make(map[string]bool) // units
	for _, x := range m.results.all() {
		withObjects[x.Object.Unit] = withObjects[x.Object.Unit] || x.Object.Kind != ""
	}
	for _, u := range unitsOf(m.results) {
		if len(names) == 0 || !withObjects[u] {
			names = append(names, visible(u, maxMessage))
		}
	}
	return names
}

func (p *printer) missingDetails(l *missingKind) {
	p.pad = " "
	for i, t := range l.items {
		if i == maxItems && !p.Verbose {
			p.line(p.pad, p.paint(blue, " = "), unlisted(len(l.items)-i), p.flag("lists them"))
			break
		}
		if t.name != "" || len(l.items) > 1 {
			p.note(l.counted(t.results), l.text(t, p.Verbose))
		}
		if p.Verbose {
			p.list("     ", t.neededBy())
		}
	}
	rules := l.rules()
	if len(rules) > maxRelated && !p.Verbose {
		rules = append(slices.Clone(rules[:maxRelated]), unlisted(len(rules)-maxRelated)+p.flag("names them"))
	}
	label := "rules: "
	if len(rules) == 1 {
		label = "rule: "
	}
	p.wrapped(label, rules)
	p.note("help", prose(l.hint))
	p.note("get", l.get())
	p.note("give", l.give())
}
