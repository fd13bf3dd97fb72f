package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// coverageFlags are the flags for the coverage of policies.
type coverageFlags struct {
	coverage  []string
	add       []string
	failUnder percentage

	counted *policy.Coverage // nil without coverage
	added   []policy.Branch  // taken by other runs, from --coverage-add
}

func (o *coverageFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.coverage, "coverage", nil, "report which branches of CEL, Kyverno's conditions and Rego were taken, as `FORMAT[=FILE]`: "+strings.Join(report.CoverageFormats.Names(), ", ")+" (repeatable; default: text)")
	f.Lookup("coverage").NoOptDefVal = "text"
	f.StringArrayVar(&o.add, "coverage-add", nil, "add the branches taken by another run, such as the tests, which wrote `FILE` with --coverage=json=FILE; implies --coverage (repeatable)")
	f.Var(&o.failUnder, "fail-under", "exit 1 if less than `PERCENT` of the branches was taken; implies --coverage")
}

// percentage is the value of --fail-under.
type percentage float64

func (p *percentage) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*p), 'f', -1, 64)
}

func (p *percentage) Type() string { return "PERCENT" }

func (p *percentage) Set(s string) error {
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return fmt.Errorf("%q is not a percentage from 0 to 100", s)
	}
	*p = percentage(f)
	return nil
}

// prepareCoverage checks the flags, and turns on counting if coverage is requested. text reports
// whether more text may be written to standard output.
func (o *coverageFlags) prepareCoverage(text bool) error {
	if len(o.coverage) == 0 && (o.failUnder > 0 || len(o.add) > 0) {
		o.coverage = []string{"text"}
	}
	if err := checkExtra("--coverage", o.coverage, report.CoverageFormats.Names(), text); err != nil {
		return err
	}
	if len(o.coverage) > 0 {
		o.counted = policy.NewCoverage()
	}
	for _, file := range o.add {
		c, err := readCoverage(file)
		if err != nil {
			return fmt.Errorf("--coverage-add %s: %w", file, err)
		}
		o.added = append(o.added, c.Branches...)
	}
	return nil
}

// readCoverage reads a report of --coverage=json.
func readCoverage(file string) (*report.Coverage, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Unwrap(err) // the outer error names the file again
	}
	var c report.Coverage
	if err := json.Unmarshal(data, &c); err != nil || c.Schema != report.CoverageSchema {
		return nil, errors.New("is no report of --coverage=json")
	}
	return &c, nil
}

// withAdded returns the branches, with the counts of other runs added.
func (o *coverageFlags) withAdded(branches []policy.Branch) []policy.Branch {
	if len(o.added) == 0 {
		return branches
	}
	all := policy.NewCoverage()
	for _, b := range slices.Concat(branches, o.added) {
		all.Declare(b).Add(max(b.Hits, 0))
	}
	return all.Branches()
}

// writeCoverage writes the coverage in each format. It returns code, the run's exit
// code, or 1 if less was covered than --fail-under.
func (o *coverageFlags) writeCoverage(code int, t *load.Tree, stdout, stderr io.Writer, opts report.Options) (int, error) {
	if o.counted == nil {
		return code, nil
	}
	branches := o.counted.Branches()
	for i := range branches {
		branches[i].Origin.File = t.Display(branches[i].Origin.File)
	}
	c := report.NewCoverage(report.Tool{Name: "preadmit", Version: version}, o.withAdded(branches), disk.Shown{Tree: t.Tree})
	if err := writeExtra(report.CoverageFormats, o.coverage, c, stdout, opts); err != nil {
		return 0, err
	}
	if o.failUnder > 0 && c.Summary.Branches == 0 && code == exitOK {
		fmt.Fprintln(stderr, "preadmit: --fail-under: no policy has branches to take, so nothing is covered; those of packs are not counted")
		return exitDenied, nil
	}
	if got := c.Summary.Percent(); got < float64(o.failUnder) && code == exitOK {
		fmt.Fprintf(stderr, "preadmit: %.1f%% of the branches were taken, less than --fail-under %s\n", got, o.failUnder.String())
		return exitDenied, nil
	}
	return code, nil
}
