package suites

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/report"
)

// The elements of JUnit XML, as in Jenkins' junit-10.xsd.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure"`
		Error   *junitMessage `xml:"error"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a test suite for each file and a test case for each case. A case that could not be run, and a suite
// that can't be read, are errors. A case for which no rule ran is skipped, or fails if r is strict.
func writeJUnit(w io.Writer, r Results, _ report.Options) error {
	all := junitSuites{Name: "preadmit test"}
	for i := range r.Suites {
		s := &r.Suites[i]
		x := junitSuite{Name: s.File}
		for j := range s.Cases {
			x.Cases = append(x.Cases, junitOf(&s.Cases[j], s.File, r.Strict))
		}
		if s.Error != "" {
			x.Cases = append(x.Cases, junitCase{Class: s.File, Name: "suite", Error: &junitMessage{s.Error, s.File}})
		}
		for _, c := range x.Cases {
			x.Tests++
			switch {
			case c.Failure != nil:
				x.Failures++
			case c.Error != nil:
				x.Errors++
			case c.Skipped != nil:
				x.Skipped++
			}
		}
		all.Tests, all.Failures, all.Errors = all.Tests+x.Tests, all.Failures+x.Failures, all.Errors+x.Errors
		all.Suites = append(all.Suites, x)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(data)+"\n")
	return err
}

func junitOf(c *policytest.Case, file string, strict bool) junitCase {
	x := junitCase{Class: file, Name: fmt.Sprintf("line %d: %s", c.Line, title(c))}
	m := &junitMessage{Message: strings.TrimPrefix(verdictOn(c), ": "), Text: report.Plain(c.Reason)}
	switch {
	case c.OK && !c.Vacuous:
	case c.OK && !strict:
		m.Message = vacuous
		x.Skipped = m
	case c.OK:
		m.Message = vacuous
		x.Failure = m
	case c.Got == "":
		x.Error = m
	default:
		x.Failure = m
	}
	return x
}
