package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A class is the weight of a finding for a reader, the worst first.
type class int

const (
	denied class = iota
	broken
	undecided
	warned
	audited
	numClasses
)

// classes are the words for classes, alone and after a count.
var classes = [numClasses]struct{ word, count string }{
	denied:    {"denied", "denied"},
	broken:    {"error", "in error"},
	undecided: {"unknown", "not decided"},
	warned:    {"warning", "warned"},
	audited:   {"audit", "audited"},
}

// classOf returns the class of x; ok is false for a pass or a skip, which is no finding.
// A failure whose action is not known counts as denied.
func classOf(x *policy.Result) (c class, ok bool) {
	switch {
	case x.Outcome == policy.Error:
		return broken, true
	case x.Outcome == policy.Unknown:
		return undecided, true
	case x.Outcome != policy.Fail:
		return 0, false
	case x.Action == policy.Warn:
		return warned, true
	case x.Action == policy.Audit:
		return audited, true
	default:
		return denied, true
	}
}

// A group is findings of one rule and class that read as one.
type group struct {
	class    class
	rule     uint32 // equal for groups of one rule and class
	severity policy.Severity
	results  selection // in the report's order; the first is the one shown
}

func (g *group) first() *policy.Result { return g.results.at(0) }

// groups returns the results for which keep returns true as groups for people to read, the worst
// class first. Results of one rule at one line are one group, and so are groups of one rule with
// the same message.
func groups(l *list, keep func(*policy.Result) bool) []*group {
	type messageKey struct {
		rule    uint32
		message string
	}
	all := groupBy(l, keep)
	byMessage := make(map[messageKey]*group)
	joined, early := all[:0], []*group(nil)
	for _, g := range all {
		x := g.first()
		key := messageKey{g.rule, x.Message}
		if same := byMessage[key]; same != nil {
			same.results.numbers = append(same.results.numbers, g.results.numbers...)
			continue
		}
		byMessage[key] = g
		if x.Engine == policy.EngineRender && x.Rule == policy.RuleIncomplete { // comes before all
			early = append(early, g)
		} else {
			joined = append(joined, g)
		}
	}
	slices.SortStableFunc(joined, func(a, b *group) int { return cmp.Compare(a.class, b.class) })
	return append(early, joined...)
}

// groupBy returns the results for which keep returns true, with those of one rule at one line as
// one group. A result without a place is a group of its own.
func groupBy(l *list, keep func(*policy.Result) bool) []*group {
	var all []*group
	rules, files := make(map[classKey]uint32), make(map[string]uint32)
	byLine := make(map[lineKey]*group)
	for n, x := range l.all() {
		c, ok := classOf(x)
		if !ok || !keep(x) {
			continue
		}
		p := place(x)
		key := lineKey{numberOf(rules, classKey{c, ruleKeyOf(x)}), numberOf(files, p.File), p.Line}
		g := byLine[key]
		if g == nil || p.File == "" {
			g = &group{class: c, rule: key.rule, severity: x.Severity, results: selection{of: l}}
			byLine[key] = g
			all = append(all, g)
		}
		g.results.add(n)
	}
	return all
}

type classKey struct {
	class class
	rule  ruleKey
}

// A lineKey names a rule and a file by their numbers.
type lineKey struct {
	rule, file uint32
	line       int
}

// numberOf returns the number of a key. A new key gets the next number.
func numberOf[K comparable](numbers map[K]uint32, key K) uint32 {
	n, ok := numbers[key]
	if !ok {
		n = uint32(len(numbers))
		numbers[key] = n
	}
	return n
}

// sameMessage divides results by rule and message, in order of appearance.
func sameMessage(s selection) []selection {
	type messageKey struct {
		classKey
		message string
	}
	var all []selection
	index := make(map[messageKey]uint32)
	for n, x := range s.all() {
		c, _ := classOf(x)
		i := numberOf(index, messageKey{classKey{c, ruleKeyOf(x)}, x.Message})
		if int(i) == len(all) {
			all = append(all, selection{of: s.of})
		}
		all[i].add(n)
	}
	return all
}

// A spot is a place with the findings of a group that are there.
type spot struct {
	render.Origin
	results selection
}

// spots returns the group's places by file and line, in order of appearance.
func (g *group) spots() []*spot {
	var all []*spot
	byLine := make(map[line]uint32)
	for n, x := range g.results.all() {
		p := place(x)
		i := numberOf(byLine, line{p.File, p.Line})
		if int(i) == len(all) {
			all = append(all, &spot{Origin: p, results: selection{of: g.results.of}})
		}
		all[i].results.add(n)
	}
	return all
}

