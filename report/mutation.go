package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// MutationSchema names the version of the JSON of test --mutate.
const MutationSchema = "preadmit.mutation/v1"

// A Mutation lists the mutants of policies and whether their tests noticed.
type Mutation struct {
	Schema   string          `json:"schema"`
	Tool     Tool            `json:"tool"`
	Summary  MutationCount   `json:"summary"`
	Policies []MutatedPolicy `json:"policies"`
	Mutants  []policy.Mutant `json:"mutants"` // sorted by their places
}

// A MutationCount counts mutants by outcome.
type MutationCount struct {
	Mutants    int `json:"mutants"` // without equivalent and invalid ones
	Killed     int `json:"killed"`
	TimedOut   int `json:"timedOut"`
	Survived   int `json:"survived"`
	NotCovered int `json:"notCovered"`
	NotTried   int `json:"notTried"`
	Equivalent int `json:"equivalent"`
	Invalid    int `json:"invalid"`

	// Score is the percentage of tried mutants that tests noticed, by a failure or
	// by running out of time. It is 0 if none was tried.
	Score float64 `json:"score"`
	// CoveredScore leaves out mutants that no test evaluates.
	CoveredScore float64 `json:"coveredScore"`
}

func (m *MutationCount) add(s policy.MutantStatus) {
	switch s {
	case policy.MutantEquivalent:
		m.Equivalent++
		return
	case policy.MutantInvalid:
		m.Invalid++
		return
	case policy.MutantKilled:
		m.Killed++
	case policy.MutantTimedOut:
		m.TimedOut++
	case policy.MutantNotCovered:
		m.NotCovered++
	case policy.MutantNotTried:
		m.NotTried++
	default:
		m.Survived++
	}
	m.Mutants++
	covered := m.Killed + m.TimedOut + m.Survived
	m.Score, m.CoveredScore = share(m.Killed+m.TimedOut, covered+m.NotCovered), share(m.Killed+m.TimedOut, covered)
}

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

// A MutatedPolicy counts the mutants of one policy.
type MutatedPolicy struct {
	Policy string `json:"policy"`
	File   string `json:"file"`
	MutationCount
}

// NewMutation makes the report of mutants, which are sorted by their places.
func NewMutation(tool Tool, mutants []policy.Mutant) *Mutation {
	m := &Mutation{Schema: MutationSchema, Tool: tool, Policies: []MutatedPolicy{}, Mutants: nonNil(mutants)}
	at := make(map[[2]string]int)
	for i := range m.Mutants {
		x := &m.Mutants[i]
		key := [2]string{x.Origin.File, x.Policy}
		k, ok := at[key]
		if !ok {
			k = len(m.Policies)
			at[key] = k
			m.Policies = append(m.Policies, MutatedPolicy{Policy: x.Policy, File: x.Origin.File})
		}
		m.Policies[k].add(x.Status)
		m.Summary.add(x.Status)
	}
	return m
}

// MutationFormats lists the formats of a Mutation.
var MutationFormats = FormatList[*Mutation]{
	{"text", "for people: a line for each policy, and the mutants that no test noticed", writeMutationText},
	{"json", "for programs: every mutant", func(w io.Writer, m *Mutation, _ Options) error { return WriteValue(w, m) }},
	{"markdown", "for GitHub job summaries and comments", writeMutationMarkdown},
}

var mutationColumns = []string{"POLICY", "MUTANTS", "KILLED", "SURVIVED", "NOT COVERED", "TIMED OUT", "NOT TRIED", "SCORE"}

func mutationCells(p *MutatedPolicy) []string {
	row := []string{name(p.Policy)}
	for _, n := range []int{p.Mutants, p.Killed, p.Survived, p.NotCovered, p.TimedOut, p.NotTried} {
		row = append(row, strconv.Itoa(n))
	}
	return append(row, p.score())
}

// score formats the score.
func (m *MutationCount) score() string {
	if m.Mutants == m.NotTried {
		return "-"
	}
	return strconv.FormatFloat(m.Score, 'f', 1, 64)
}

