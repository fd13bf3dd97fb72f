package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render/rendertest"
)

const gatekeeperCorpora = "../../../shared/corpora/upstream/"

// needProgram is the program that a variable names, or that is on PATH;
// without it the test is skipped.
func needProgram(t testing.TB, variable, name string) string {
	t.Helper()
	if p := os.Getenv(variable); p != "" {
		return p
	}
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s does not name %s, and it is not on PATH", variable, name)
	}
	return p
}

// runProgram returns what a program prints, also when it fails.
func runProgram(t testing.TB, dir, program string, args ...string) (out, errOut []byte) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var b strings.Builder
	cmd.Stderr = &b
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out, []byte(b.String())
}

// TestGatorSuites runs the published suites of Gatekeeper and its library:
// every case passes there.
func TestGatorSuites(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"gatekeeper", "gatekeeper-library"} {
		rendertest.SkipWithout(t, gatekeeperCorpora+part)
		r := testedAll(t, gatekeeperCorpora+part)
		right := 0
		for _, s := range r.Suites {
			if s.Error != "" || s.Kind != "gator" {
				t.Errorf("%s (%s): %s", s.File, s.Kind, s.Error)
			}
			for _, c := range s.Cases {
				if c.Vacuous != (part == "gatekeeper" && strings.Contains(c.Name, "without-gator-EP/")) {
					t.Errorf("%s: %s: vacuous %v: %s", s.File, c.Name, c.Vacuous, c.Reason)
				}
				if c.OK {
					right++
					continue
				}
				t.Logf("difference: %s:%d: %s on %s %s: want %s, got %q: %s", s.File, c.Line, c.Name, c.Kind, c.Resource, c.Want, c.Got, c.Reason)
			}
		}
		t.Logf("table gator suites of %s: %d / %d", part, right, r.Summary.Cases)
		if least := map[string]int{"gatekeeper": 9, "gatekeeper-library": 302}[part]; right < least {
			t.Errorf("%s: %d cases are right, published are %d", part, right, least)
		}
	}
}

// TestGatorSuitesOracle holds every case of the published suites against what
// gator says about it.
func TestGatorSuitesOracle(t *testing.T) {
	t.Parallel()
	gator := needProgram(t, "PREADMIT_GATOR", "gator")
	for _, part := range []string{"gatekeeper", "gatekeeper-library"} {
		rendertest.SkipWithout(t, gatekeeperCorpora+part)
		compareSuites(t, gator, gatekeeperCorpora+part)
	}
}

// A gatorVerdict is what gator verify says about a case, or of a test that it
// could not run.
type gatorVerdict struct {
	test, name string // name is "" of a test
	word       string // PASS, FAIL
	text       string
}

var gatorLine = regexp.MustCompile(`^( *)(?:--- (PASS|FAIL): |=== (SKIP|RUN) +)([^\t]*)`)

// askVerify returns what gator verify says about the suites below dir, by file.
func askVerify(t *testing.T, gator, dir string) map[string][]gatorVerdict {
	t.Helper()
	out, errOut := runProgram(t, dir, gator, "verify", "./...", "-v")
	all := make(map[string][]gatorVerdict)
	var now []gatorVerdict
	test := ""
	for line := range strings.SplitSeq(string(out), "\n") {
		if word, rest, ok := strings.Cut(line, "\t"); ok && (word == "ok" || word == "FAIL") {
			file, _, _ := strings.Cut(rest, "\t")
			all[filepath.Clean(strings.TrimPrefix(file, "."))] = now
			now = nil
			continue
		}
		m := gatorLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			if len(now) > 0 {
				now[len(now)-1].text += strings.TrimSpace(line) + "\n"
			}
		case m[3] == "RUN" && m[1] == "":
			test = m[4]
		case m[3] != "":
		case m[1] == "":
			now = append(now, gatorVerdict{test: m[4], word: m[2]})
		default:
			now = append(now, gatorVerdict{test: test, name: m[4], word: m[2]})
		}
	}
	if len(all) == 0 {
		t.Fatalf("gator verify says nothing: %s", errOut)
	}
	return all
}

