package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The junit format is JUnit XML, as Jenkins, GitLab, Azure DevOps and Buildkite read it. Its shape
// is that of Jenkins' junit-10.xsd: files and lines are in texts only, and there is no time, since
// a report has none.
//
//   - A unit is a test suite. A test case is a rule's result about an object.
//     Passes are only counted.
//   - A case fails if it makes the run fail (Options.FailOn), and is in error
//     if it could not be decided. JUnit has no warnings, so a failure that does not
//     count (by its action, a suppression or the base) is skipped, with the reason.
//   - Results of a unit that need the same object, such as a Namespace, are one case.
//   - XML 1.0 has no way to write most control characters, and a reader refuses
//     the file for one of them. visible has none left.
//   - GitLab takes 30 MB. Counts count everything; of cases the worst 20,000
//     are written, and past 12 MiB without their source lines. A suite says how
//     many it leaves out.
const (
	maxCases       = 20_000
	maxCaseDetails = 12 << 20 // bytes of source lines and what belongs to them
	maxCaseMessage = 500      // bytes
)

// A verdict is the state of a test case, the worst first.
type verdict int

const (
	failure verdict = iota
	inError
	skipped
	numVerdicts
)

var verdicts = [numVerdicts]string{failure: "failure", inError: "error", skipped: "skipped"}

// A testCase is the outcome of one rule for one object.
type testCase struct {
	verdict verdict
	results selection // the worst first
}

// A suite is the test cases of a unit.
type suite struct {
	unit    string
	cases   []*testCase
	passed  int
	skipped int // by a policy's own exceptions
	counts  [numVerdicts]int
}

func (s *suite) tests() int { return len(s.cases) + s.passed + s.skipped }

type junitWriter struct {
	out     *bufio.Writer
	ids     *ruleIDs
	text    *printer
	frame   bytes.Buffer
	details int              // bytes of them written
	room    [numVerdicts]int // how many cases of each are still written
}

func writeJUnit(w io.Writer, r *Report, o Options) error {
	r = withUnits(r)
	results := newList(r)
	j := &junitWriter{out: bufio.NewWriterSize(w, 64<<10), ids: newRuleIDs(r, results)}
	j.text = newEmbedded(&j.frame, r)
	j.text.FailOn = o.FailOn
	suites := j.suites(r, results)
	var all suite
	for _, s := range suites {
		all.cases = append(all.cases, s.cases...)
		all.passed, all.skipped = all.passed+s.passed, all.skipped+s.skipped
		for v, n := range s.counts {
			all.counts[v] += n
		}
	}
	left := maxCases
	for v, n := range all.counts {
		j.room[v] = min(n, left)
		left -= j.room[v]
	}
	j.line(`<?xml version="1.0" encoding="UTF-8"?>`)
	j.line(fmt.Sprintf(`<testsuites name="preadmit" tests="%d" failures="%d" errors="%d">`, all.tests(), all.counts[failure], all.counts[inError]))
	if r.followed() {
		j.line(`<testsuite name="deployed" tests="0" failures="0" errors="0" skipped="0"><properties><property name="deployed" value="` + xmlText(r.Summary.Completeness()) + `"/></properties></testsuite>`)
	}
	if text := r.Summary.Undeployed(); text != "" {
		j.line(`<testsuite name="documents" tests="0" failures="0" errors="0" skipped="0"><properties><property name="not deployed" value="` + xmlText(text) + `"/></properties></testsuite>`)
	}
	for _, s := range suites {
		j.suite(s)
	}
	j.line(`</testsuites>`)
	return j.out.Flush()
}

// suites returns a suite for each unit of the report, and one for results without a unit, by path.
func (j *junitWriter) suites(r *Report, results *list) []*suite {
	byUnit := make(map[string]*suite)
	of := func(unit string) *suite {
		if byUnit[unit] == nil {
			byUnit[unit] = &suite{unit: unit}
		}
		return byUnit[unit]
	}
	for _, u := range r.Units {
		of(u.Identity())
	}
	unit, cases := "", make(map[caseKey]*testCase)
	for n, x := range results.all() {
		if x.Object.Unit != unit { // whose cases come one after another
			unit = x.Object.Unit
			clear(cases)
		}
		if x.Baseline != policy.Absent {
			j.file(of(unit), cases, selection{results, []uint32{n}}, x)
		}
	}
	for unit, n := range r.Passes.Units() {
		of(unit).passed += n
	}
	var suites []*suite
	for _, unit := range slices.Sorted(maps.Keys(byUnit)) {
		s := byUnit[unit]
		for _, c := range s.cases {
			s.counts[c.verdict]++
		}
		suites = append(suites, s)
	}
	return suites
}

type caseKey struct {
	rule   ruleKey
	object render.Key
	needs  string
}

