package report

import (
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

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
		x := &sorted[i]
		if x.Baseline == policy.Absent {
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
