package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// Add counts a row, which may be of a name that has one already.
func (r *Rehearsal) Add(row EnforcedRow) {
	i := slices.IndexFunc(r.Rows, func(of EnforcedRow) bool { return of.Name == row.Name })
	if i < 0 {
		i, r.Rows = len(r.Rows), append(r.Rows, EnforcedRow{Name: row.Name})
	}
	of := &r.Rows[i]
	of.Objects, of.Failures = of.Objects+row.Objects, of.Failures+row.Failures
	of.Policies = slices.Concat(of.Policies, row.Policies)
	slices.Sort(of.Policies)
	of.Policies = slices.Compact(of.Policies)
	slices.SortFunc(r.Rows, func(a, b EnforcedRow) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), strings.Compare(a.Name, b.Name))
	})
}

// title describes the rehearsal in one line.
func (r *Rehearsal) title() string {
	if r.To != "" {
		return "upgrade from Kubernetes " + r.From + " to " + r.To
	}
	var names []string
	for _, n := range r.Enforced {
		names = append(names, name(n))
	}
	return "enforcing " + strings.Join(names, ", ")
}

// outcome says how many results the rehearsed change adds.
func (r *Report) outcome() string {
	if r.Rehearsal.To == "" {
		objects, failures := 0, 0
		for _, row := range r.Rehearsal.Rows {
			objects, failures = objects+row.Objects, failures+row.Failures
		}
		return policy.Plural(objects, "object") + " would be denied, by " + policy.Plural(failures, "failure")
	}
	refused, changed, allowed, deprecated := 0, 0, 0, 0
	for x := range r.Others() {
		c, finding := classOf(x)
		switch {
		case !finding:
		case x.Engine == policy.EngineSchema && x.Rule == policy.DeprecatedVersion:
			deprecated++
		case x.Engine == policy.EngineUpgrade:
			changed++
		case x.Baseline == policy.Absent:
			allowed++
		case open(x) && c == denied:
			refused++
		}
	}
	return fmt.Sprintf("%d newly refused, %d changed, %d newly allowed, %d deprecated", refused, changed, allowed, deprecated)
}

// fixedWord returns the word for failures that only the first run has.
func (r *Report) fixedWord() string {
	if r.Rehearsal != nil && r.Rehearsal.To != "" {
		return "newly allowed"
	}
	return "fixed"
}

// rehearsal writes the change that is rehearsed, and the counts of denials.
func (p *printer) rehearsal(r *Report) {
	h := r.Rehearsal
	if h == nil || p.Quiet {
		return
	}
	if len(h.Rows) > 0 {
		rows := [][]string{{"NAMESPACE", "OBJECTS", "FAILURES", "POLICIES"}}
		for _, row := range h.Rows {
			rows = append(rows, []string{name(row.Name), strconv.Itoa(row.Objects), strconv.Itoa(row.Failures), policyList(row)})
		}
		p.columns(rows, 1, 3, func(int) string { return "" })
	}
	p.remark("rehearsal", h.title()+": "+r.outcome())
}

func policyList(row EnforcedRow) string {
	var names []string
	for i, n := range row.Policies {
		if i == maxNames {
			names = append(names, unlisted(len(row.Policies)-i))
			break
		}
		names = append(names, name(n))
	}
	return strings.Join(names, ", ")
}