// file adds the one result of a selection, x, to its suite.
func (j *junitWriter) file(s *suite, cases map[caseKey]*testCase, one selection, x *policy.Result) {
	switch x.Outcome {
	case policy.Pass:
		s.passed++
		return
	case policy.Skip:
		s.skipped++
		return
	}
	key := caseKey{rule: ruleKeyOf(x), object: x.Object}
	if needs := needsOf(x); needs != "" {
		key = caseKey{object: render.Key{Unit: x.Object.Unit}, needs: needs}
	}
	c, v := cases[key], j.verdict(x)
	switch {
	case c == nil:
		c = &testCase{verdict: v, results: one}
		cases[key] = c
		s.cases = append(s.cases, c)
	case v < c.verdict:
		c.verdict = v
		c.results.numbers = append(one.numbers, c.results.numbers...)
	default:
		c.results.numbers = append(c.results.numbers, one.numbers...)
	}
}

// needsOf names the data that an undecided result needs, if it counts and other results
// may need the same.
func needsOf(x *policy.Result) string {
	if !open(x) || !x.Undecided() || x.Object.Kind == "" {
		return ""
	}
	var needs []string
	for _, m := range x.Missing {
		needs = append(needs, strings.TrimSpace(name(m.Kind)+" "+visible(m.Name, maxMessage)))
	}
	return strings.Join(needs, ", ")
}

func (j *junitWriter) verdict(x *policy.Result) verdict {
	switch {
	case !open(x):
		return skipped
	case x.Undecided():
		return inError
	case j.text.fails(x):
		return failure
	default:
		return skipped
	}
}

func (j *junitWriter) suite(s *suite) {
	j.line(fmt.Sprintf(`<testsuite name="%s" tests="%d" failures="%d" errors="%d" skipped="%d">`,
		xmlText(unitName(s.unit)), s.tests(), s.counts[failure], s.counts[inError], s.counts[skipped]+s.skipped))
	j.line(fmt.Sprintf(`<properties><property name="passed" value="%d"/><property name="skipped by a policy" value="%d"/></properties>`, s.passed, s.skipped))
	left := 0
	for _, c := range s.cases {
		if j.room[c.verdict]--; j.room[c.verdict] < 0 {
			left++
			continue
		}
		j.testCase(c)
	}
	if left > 0 {
		j.line(`<system-out>`, policy.Plural(left, "more result"), ` of this unit are left out here; the counts include them, and the JSON report has all</system-out>`)
	}
	j.line(`</testsuite>`)
}

func unitName(unit string) string {
	if unit == "" {
		return "(no unit)"
	}
	return visible(unit, maxMessage)
}

func (j *junitWriter) testCase(c *testCase) {
	x := c.results.at(0)
	object := "(no object)"
	switch needs := needsOf(x); {
	case needs != "" && c.results.len() > 1:
		object = policy.Plural(c.results.len(), "result") + " that need " + needs
	case x.Object.Kind != "":
		object = full(x.Object)
	}
	j.line(fmt.Sprintf(`<testcase classname="%s" name="%s">`, xmlText(j.ids.id(x)), xmlText(object)))
	message := render.Cut(headlineOf(x), maxCaseMessage)
	switch why := notCounted(x); {
	case why != "":
		message = why + ": " + message
	case c.verdict == skipped:
		message = "does not fail the run: " + message
	}
	tag := verdicts[c.verdict]
	j.line(fmt.Sprintf(`<%s type="%s" message="%s">%s</%s>`, tag, wordOf(x), xmlText(message), xmlText(j.body(c)), tag))
	j.line(`</testcase>`)
}

// notCounted returns why a finding does not count, or "" if it does.
func notCounted(x *policy.Result) string {
	switch {
	case x.Suppression != nil:
		return "suppressed until " + name(x.Suppression.Expires) + " (" + prose(x.Suppression.Reason) + ")"
	case x.Unreached:
		return "nothing found here deploys its unit"
	case !open(x):
		return "there before, and unchanged"
	default:
		return ""
	}
}

// body returns everything that is known about a case, as text.
func (j *junitWriter) body(c *testCase) string {
	if j.details > maxCaseDetails {
		return ""
	}
	text := j.text.embed(&j.frame, func() {
		j.text.line()
		for i, n := range c.results.numbers {
			if i == maxSpots {
				j.text.line("and ", policy.Plural(c.results.len()-i, "more result"))
				break
			}
			j.text.finding(&group{class: mustClass(c.results.at(i)), results: selection{c.results.of, []uint32{n}}})
		}
	})
	j.details += len(text)
	return text
}

func (j *junitWriter) line(parts ...string) {
	j.out.WriteString(strings.Join(parts, ""))
	j.out.WriteByte('\n')
}

// xmlText escapes visible text for XML and HTML, in quotes too.
func xmlText(s string) string { return xmlEscapes.Replace(s) }

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")
