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

const maxThings = 10 // of a block, but for -v

// A lack is one kind of missing data that leaves findings undecided.
type lack struct {
	class   class
	kind    string // as policy.Missing has it
	rule    string // of sources
	hint    string // the next step
	things  []*thing
	results selection // each once
}

// A thing is a missing source or answer with the findings that wait for it.
type thing struct {
	name    string // may be empty; safe to show
	results selection
}

type lackKey struct{ kind, rule string }

// lacksOf takes the groups that wait for something apart from the others. One
// that waits alone for things of its kind stays a group.
func lacksOf(all []*group) (rest []*group, lacks []*lack) {
	waiting := make(map[lackKey]int) // how many groups and messages
	for _, g := range all {
		for _, k := range lackKeys(g) {
			waiting[k] += g.messages()
		}
	}
	byKey := make(map[lackKey]*lack)
	for _, g := range all {
		keys := lackKeys(g)
		if len(keys) == 0 || slices.ContainsFunc(keys, func(k lackKey) bool { return waiting[k] < 2 }) {
			rest = append(rest, g)
			continue
		}
		for _, k := range keys {
			if byKey[k] == nil {
				byKey[k] = &lack{class: g.class, kind: k.kind, rule: k.rule, hint: g.first().Hint, results: selection{of: g.results.of}}
				lacks = append(lacks, byKey[k])
			}
			byKey[k].add(g)
		}
	}
	for _, l := range lacks {
		slices.SortStableFunc(l.things, func(a, b *thing) int {
			return cmp.Or(cmp.Compare(l.count(b.results), l.count(a.results)), strings.Compare(a.name, b.name))
		})
	}
	slices.SortStableFunc(lacks, func(a, b *lack) int { return cmp.Compare(b.results.len(), a.results.len()) })
	return rest, lacks
}

// messages counts the different messages of the group.
func (g *group) messages() int {
	seen := make(map[string]bool)
	for _, x := range g.results.placed() {
		seen[x.Message] = true
	}
	return len(seen)
}

