package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/suites"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/report"
)

// mutationFlags are the flags of test --mutate.
type mutationFlags struct {
	mutate         []string
	failUnderScore percentage
	mutateTime     time.Duration
	mutantTime     time.Duration
}

func (m *mutationFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&m.mutate, "mutate", nil, "change the policies in small ways, one at a time, and report which changes no test notices, as `FORMAT[=FILE]`: "+strings.Join(report.MutationFormats.Names(), ", ")+" (repeatable; default: text)")
	f.Lookup("mutate").NoOptDefVal = "text"
	f.Var(&m.failUnderScore, "fail-under-score", "exit 1 if the tests notice less than `PERCENT` of the changes; implies --mutate")
	f.DurationVar(&m.mutateTime, "mutate-time", 5*time.Minute, "try changes for `DURATION`; those left are counted as not tried")
	f.DurationVar(&m.mutantTime, "mutant-time", 10*time.Second, "count a change as timed out if its tests take longer than `DURATION`")
}

// prepareMutation checks the flags. text reports whether standard output may hold
// more text.
func (m *mutationFlags) prepareMutation(text bool) error {
	if len(m.mutate) == 0 && m.failUnderScore > 0 {
		m.mutate = []string{"text"}
	}
	if m.mutateTime <= 0 || m.mutantTime <= 0 {
		return errors.New("--mutate-time and --mutant-time must be longer than 0")
	}
	return checkExtra("--mutate", m.mutate, report.MutationFormats.Names(), text)
}

// runMutation runs the tests at names with mutants of their policies, and writes the
// reports. It returns code, the run's exit code, or 1 if the score is less than
// --fail-under-score.
func (o *testOptions) runMutation(ctx context.Context, code int, t *load.Tree, w *tasks.Watch, names []string, stdout, stderr io.Writer) (int, error) {
	if len(o.mutate) == 0 {
		return code, nil
	}
	w.Phase("mutating policies")
	templates := new(gatekeeper.Compiled)
	options := policytest.MutateOptions{
		Options: policytest.Options{FS: t, Name: t.Display, Watch: w.Suites()},
		NewEngines: func(c *policy.Coverage) policytest.Engines {
			return suites.Engines(suites.Options{KubeVersion: o.kubeVersion, Coverage: c, Templates: templates})
		},
		Strict: o.strict, Time: o.mutateTime, MutantTime: o.mutantTime,
	}
	if len(o.policies) > 0 {
		tests, err := newRegoTests(t, o)
		if err != nil {
			return 0, err
		}
		options.Modules = tests.Mutable()
	}
	mutants, err := policytest.Mutate(ctx, options, names...)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	m := report.NewMutation(report.Tool{Name: "preadmit", Version: version}, mutants)
	if err := writeExtra(report.MutationFormats, o.mutate, m, stdout, report.Options{}); err != nil {
		return 0, err
	}
	if o.failUnderScore == 0 || code != exitOK {
		return code, nil
	}
	if m.Summary.Mutants == m.Summary.NotTried {
		fmt.Fprintln(stderr, "preadmit: --fail-under-score: no change was tried, so there is no score")
		return exitDenied, nil
	}
	if m.Summary.Score < float64(o.failUnderScore) {
		fmt.Fprintf(stderr, "preadmit: the tests notice %.1f%% of the changes, less than --fail-under-score %s\n", m.Summary.Score, o.failUnderScore.String())
		return exitDenied, nil
	}
	return code, nil
}
