package report

import (
	"cmp"
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

// classes are the words for them, alone and counted.
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
	class   class
	results []*policy.Result // in the report's order; the first is the one shown
}

func (g *group) first() *policy.Result { return g.results[0] }

// groups are the findings for people, the worst class first: those of one rule
// at one line are one, and of these the ones with one message are one again. It
// takes the results that keep allows.
func groups(results []policy.Result, keep func(*policy.Result) bool) []*group {
	all := groupBy(results, keep)
	byMessage := make(map[groupKey]*group)
	joined := all[:0]
	for _, g := range all {
		key := keyOf(g.class, g.first())
		key.message = g.first().Message
		if same := byMessage[key]; same != nil {
			same.results = append(same.results, g.results...)
			continue
		}
		byMessage[key] = g
		joined = append(joined, g)
	}
	slices.SortStableFunc(joined, func(a, b *group) int { return cmp.Compare(a.rank(), b.rank()) })
	return joined
}

// rank is the class. That the run ended early comes before all.
func (g *group) rank() int {
	if x := g.first(); x.Engine == policy.EngineRender && x.Rule == policy.RuleIncomplete {
		return -1
	}
	return int(g.class)
}

// groupBy joins what one rule says at one line. What has no place stays alone.
func groupBy(results []policy.Result, keep func(*policy.Result) bool) []*group {
	var all []*group
	byLine := make(map[groupKey]*group)
	for i := range results {
		x := &results[i]
		c, ok := classOf(x)
		if !ok || !keep(x) {
			continue
		}
		p := place(x)
		key := keyOf(c, x)
		key.line = line{p.File, p.Line}
		g := byLine[key]
		if g == nil || p.File == "" {
			g = &group{class: c}
			byLine[key] = g
			all = append(all, g)
		}
		g.results = append(g.results, x)
	}
	return all
}

type groupKey struct {
	class                class
	engine, policy, rule string
	message              string
	line                 line
}

func keyOf(c class, x *policy.Result) groupKey {
	return groupKey{class: c, engine: x.Engine, policy: x.Policy, rule: x.Rule}
}

// sameMessage are results by rule and message, in order of appearance.
func sameMessage(results []*policy.Result) [][]*policy.Result {
	var all [][]*policy.Result
	index := make(map[groupKey]int)
	for _, x := range results {
		c, _ := classOf(x)
		key := keyOf(c, x)
		key.message = x.Message
		i, ok := index[key]
		if !ok {
			i, index[key] = len(all), len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], x)
	}
	return all
}

// A spot is a place with the findings of a group that are there.
type spot struct {
	render.Origin
	results []*policy.Result
}

// spots are the group's places by file and line, in order of appearance.
func (g *group) spots() []*spot {
	var all []*spot
	byLine := make(map[line]*spot)
	for _, x := range g.results {
		p := place(x)
		key := line{p.File, p.Line}
		if byLine[key] == nil {
			byLine[key] = &spot{Origin: p}
			all = append(all, byLine[key])
		}
		byLine[key].results = append(byLine[key].results, x)
	}
	return all
}

// objects are the different objects of results, in order.
func objects(results []*policy.Result) []render.Key {
	var keys []render.Key
	seen := make(map[render.Key]bool)
	for _, x := range results {
		if k := x.Object; k.Kind != "" && !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// short is an object's kind and name, and full its version too: safe to show.
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

// open says that a result counts now: nobody accepted it, and it was not there before.
func open(x *policy.Result) bool {
	return x.Suppression == nil && !x.Unreached && (x.Baseline == "" || x.Baseline == policy.New)
}

// sortedKeys sorts keys by a string of each.
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

// assumptions are the different ones of results, as many as limit.
func assumptions(results []*policy.Result, limit int) []string {
	var all []string
	for _, x := range results {
		for _, a := range x.Assumed {
			if len(all) < limit && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}