// compareSuites runs the suites below dir here and with gator, and holds case
// against case. It returns how many are the same.
func compareSuites(t *testing.T, gator, dir string) (same int) {
	t.Helper()
	theirs := askVerify(t, gator, dir)
	r := testedAll(t, dir)
	if len(r.Suites) != len(theirs) {
		t.Errorf("%d suites here, %d of gator", len(r.Suites), len(theirs))
	}
	total := 0
	for i := range r.Suites {
		s := &r.Suites[i]
		verdicts := verdictsOf(theirs, s.File)
		if verdicts == nil {
			t.Errorf("%s: gator does not run it", s.File)
			continue
		}
		n, differences := compareSuite(s, verdicts)
		same += n
		total += n + len(differences)
		for _, d := range differences {
			t.Errorf("difference: %s: %s", s.File, d)
		}
	}
	t.Logf("table gator verify beside it, %s: %d / %d", filepath.Base(dir), same, total)
	return same
}

// verdictsOf are those of the suite whose path ends in the file's.
func verdictsOf(all map[string][]gatorVerdict, file string) []gatorVerdict {
	for name, v := range all {
		if strings.HasSuffix(name, "/"+strings.TrimPrefix(file, "./")) {
			return v
		}
	}
	return nil
}

// compareSuite holds cases by their names, in order.
func compareSuite(s *policytest.Suite, verdicts []gatorVerdict) (same int, differences []string) {
	byName := make(map[string][]*policytest.Case)
	for i := range s.Cases {
		c := &s.Cases[i]
		byName[c.Name] = append(byName[c.Name], c)
	}
	cases := make(map[string]bool)
	for _, v := range verdicts {
		name := strings.Trim(v.test+"/"+v.name, "/")
		switch {
		case v.name != "":
			cases[v.test] = true
		case cases[v.test]: // its cases were held
			continue
		case v.word == "FAIL": // all of its cases fail
			for _, c := range s.Cases {
				if strings.HasPrefix(c.Name, v.test+"/") && c.OK {
					differences = append(differences, fmt.Sprintf("%s passes, and gator refuses the test: %s", c.Name, v.text))
				}
			}
			if len(byName[name]) == 0 {
				same++
				continue
			}
		}
		if len(byName[name]) == 0 {
			differences = append(differences, name+" is not there: "+v.word)
			continue
		}
		c := byName[name][0]
		byName[name] = byName[name][1:]
		switch d := compareCase(c, v); {
		case d == "":
			same++
		case gatorReason(v) == "":
			differences = append(differences, d)
		}
	}
	return same, differences
}

// gatorReason is why a difference is meant to be; "" where it is not.
func gatorReason(v gatorVerdict) string {
	if strings.Contains(v.text, "constraint should have failed schema validation: got error invalid Constraint: ") {
		return "gator looks at match before it looks at the schema, and then says that the constraint is invalid in another way"
	}
	return ""
}

var gatorMessages = regexp.MustCompile(`(?s)got messages \[(.*)\]\s*$`)

// compareCase holds the verdict and, where gator tells them, the messages.
func compareCase(c *policytest.Case, v gatorVerdict) string {
	if c.OK != (v.word == "PASS") {
		return fmt.Sprintf("%s: %s here (%s: %s), %s of gator: %s", c.Name, map[bool]string{true: "ok", false: "not"}[c.OK], c.Got, c.Reason, v.word, v.text)
	}
	m := gatorMessages.FindStringSubmatch(v.text)
	if m == nil || c.Got == "" {
		if m != nil {
			return fmt.Sprintf("%s: could not be run here (%s), of gator: %s", c.Name, c.Reason, v.text)
		}
		return ""
	}
	theirs := sortedWords(m[1])
	ours := sortedWords(strings.ReplaceAll(c.Reason, "; ", " "))
	if c.Vacuous {
		ours = ""
	}
	if ours != theirs {
		return fmt.Sprintf("%s: messages here\n  %s\nof gator\n  %s", c.Name, c.Reason, m[1])
	}
	return ""
}

func sortedWords(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// toJSON is a value as YAML can be read by everybody.
func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // of a test's own literals
	}
	return string(data)
}
