package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// coverageFlags ask which branches of policies a run takes.
type coverageFlags struct {
	coverage  []string
	failUnder percentage

	counted *policy.Coverage // nil where nobody asks
}

func (o *coverageFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.coverage, "coverage", nil, "report which branches of the policies were taken: of CEL, Kyverno's conditions and Rego, as `FORMAT[=FILE]`: "+strings.Join(report.CoverageFormats.Names(), ", ")+" (repeatable; default: text)")
	f.Lookup("coverage").NoOptDefVal = "text"
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

// prepareCoverage checks the flags, and turns on counting if coverage is asked for.
// text reports whether standard output may hold more text.
func (o *coverageFlags) prepareCoverage(text bool) error {
	if len(o.coverage) == 0 && o.failUnder > 0 {
		o.coverage = []string{"text"}
	}
	stdouts := 0
	for _, c := range o.coverage {
		format, file, named := strings.Cut(c, "=")
		if !slices.Contains(report.CoverageFormats.Names(), format) {
			return fmt.Errorf("--coverage %w", oneOf(format, report.CoverageFormats.Names()...))
		}
		if named && file == "" {
			return fmt.Errorf("--coverage %s: the file's name is missing", c)
		}
		if file != "" {
			if err := writable(file); err != nil {
				return err
			}
			continue
		}
		if stdouts++; stdouts > 1 || !text || format != "text" {
			return errors.New("--coverage " + format + " would stand among other output: give it a file, --coverage=" + format + "=FILE")
		}
	}
	if len(o.coverage) > 0 {
		o.counted = policy.NewCoverage()
	}
	return nil
}

// writeCoverage writes the coverage in each format. It returns code, the run's exit
// code, or 1 if less was covered than --fail-under.
func (o *coverageFlags) writeCoverage(code int, t *tree, stdout, stderr io.Writer, opts report.Options) (int, error) {
	if o.counted == nil {
		return code, nil
	}
	branches := o.counted.Branches()
	for i := range branches {
		branches[i].Origin.File = t.Display(branches[i].Origin.File)
	}
	c := report.NewCoverage(report.Tool{Name: "preadmit", Version: version}, branches, disk.Shown{Tree: t.Tree})
	for _, x := range o.coverage {
		format, file, _ := strings.Cut(x, "=")
		write := func(w io.Writer) error { return report.CoverageFormats.Write(w, format, c, opts) }
		var err error
		if file != "" {
			opts.Color = false
			err = writeFile(stdout, file, write)
		} else {
			err = brokenPipe(write(stdout))
		}
		if err != nil {
			return 0, err
		}
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
