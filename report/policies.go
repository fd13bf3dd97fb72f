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

// PoliciesSchema names the version of the JSON of preadmit policies.
const PoliciesSchema = "preadmit.policies/v1"

// Policies is the report of the command policies: how the rules of a
// repository's policies evaluated its objects, and problems in the policies.
type Policies struct {
	Schema   string          `json:"schema"`
	Tool     Tool            `json:"tool"`
	Summary  PoliciesSummary `json:"summary"`
	Rules    []*policy.Use   `json:"rules"`    // sorted by engine, policy and place
	Findings []policy.Result `json:"findings"` // in the report's order
	Notes    []string        `json:"notes"`

	run *Report // for the formats that show findings as check does
}

// Run returns the findings as a report, for an editor.
func (p *Policies) Run() *Report { return p.run }

// PoliciesSummary counts rules, and findings.
type PoliciesSummary struct {
	Objects   int `json:"objects"` // of the repository
	Policies  int `json:"policies"`
	Rules     int `json:"rules"`
	Unmatched int `json:"unmatched"` // rules that match no object
	WouldDeny int `json:"wouldDeny"` // failures that are only warned about or audited
	Findings  int `json:"findings"`
	Unused    int `json:"unused"` // findings that something has no effect
	Undecided int `json:"undecided"`
}

// NewPolicies makes the report from a run. It counts only rules of policies.
// findings become the report's results.
func NewPolicies(run *Report, rules []*policy.Use, findings []policy.Result) *Policies {
	p := &Policies{Schema: PoliciesSchema, Tool: run.Tool, Rules: nonNil(rules), Findings: nonNil(findings), Notes: nonNil(run.Notes)}
	policies := make(map[[2]string]bool)
	for _, u := range rules {
		policies[[2]string{u.Engine, u.Policy}] = true
		p.Summary.WouldDeny += u.WouldDeny
		if u.Matched == 0 {
			p.Summary.Unmatched++
		}
	}
	for i := range p.Findings {
		p.Findings[i] = *whole(p.Findings[i])
		switch {
		case p.Findings[i].Undecided():
			p.Summary.Undecided++
		case p.Findings[i].Unused():
			p.Summary.Unused++
		}
	}
	p.Summary.Objects, p.Summary.Policies, p.Summary.Rules, p.Summary.Findings = run.Summary.Objects, len(policies), len(rules), len(findings)
	shown := *run
	shown.Results, shown.Rules, shown.Units = p.Findings, findingRules(p.Findings), []Unit{}
	p.run = &shown
	return p
}

// findingRules documents the rules of findings.
func findingRules(findings []policy.Result) []policy.Rule {
	var rules []policy.Rule
	seen := make(map[[2]string]bool)
	for i := range findings {
		f := &findings[i]
		for _, k := range policy.FindingKinds {
			if f.Engine == policy.EnginePolicies && f.Rule == k.Name && !seen[[2]string{f.Policy, f.Rule}] {
				seen[[2]string{f.Policy, f.Rule}] = true
				rules = append(rules, policy.Rule{
					Engine: f.Engine, Policy: f.Policy, Name: f.Rule, Action: k.Action, Title: k.Title, Description: k.Title, Help: k.Help, Origin: f.PolicyOrigin,
				})
			}
		}
	}
	return rules
}

// PoliciesFormats lists the formats of Policies.
var PoliciesFormats = FormatList[*Policies]{
	{"text", "for people: a table of rules, and each finding with its source line", writePoliciesText},
	{"json", "for programs: everything", writePoliciesJSON},
	{"sarif", "for GitHub code scanning: the findings on the policies' lines", func(w io.Writer, p *Policies, o Options) error {
		o.Category = cmp.Or(o.Category, "preadmit-policies/")
		return writeSARIF(w, p.run, o)
	}},
	{"markdown", "for an issue or a pull request", writePoliciesMarkdown},
}

func writePoliciesJSON(w io.Writer, p *Policies, _ Options) error {
	j := newJSONWriter(w)
	j.text("{\n  \"schema\": ")
	j.value(p.Schema)
	j.text(",\n  \"tool\": ")
	j.value(p.Tool)
	j.text(",\n  \"summary\": ")
	j.value(p.Summary)
	j.text(",\n  \"rules\": ")
	elements(j, p.Rules, func(u **policy.Use) any { return *u })
	j.text(",\n  \"findings\": ")
	elements(j, p.Findings, func(r *policy.Result) any { return r })
	j.text(",\n  \"notes\": ")
	elements(j, p.Notes, func(n *string) any { return *n })
	j.text("\n}\n")
	return j.flush()
}

// policyColumns head the table of rules.
var policyColumns = []string{"POLICY/RULE", "ACTION", "MATCHED", "EXEMPT", "PASSED", "FAILED", "UNDECIDED", "WOULD DENY", "AT"}