// lackKeys returns the kinds of missing objects of a group, or none if the
// group has another cause too.
func lackKeys(g *group) []lackKey {
	var keys []lackKey
	for _, x := range g.results.outlines() {
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

func keyOfMissing(x *policy.Result, m policy.Missing) lackKey {
	if byUnit(m.Kind) {
		return lackKey{m.Kind, ruleName(x.Engine, x.Policy, x.Rule)}
	}
	return lackKey{kind: m.Kind}
}

func (l *lack) add(g *group) {
	for n, x := range g.results.outlines() {
		l.results.add(n)
		if x.Hint != l.hint {
			l.hint = ""
		}
		for _, m := range x.Missing {
			if keyOfMissing(x, m) == (lackKey{l.kind, l.rule}) {
				t := l.thing(visible(m.Name, maxMessage))
				t.results.add(n)
			}
		}
	}
}

func (l *lack) thing(name string) *thing {
	for _, t := range l.things {
		if t.name == name {
			return t
		}
	}
	l.things = append(l.things, &thing{name: name, results: selection{of: l.results.of}})
	return l.things[len(l.things)-1]
}

// byUnit reports whether units, not results, need a kind of missing data.
func byUnit(kind string) bool { return kind == policy.MissingSource || kind == policy.MissingUnit }

// count counts the units that need a source or another unit, or else the results.
func (l *lack) count(results selection) int {
	if !byUnit(l.kind) {
		return results.len()
	}
	return len(unitsOf(results))
}

// counted returns count with its noun.
func (l *lack) counted(results selection) string {
	if !byUnit(l.kind) {
		return policy.Plural(results.len(), "result")
	}
	return policy.Plural(l.count(results), "unit")
}

// unitsOf returns the units of results, in order and without duplicates.
func unitsOf(s selection) []string {
	var units []string
	seen := make(map[string]bool)
	for _, x := range s.outlines() {
		if u := x.Object.Unit; !seen[u] {
			seen[u] = true
			units = append(units, u)
		}
	}
	return units
}

// headline says how many objects are missing and how many findings need them.
func (l *lack) headline() string {
	n, waiting := len(l.things), l.counted(l.results)
	verb := func(singular, pluralForm string) string {
		if n == 1 {
			return singular
		}
		return pluralForm
	}
	switch {
	case l.kind == policy.MissingSource:
		return fmt.Sprintf("%s that %s not in the tree %s %s from being rendered", policy.Plural(n, "source"), verb("is", "are"), verb("keeps", "keep"), waiting)
	case l.kind == policy.MissingUnit:
		return fmt.Sprintf("%s that can't be rendered %s %s, which can't be rendered either", policy.Plural(n, "unit"), verb("makes", "make"), waiting)
	case l.kind == policy.MissingUser:
		return "the user is unknown, and decides " + waiting
	case l.kind == policy.MissingAnswer:
		return fmt.Sprintf("%s of the API server that %s not known %s %s", policy.Plural(n, "answer"), verb("is", "are"), verb("decides", "decide"), waiting)
	case n == 1 && l.things[0].name == "":
		return fmt.Sprintf("objects of kind %s that are not here decide %s", name(l.kind), waiting)
	default:
		return fmt.Sprintf("%s that %s not here %s %s", l.noun(), verb("is", "are"), verb("decides", "decide"), waiting)
	}
}

// noun returns the number and name of the missing objects. A resource's name is
// plural already.
func (l *lack) noun() string {
	kind, n := name(l.kind), len(l.things)
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
func (l *lack) get() string {
	switch l.kind {
	case policy.MissingSource, policy.MissingUnit, policy.MissingUser, policy.MissingAnswer, "Secret", "secrets":
		return ""
	}
	kind := strings.ToLower(l.kind)
	if !commandWord.MatchString(kind) {
		return ""
	}
	to := " -o yaml > " + l.file()
	if l.kind == "Namespace" || l.kind == "CustomResourceDefinition" {
		return "kubectl get " + kind + "s" + to
	}
	namespace, object, namespaced := strings.Cut(l.things[0].name, "/")
	if len(l.things) == 1 && namespaced && commandWord.MatchString(namespace) && commandWord.MatchString(object) {
		return "kubectl get " + kind + " " + object + " -n " + namespace + to
	}
	return "kubectl get " + kind + " --all-namespaces" + to
}

func (l *lack) file() string { return strings.ToLower(strings.TrimSuffix(l.kind, "s")) + "s.yaml" }

// give returns the flag that passes the missing objects to preadmit, or "".
func (l *lack) give() string {
	switch {
	case byUnit(l.kind):
		return ""
	case l.kind == policy.MissingUser:
		return "--as USER"
	case l.get() == "":
		return "--with FILE"
	default:
		return "--with " + l.file()
	}
}

// rules returns the names of the rules that need the missing objects, without
// duplicates.
func (l *lack) rules() []string {
	var names []string
	for _, x := range l.results.outlines() {
		if n := ruleName(x.Engine, x.Policy, x.Rule); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// text returns the thing's name. If a single finding waits for it, that one is named
// behind it, unless a list follows.
func (l *lack) text(t *thing, listed bool) string {
	if l.count(t.results) > 1 || listed && t.name != "" {
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

// waiting returns the names of the objects that wait for the missing data.
func (t *thing) waiting() []string {
	var names []string
	for _, k := range objects(t.results) {
		names = append(names, short(k)+inUnit(k.Unit))
	}
	withObjects := make(map[string]bool) // units
	for _, x := range t.results.outlines() {
		withObjects[x.Object.Unit] = withObjects[x.Object.Unit] || x.Object.Kind != ""
	}
	for _, u := range unitsOf(t.results) {
		if len(names) == 0 || !withObjects[u] {
			names = append(names, visible(u, maxMessage))
		}
	}
	return names
}

// lack writes a block.
func (p *printer) lack(l *lack) {
	p.line(p.paint(l.class.colour(), classes[l.class].word), p.paint(bold, ": "+l.headline()))
	p.lackDetails(l)
	p.line()
}

func (p *printer) lackDetails(l *lack) {
	p.pad = " "
	for i, t := range l.things {
		if i == maxThings && !p.Verbose {
			p.line(p.pad, p.paint(blue, " = "), unlisted(len(l.things)-i), p.flag("lists them"))
			break
		}
		if t.name != "" || len(l.things) > 1 {
			p.note(l.counted(t.results), l.text(t, p.Verbose))
		}
		if p.Verbose {
			p.list("     ", t.waiting())
		}
	}
	p.ruleNames(l)
	p.note("help", prose(l.hint))
	p.note("get", l.get())
	p.note("give", l.give())
}

func (p *printer) ruleNames(l *lack) {
	rules := l.rules()
	if len(rules) > maxRelated && !p.Verbose {
		rules = append(slices.Clone(rules[:maxRelated]), unlisted(len(rules)-maxRelated)+p.flag("names them"))
	}
	label := "rules: "
	if len(rules) == 1 {
		label = "rule: "
	}
	p.wrapped(label, rules)
}
