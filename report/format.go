package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// A Format writes a T: a report, explanations, policies or coverage.
type Format[T any] struct {
	Name string
	Doc  string // for whom, in a few words
	// Write writes the same bytes for the same value, and does not change it.
	// Its error is the writer's, or names the option that the format rejects.
	Write func(io.Writer, T, Options) error
}

// FormatList lists the formats of a T. Help, completion and errors use it.
type FormatList[T any] []Format[T]

// Names returns the names of the formats, in order.
func (f FormatList[T]) Names() []string {
	names := make([]string, len(f))
	for i, at := range f {
		names[i] = at.Name
	}
	return names
}

// Write writes v in the format with that name. If there is none, the error lists
// the names.
func (f FormatList[T]) Write(w io.Writer, name string, v T, o Options) error {
	for _, form := range f {
		if form.Name == name {
			return form.Write(w, v, o)
		}
	}
	return fmt.Errorf("unknown output format %q: there are %s", name, strings.Join(f.Names(), ", "))
}

// Options are the settings of formats. The zero value is the default. A format
// ignores settings of others.
type Options struct {
	Color      bool          // text: use ANSI colours
	Hyperlinks string        // text: URL of the tree's root that places link to (OSC 8); "" is none
	Width      int           // text: columns at which lines break; with 0 lists break at 100, and other texts do not
	Statistics bool          // text: number of violations by rule, instead of the findings
	Verbose    bool          // text: include passes, suppressed and unchanged results, and every object
	Quiet      bool          // text: only findings that fail the run or were not evaluated
	FailOn     policy.Action // text, junit: the least action that fails the run; "" is deny, "never" none
	Category   string        // sarif: automationDetails.id; "" is "preadmit/"
	Links      string        // markdown, html: URL of the tree's root at a web page, which places lead to; "" is none
	Limit      int           // markdown: the most bytes, at least MinMarkdown; 0 is MaxMarkdown
}

// Formats lists the formats of a report.
var Formats = FormatList[*Report]{
	{"text", "for people: every finding with its source line", writeText},
	{"concise", "for editors and grep: a line for each finding, FILE:LINE:COLUMN: MESSAGE [RULE]", writeConcise},
	{"json", "for programs: everything, and the input of convert and triage", writeJSON},
	{"sarif", "for GitHub code scanning and editors (SARIF 2.1.0)", writeSARIF},
	{"markdown", "for GitHub job summaries and comments, 900 KiB at most", writeMarkdown},
	{"github", "for GitHub Actions: annotations of the ten worst errors, warnings and notices, and a log", writeGitHub},
	{"junit", "for Jenkins, GitLab and others that show tests (JUnit XML): a suite a unit", writeJUnit},
	{"gitlab", "for GitLab merge requests (Code Quality)", writeGitLab},
	{"html", "for a browser, alone: one page that needs neither network nor scripts", writeHTML},
	{"policyreport", "for Kyverno's dashboards: PolicyReport and ClusterPolicyReport objects (wgpolicyk8s.io/v1alpha2)", writePolicyReport},
}

// noted returns the report with a note if it is one part of a run. The JSON
// format has a field for it.
func (r *Report) noted(format string) *Report {
	if r.Shard == nil || format == "json" {
		return r
	}
	noted := *r
	noted.Notes = append([]string{r.Shard.note()}, r.Notes...)
	return &noted
}

// Write writes r in the named format, with the notes that the format needs. If
// there is no such format, the error lists the names.
func Write(w io.Writer, name string, r *Report, o Options) error {
	return Formats.Write(w, name, r.noted(name), o)
}