// objects returns the different objects of results, in order.
func objects(s selection) []render.Key {
	var keys []render.Key
	seen := make(map[render.Key]bool)
	for _, x := range s.all() {
		if k := x.Object; k.Kind != "" && !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// short returns an object's kind and name, and full also its version. Both are safe to show.
func short(k render.Key) string {
	return name(strings.TrimSpace(k.Kind+" ")) + " " + qualified(k)
}

func full(k render.Key) string { return name(k.APIVersion) + " " + short(k) }

func qualified(k render.Key) string {
	if k.Namespace == "" {
		return name(k.Name)
	}
	return name(k.Namespace) + "/" + name(k.Name)
}

// ruleName returns policy/rule, or the part that is known, safe to show.
func ruleName(engine, pol, rule string) string {
	switch {
	case pol == "" && rule == "":
		return cmp.Or(name(engine), "unnamed")
	case pol == "":
		return name(strings.ToLower(engine)) + "/" + name(rule)
	case rule == "":
		return name(pol)
	default:
		return name(pol) + "/" + name(rule)
	}
}

func compareRules(a, b policy.Rule) int {
	return cmp.Or(
		strings.Compare(a.Engine, b.Engine),
		strings.Compare(a.Policy, b.Policy),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.Origin.File, b.Origin.File),
		cmp.Compare(a.Origin.Line, b.Origin.Line),
		cmp.Compare(a.Origin.Column, b.Origin.Column),
	)
}

// open reports whether a result counts: it is not suppressed, its unit is deployed, and the base
// does not have it.
func open(x *policy.Result) bool {
	return x.Suppression == nil && !x.Unreached && x.Baseline.Counts()
}

// AlreadyFailing explains the baseline of that name.
const AlreadyFailing = "already failing at the base; the change touches the object, so the API server refuses the change"

// refused says that failures are at the base, too, or how many of several are. It returns "" if none
// is.
func refused(s selection) string {
	n := 0
	for _, x := range s.all() {
		if x.Baseline == policy.AlreadyFailing {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case s.len():
		return AlreadyFailing
	}
	return fmt.Sprintf("%d of %d already failing at the base; the change touches their objects, so the API server refuses the change", n, s.len())
}

// sortedKeys sorts keys by a string of each, in place.
func sortedKeys[K any](keys []K, by func(K) string) []K {
	slices.SortFunc(keys, func(a, b K) int { return strings.Compare(by(a), by(b)) })
	return keys
}

// headlineOf returns the message of a finding.
func headlineOf(x *policy.Result) string {
	return cmp.Or(prose(x.Message), "the rule gives no message")
}

func wordOf(x *policy.Result) string {
	c, _ := classOf(x)
	return classes[c].word
}

// otherMessages returns the messages of the group besides that of its first result, at most limit, and
// the number of those left out.
func (g *group) otherMessages(limit int) (messages []string, more int) {
	seen := map[string]bool{g.first().Message: true}
	for _, x := range g.results.all() {
		if seen[x.Message] {
			continue
		}
		seen[x.Message] = true
		if len(messages) == limit {
			more++
		} else {
			messages = append(messages, x.Message)
		}
	}
	return messages, more
}

// otherOrigins returns the origins of a result at other lines than primary, one for each line, at most
// limit, and the number of those left out.
func otherOrigins(x *policy.Result, primary render.Origin, limit int) (origins []render.Origin, more int) {
	seen := map[line]bool{{primary.File, primary.Line}: true}
	for _, o := range x.Origins {
		if o.File == "" || seen[line{o.File, o.Line}] {
			continue
		}
		seen[line{o.File, o.Line}] = true
		if len(origins) == limit {
			more++
		} else {
			origins = append(origins, o)
		}
	}
	return origins, more
}

// assumptions returns the different assumptions of results, at most limit.
func assumptions(s selection, limit int) []string {
	var all []string
	for _, x := range s.all() {
		for _, a := range x.Assumed {
			if len(all) < limit && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// rankOf returns the rank of a class's level. Errors and denials have the same level, and so the
// same rank.
func rankOf(c class) int { return slices.Index(levels, levelOf(c)) }

var levels = []string{"error", "warning", "note", "none"}

// levelOf returns the SARIF level of a class. An undecided finding is a warning.
func levelOf(c class) string {
	switch c {
	case denied, broken:
		return "error"
	case undecided, warned:
		return "warning"
	default:
		return "note"
	}
}

// actionLevel lowers a level to at most that of the action of a failure.
func actionLevel(a policy.Action, level string) string {
	most := map[policy.Action]string{policy.Warn: "warning", policy.Audit: "note"}[a]
	if most == "" {
		return level
	}
	return levels[max(slices.Index(levels, most), slices.Index(levels, level))]
}

// severityRank orders severities, the worst first and unknown ones last.
func severityRank(s policy.Severity) int {
	if i := slices.Index(policy.Severities, s); i >= 0 {
		return i
	}
	return len(policy.Severities)
}
