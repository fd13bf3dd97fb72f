package suites

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/report"
)

// Results are the results of suites.
type Results struct {
	*policytest.Report
	Strict bool `json:"-"` // cases for which no rule ran are failures
}

// Formats lists the formats of the results of suites.
var Formats = report.FormatList[Results]{
	{Name: "text", Doc: "for people: a line for each case", Write: writeText},
	{Name: "json", Doc: "for programs: everything", Write: func(w io.Writer, r Results, _ report.Options) error { return report.WriteValue(w, r.Report) }},
	{Name: "junit", Doc: "for CI systems: JUnit XML", Write: writeJUnit},
}

func writeText(w io.Writer, r Results, o report.Options) error {
	p := printer{out: bufio.NewWriter(w), Options: o, strict: r.Strict}
	p.results(r.Report)
	return p.out.Flush()
}

// A printer writes the outcome of suites for people.
type printer struct {
	out *bufio.Writer
	report.Options
	strict bool
}

func (p *printer) line(format string, args ...any) { report.Line(p.out, format, args...) }

func (p *printer) results(r *policytest.Report) {
	for i := range r.Suites {
		p.suite(&r.Suites[i])
	}
	unmatched := 0
	for i := range r.Suites {
		for _, c := range r.Suites[i].Cases {
			if c.Unmatched {
				unmatched++
			}
		}
	}
	if unmatched > 0 && !p.Quiet {
		p.line("note: on a cluster, the requests of %d cases would not match their policy (-v says why)", unmatched)
	}
	s := r.Summary
	p.line("%s, %s: %d passed, %d failed, %s, %d vacuous", policy.Plural(s.Suites, "suite"), policy.Plural(s.Cases, "case"), s.Passed, s.Failed, policy.Plural(s.Errors, "error"), s.Vacuous)
}

func (p *printer) suite(s *policytest.Suite) {
	kind := cmp.Or(s.Kind, "no suite")
	p.line("%s (%s)", s.File, kind)
	for i := range s.Cases {
		p.testCase(&s.Cases[i])
	}
	for _, line := range strings.FieldsFunc(s.Error, func(c rune) bool { return c == '\n' }) {
		p.line("  ERROR   %s", line)
	}
	if p.Verbose {
		for _, n := range s.Notes {
			p.line("  note: %s", n)
		}
	}
	p.line("")
}

func (p *printer) testCase(c *policytest.Case) {
	bad := !c.OK || p.strict && c.Vacuous
	if !bad && p.Quiet {
		return
	}
	p.line("  %-7s line %d: %s", p.word(c), c.Line, title(c)+verdictOn(c))
	if c.Reason != "" && (bad || p.Verbose) {
		p.line("          %s", c.Reason)
	}
	if c.Vacuous {
		p.line("          %s", vacuous)
	}
	if bad || p.Verbose {
		for _, n := range c.Notes {
			p.line("          note: %s", n)
		}
	}
}

const vacuous = "no rule of the policy ran on it, so this says nothing"

// title names a case: its name in the suite, the rule and the object.
func title(c *policytest.Case) string {
	rule := c.Policy
	if c.Rule != "" && c.Rule != c.Policy {
		rule += "/" + c.Rule
	}
	if c.Name != "" {
		rule = c.Name + ": " + rule
	}
	if s := subject(c); s != "" {
		rule += ": " + s
	}
	return rule
}

func (p *printer) word(c *policytest.Case) string {
	switch {
	case c.OK && c.Vacuous:
		return "VACUOUS"
	case c.OK:
		return "ok"
	case c.Got == "":
		return "ERROR"
	default:
		return "FAIL"
	}
}

func subject(c *policytest.Case) string {
	words := slices.DeleteFunc([]string{c.Operation, c.Kind, c.Resource}, func(w string) bool { return w == "" })
	return strings.Join(words, " ")
}

func verdictOn(c *policytest.Case) string {
	switch {
	case c.OK && (c.Got == c.Want || !c.Vacuous):
		return ": " + c.Got
	case c.Got == "":
		return ": want " + c.Want + ", not run"
	case c.Got == c.Want:
		return ": " + c.Got + ", but not as expected"
	default:
		return ": want " + c.Want + ", got " + c.Got
	}
}
