package report

import "io"

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
