package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// A Rehearsal describes a run that compares one tree under two sets of rules: two
// versions of the API server, or policies before and after they are enforced. Results
// that only the second set gives are new; all others are unchanged.
type Rehearsal struct {
	From string `json:"from,omitempty"` // version of Kubernetes
	To   string `json:"to,omitempty"`

	Enforced []string      `json:"enforced,omitempty"` // patterns of the policies, as given
	By       string        `json:"by,omitempty"`       // "namespace", or the label
	Rows     []EnforcedRow `json:"rows,omitempty"`     // the most failures first
}

// An EnforcedRow counts the results that would be denied in one namespace, or
// for one value of a label.
type EnforcedRow struct {
	Name     string   `json:"name"`
	Objects  int      `json:"objects"`
	Failures int      `json:"failures"`
	Policies []string `json:"policies"`
}

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
	for i := range r.Results {
		x := &r.Results[i]
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

// rehearsal writes what is rehearsed, and the counts of denials.
func (p *printer) rehearsal(r *Report) {
	h := r.Rehearsal
	if h == nil || p.Quiet {
		return
	}
	if len(h.Rows) > 0 {
		rows := [][]string{{strings.ToUpper(name(h.By)), "OBJECTS", "FAILURES", "POLICIES"}}
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

// rehearsal returns the head of a rehearsal's markdown, with the table.
func (m *markdownWriter) rehearsal() string {
	h := m.Rehearsal
	if h == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nRehearsal: " + plainText(h.title()+": "+m.outcome()) + ".\n")
	for i, row := range h.Rows {
		if i == 0 {
			b.WriteString("\n| " + plainText(name(h.By)) + " | objects | failures | policies |\n| --- | ---: | ---: | --- |\n")
		}
		if i == maxRehearsalRows {
			fmt.Fprintf(&b, "\n%d more rows are in the JSON report.\n", len(h.Rows)-i)
			break
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", cell(row.Name), row.Objects, row.Failures, cell(policyList(row)))
	}
	return b.String()
}

// maxRehearsalRows is the most rows of the table in markdown, which is part of
// the head.
const maxRehearsalRows = 50

// cell formats text for a table of markdown.
func cell(text string) string { return strings.ReplaceAll(code(name(text)), "|", "\\|") }
