package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// baselineOptions are the flags of baseline: those of check except the flags
// for reports, and the fields of the suppressions.
type baselineOptions struct {
	checkOptions
	reason  string
	expires time.Time
	owner   string
}

func newBaselineCommand(code *int) *cobra.Command {
	var o baselineOptions
	cmd := &cobra.Command{
		Use:   "baseline [PATH ...]",
		Short: "Accept today's failures until a date, as suppressions",
		Long: `Evaluate as check does, and add a suppression to the suppressions file for each
failure that would count, with the reason and the last day given. The file is made
if it is not there. Units that could not be rendered, and undecided results, are not
suppressed: they are counted, and the exit code is 3.

Review the file like code. Remove entries as the failures are fixed: check names
those that no longer match anything.`,
		RunE: runs(code, o.runBaseline),
	}
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why the failures are accepted (required)")
	f.Var((*date)(&o.expires), "expires", "the last `DAY` on which the suppressions apply, such as 2027-03-31 (required)")
	f.StringVar(&o.owner, "owner", "", "`NAME` of the person or team responsible for the suppressions")
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	o.addSuppressionFlags(f)
	ignored(f, "allow-new-suppressions")
	return cmd
}

func (o *baselineOptions) runBaseline(ctx context.Context, args []string, std stdio) (int, error) {
	switch {
	case o.reason == "":
		return 0, errors.New("--reason is required: a suppression says why")
	case o.expires.IsZero():
		return 0, errors.New("--expires is required: a suppression ends")
	case o.expires.Before(o.Midnight()):
		return 0, fmt.Errorf("--expires %s is over: today is %s", o.expires.Format(time.DateOnly), o.Midnight().Format(time.DateOnly))
	}
	if err := engines.CheckPacks(o.Packs); err != nil {
		return 0, err
	}
	o.Accepts = true
	ctx, cancel, in, err := o.load(ctx, args, std)
	if err != nil {
		return 0, err
	}
	defer cancel()
	j, err := evaluate.Run(ctx, &o.Options, in, args, std.in)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	r := evaluate.NewReport(in, j)
	debt := o.debt(r.Results)
	file := o.Suppressions
	if file == "" {
		file = filepath.Join(in.Tree.Dir, filepath.FromSlash(evaluate.SuppressionsFile))
	}
	if err := addToFile(std.out, file, debt); err != nil {
		return 0, err
	}
	if len(debt) == 0 {
		fmt.Fprintf(std.out, "no suppression added: no failure counts with --fail-on %s\n", o.failOn)
	} else {
		shown := cmp.Or(o.Suppressions, in.Tree.Display(evaluate.SuppressionsFile))
		fmt.Fprintf(std.out, "%s added to %s\n", policy.Plural(len(debt), "suppression"), report.Plain(shown))
	}
	if n := r.Incomplete(); n > 0 {
		fmt.Fprintf(std.out, "not accepted, since not decided: %s\n", policy.Plural(n, "result"))
		return exitIncomplete, nil
	}
	return exitOK, nil
}

// debt returns the suppressions for everything that fails a run, one for each
// rule and object. A suppression names its unit if another unit has an object
// of the same name.
func (o *baselineOptions) debt(results []policy.Result) []policy.Suppression {
	units := make(map[string]map[string]bool)
	for i := range results {
		p := policy.ObjectPattern(results[i].Object)
		if units[p] == nil {
			units[p] = make(map[string]bool)
		}
		units[p][results[i].Object.Unit] = true
	}
	seen := make(map[policy.Suppression]bool)
	var debt []policy.Suppression
	for i := range results {
		r := &results[i]
		counts := r.Outcome == policy.Fail && o.failOn != "never" && r.Action.AtLeast(policy.Action(o.failOn))
		if !counts || r.Suppression != nil || !r.Baseline.Counts() {
			continue
		}
		s := policy.Suppression{
			Rule: r.Policy + "/" + r.Rule, Object: policy.ObjectPattern(r.Object),
			Reason: o.reason, Expires: o.expires.Format(time.DateOnly), Owner: o.owner,
		}
		if len(units[s.Object]) > 1 {
			s.Path = r.Object.Unit
		}
		if !seen[s] {
			seen[s] = true
			debt = append(debt, s)
		}
	}
	return debt
}

// addToFile adds suppressions to a file, all of them or none.
func addToFile(stdout io.Writer, file string, more []policy.Suppression) error {
	data, err := load.ReadRegular(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return supervise.NotWritten(file, err)
	}
	if _, err := policy.ParseSuppressions(file, data); err != nil {
		return load.Places(nil, err)
	}
	if len(more) == 0 {
		return nil
	}
	edit := policy.SuppressionEdit{Add: more, Header: evaluate.SchemaLine("suppressions")}
	if data, err = edit.Apply(file, data); err != nil {
		return supervise.NotWritten(file, err)
	}
	return writeFile(stdout, file, supervise.Bytes(data))
}
