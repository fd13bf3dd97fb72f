package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCases runs the published small cases and compares exit codes and texts with testdata/cases.tsv:
// a case, the flags of check, the exit codes that are right, and regular expressions of the output, those
// that must not match with a ! in front. `make conformance` runs it, for bin/preadmit.
func TestCases(t *testing.T) {
	if os.Getenv("PREADMIT_CONFORMANCE") == "" {
		t.Skip("starts hundreds of processes: make conformance does it")
	}
	const dir = "../../../shared/cases"
	if _, err := os.Stat(filepath.Join(dir, "run")); err != nil {
		t.Skipf("%s is absent", dir)
	}
	right, total := make(map[string]int), make(map[string]int)
	var areas []string
	lines := bufio.NewScanner(bytes.NewReader(rendertest.ReadFile(t, "../../testdata/cases.tsv")))
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if f[0] == "" || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 3 {
			t.Fatalf("cases.tsv: %s: want a case, flags and exit codes", f[0])
		}
		area, _, _ := strings.Cut(f[0], "/")
		if total[area]++; total[area] == 1 {
			areas = append(areas, area)
		}
		cmd := exec.Command(filepath.Join(dir, "run"), append([]string{"../../bin/preadmit", filepath.Join(dir, f[0])}, strings.Fields(f[1])...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", f[0], err, out)
			continue
		}
		if wrong := wrongs(string(out), strings.Split(f[2], "|"), f[3:]); len(wrong) > 0 {
			t.Logf("difference: %s: %s", f[0], strings.Join(wrong, "; "))
			continue
		}
		right[area]++
	}
	for _, area := range areas {
		t.Logf("table cases %s: %d / %d", area, right[area], total[area])
	}
}

// wrongs returns how an output differs from the exit codes and expressions of a case.
func wrongs(out string, codes, exprs []string) (wrong []string) {
	text := strings.TrimSpace(out)
	code := text[strings.LastIndexByte(text, ' ')+1:]
	if _, err := strconv.Atoi(code); err != nil || !slices.Contains(codes, code) {
		wrong = append(wrong, "exit "+code+", want "+strings.Join(codes, " or "))
	}
	for _, x := range exprs {
		expr, not := strings.CutPrefix(x, "!")
		if x != "" && regexp.MustCompile("(?m)"+expr).MatchString(text) == not {
			wrong = append(wrong, map[bool]string{true: "has ", false: "lacks "}[not]+strconv.Quote(expr))
		}
	}
	return wrong
}