// ruleCells returns a rule's row of the table. A zero is written as a dash, so that
// other counts stand out.
func ruleCells(u *policy.Use) []string {
	row := []string{useName(u), cmp.Or(string(u.Action), "-")}
	for _, n := range []int{u.Matched, u.Exempted, u.Passed, u.Failed, u.Undecided, u.WouldDeny} {
		cell := strconv.Itoa(n)
		if n == 0 {
			cell = "-"
		}
		row = append(row, cell)
	}
	at := u.Origin
	at.Column, at.EndLine, at.EndColumn = 0, 0, 0
	return append(row, visible(inFetched(at.String()), maxMessage))
}

func useName(u *policy.Use) string {
	if u.Rule == "" || u.Rule == u.Policy {
		return name(u.Policy)
	}
	return name(u.Policy) + "/" + name(u.Rule)
}

func writePoliciesText(w io.Writer, p *Policies, o Options) error {
	t := &printer{Options: o, out: bufio.NewWriterSize(w, 64<<10), src: newSource(p.run)}
	t.wrap = t.Width > 0
	t.Width = cmp.Or(t.Width, defaultWidth)
	if !o.Quiet {
		t.table(p.Rules)
	}
	for _, g := range groups(newList(p.run), func(x *policy.Result) bool { return true }) {
		t.finding(g)
	}
	if !o.Quiet {
		t.remark("policies", p.Summary.String())
		for _, n := range p.Notes {
			t.remark("note", prose(n))
		}
	}
	return t.out.Flush()
}

// table writes the rules in columns.
func (p *printer) table(rules []*policy.Use) {
	if len(rules) == 0 {
		return
	}
	rows := [][]string{policyColumns}
	for _, u := range rules {
		rows = append(rows, ruleCells(u))
	}
	p.columns(rows, 2, len(policyColumns)-1, func(n int) string {
		if rules[n].Matched == 0 {
			return yellow
		}
		return ""
	})
}

// String formats the summary in one line.
func (p PoliciesSummary) String() string {
	text := policy.Plural(p.Rules, "rule") + " of " + policies(p.Policies) + " over " + policy.Plural(p.Objects, "object")
	if p.Unmatched > 0 {
		text += "; " + policy.Plural(p.Unmatched, "rule") + " without a match"
	}
	if p.WouldDeny > 0 {
		text += "; " + policy.Plural(p.WouldDeny, "failure") + " would be denied if enforced"
	}
	return text + "; " + policy.Plural(p.Findings, "finding")
}

// maxPolicyRows bounds the table in markdown.
const maxPolicyRows = 1000

func writePoliciesMarkdown(w io.Writer, p *Policies, o Options) error {
	m := &markdownWriter{digest: newDigest(p.run), limit: MaxMarkdown, links: newLinks(o, p.run)}
	if o.Limit > 0 {
		m.limit = max(MinMarkdown, min(o.Limit, MaxMarkdown))
	}
	m.text = newEmbedded(&m.frame, p.run)
	m.text.repeated = m.repeated
	table := m.policyTable(p.Rules)
	m.findings("In error", shareBroken, m.found[broken])
	m.findings("Not decided", shareUndecided, m.found[undecided])
	m.findings("Wrong or without effect", shareWarned, m.found[warned])
	m.findings("Worth a look", shareAudited, m.found[audited])
	m.notes()
	allot(m.limit-markdownTitles-len(table), m.sections)
	var body strings.Builder
	for _, s := range m.sections {
		m.write(&body, s)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	for line := range strings.Lines("## preadmit policies\n\n" + plainText(p.Summary.String()) + ".\n" + table + body.String()) {
		out.WriteString(guard(line))
	}
	return out.Flush()
}

// policyTable returns the table of those rules that fit into half of the limit.
func (m *markdownWriter) policyTable(rules []*policy.Use) string {
	if len(rules) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| " + strings.Join(policyColumns, " | ") + " |\n|" + strings.Repeat(" --- |", 2) + strings.Repeat(" ---: |", 6) + " --- |\n")
	for i, u := range rules {
		if i == maxPolicyRows || b.Len() > m.limit/2 {
			fmt.Fprintf(&b, "\n%d more rules are in the JSON report.\n", len(rules)-i)
			break
		}
		row := ruleCells(u)
		row[0], row[1] = code(row[0]), plainText(row[1])
		row[len(row)-1] = ""
		if u.Origin.File != "" {
			row[len(row)-1] = placeLink(u.Origin, m.links.to(u.Origin))
		}
		b.WriteString("| " + strings.ReplaceAll(strings.Join(row, " \x00 "), "|", "\\|") + " |\n")
	}
	return strings.ReplaceAll(b.String(), "\x00", "|")
}