// String formats the count in one line.
func (m *MutationCount) String() string {
	if m.Mutants+m.Equivalent+m.Invalid == 0 {
		return "the tests compile no policy that can be changed"
	}
	text := fmt.Sprintf("%s: %d killed, %d survived, %d not covered", policy.Plural(m.Mutants, "mutant"), m.Killed, m.Survived, m.NotCovered)
	for _, more := range []struct {
		n    int
		what string
	}{{m.TimedOut, "timed out"}, {m.NotTried, "not tried for lack of time"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	if m.Mutants == m.NotTried {
		return text + "; no score"
	}
	text += "; score " + m.score() + "%"
	if m.NotCovered > 0 {
		text += fmt.Sprintf(" (%.1f%% of those that a test evaluates)", m.CoveredScore)
	}
	if left := m.Equivalent + m.Invalid; left > 0 {
		text += fmt.Sprintf("; left out: %d equivalent, %d that do not compile", m.Equivalent, m.Invalid)
	}
	return text
}

// unnoticed returns the mutants that tests should notice: those that survived,
// and those that no test evaluates.
func (m *Mutation) unnoticed() (survived, uncovered []*policy.Mutant) {
	for i := range m.Mutants {
		switch x := &m.Mutants[i]; x.Status {
		case policy.MutantSurvived:
			survived = append(survived, x)
		case policy.MutantNotCovered:
			uncovered = append(uncovered, x)
		}
	}
	return survived, uncovered
}

func writeMutationText(w io.Writer, m *Mutation, o Options) error {
	p := &printer{Options: o, out: bufio.NewWriterSize(w, 64<<10)}
	p.Width = cmp.Or(p.Width, defaultWidth)
	if len(m.Policies) > 0 {
		rows := [][]string{mutationColumns}
		for i := range m.Policies {
			rows = append(rows, mutationCells(&m.Policies[i]))
		}
		p.columns(rows, 1, len(mutationColumns), func(n int) string {
			if c := m.Policies[n]; c.Survived+c.NotCovered > 0 {
				return yellow
			}
			return green
		})
	}
	survived, uncovered := m.unnoticed()
	for _, x := range survived {
		p.mutant(x)
		for _, l := range x.Diff {
			p.line("  ", diffLine(l))
		}
		if x.Vacuous {
			p.line("  a test no longer runs any rule, and passes: --strict fails it")
		}
		p.line()
	}
	for _, x := range uncovered {
		p.mutant(x)
	}
	if len(uncovered) > 0 {
		p.line()
	}
	p.remark("mutation", m.Summary.String())
	return p.out.Flush()
}

// mutant writes a mutant: its place, its outcome, the change and the rule.
func (p *printer) mutant(x *policy.Mutant) {
	status := strings.ReplaceAll(string(x.Status), "-", " ")
	p.line(visible(x.Origin.String(), maxMessage), ": ", p.paint(red, status), ": ", x.Mutator, ": ", prose(x.Change), " [", name(ruleOf(x)), "]")
}

// diffLine returns a line of a diff without control characters.
func diffLine(l string) string { return visible(strings.ReplaceAll(l, "\t", "    "), maxMessage) }

func ruleOf(x *policy.Mutant) string {
	if x.Rule == "" {
		return x.Policy
	}
	return x.Policy + "/" + x.Rule
}

// writeMutationMarkdown writes as many mutants as a job summary may hold.
func writeMutationMarkdown(w io.Writer, m *Mutation, o Options) error {
	limit := MaxMarkdown
	if o.Limit > 0 {
		limit = max(MinMarkdown, min(o.Limit, MaxMarkdown))
	}
	var b strings.Builder
	b.WriteString("## preadmit test --mutate\n\n" + plainText(m.Summary.String()) + ".\n")
	if len(m.Policies) > 0 {
		b.WriteString("\n| " + strings.Join(mutationColumns, " | ") + " |\n| --- |" + strings.Repeat(" ---: |", len(mutationColumns)-1) + "\n")
	}
	for i := range m.Policies {
		if i == maxPolicyRows || b.Len() > limit/2 {
			fmt.Fprintf(&b, "\n%d more policies are in the JSON report.\n", len(m.Policies)-i)
			break
		}
		row := mutationCells(&m.Policies[i])
		row[0] = cell(row[0])
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	survived, uncovered := m.unnoticed()
	left := 0
	for _, x := range append(survived, uncovered...) {
		var one strings.Builder
		fmt.Fprintf(&one, "\n%s %s: %s %s\n", code(visible(x.Origin.String(), maxMessage)), strings.ReplaceAll(string(x.Status), "-", " "), x.Mutator, code(name(ruleOf(x))))
		one.WriteString("\n```diff\n")
		for _, l := range x.Diff {
			one.WriteString(strings.ReplaceAll(diffLine(l), "```", "'''") + "\n")
		}
		one.WriteString("```\n")
		if b.Len()+one.Len() > limit-200 {
			left++
			continue
		}
		b.WriteString(one.String())
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%d more mutants are in the JSON report.\n", left)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	for line := range strings.Lines(b.String()) {
		out.WriteString(guard(line))
	}
	return out.Flush()
}
