package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// fixOptions are the flags of fix: those of check except the flags for reports.
type fixOptions struct {
	checkOptions
	fixes fixes.Options
	write bool
}

func newFixCommand(code *int) *cobra.Command {
	var o fixOptions
	cmd := &cobra.Command{
		Use:   "fix [PATH ...]",
		Short: "Change files so that findings are gone: shown as a diff, or written with --write",
		Long: `Evaluate as check does, and print a diff of the files that removes findings whose
value is determined: by the Pod Security Standards, by the policy or a mutating
policy, or by the schema of the field. The line is that of check: in a manifest, a
patch, or the values of a chart. Templates are not changed.

Each edit is proved: what the edited files reach is rendered and evaluated again. An
edit is dropped if its finding stays, or if anything else fails or is undecided then.
Standard error says how many findings are fixed, and why the others are not.

Without --unsafe, only fixes are made that running programs do not notice, such as
allowPrivilegeEscalation: false. With it, also those that may stop a container
from working, such as runAsNonRoot: true.

Exit codes: 1 if there is something to fix, 0 if there is nothing or with --write
all of it was written, 2 bad command line or configuration, 3 if something could
not be rendered or decided and there is nothing to fix, or a file was not written.`,
		RunE: runs(code, o.runFix),
	}
	f := cmd.Flags()
	f.BoolVar(&o.write, "write", false, "write the files instead of printing a diff")
	f.StringArrayVar(&o.fixes.Rules, "rule", nil, "fix the findings of `POLICY` or POLICY/RULE only (* matches any text; repeatable)")
	f.BoolVar(&o.fixes.Unsafe, "unsafe", false, "also make fixes that may change what runs: review and test them")
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	o.addBaseFlag(f)
	o.addSuppressionFlags(f)
	ignored(f, "fail-on")
	return cmd
}

func (o *fixOptions) runFix(ctx context.Context, args []string, std stdio) (int, error) {
	if slices.Contains(args, "-") {
		return 0, errors.New("fix changes files, so it can't read standard input: give it the path of a file")
	}
	if err := engines.CheckPacks(o.Packs); err != nil {
		return 0, err
	}
	ctx, cancel, err := o.begin(ctx, std.err)
	if err != nil {
		return 0, err
	}
	defer cancel()
	f, err := fixes.Evaluate(ctx, &o.Options, args, nil)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	c, err := f.Fix(ctx, o.fixes)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	if !o.quiet {
		summarize(std.err, c, o.Verbose)
	}
	switch {
	case len(c.Texts) == 0 && c.Incomplete > 0:
		fmt.Fprintf(std.err, "preadmit: %s\n", verdictLine(0, c.Incomplete))
		return exitIncomplete, nil
	case len(c.Texts) == 0:
		return exitOK, nil
	case o.write:
		return exitOK, writeFixes(std, c)
	}
	if err := brokenPipe(c.Diff(std.out)); err != nil {
		return 0, supervise.NotWritten("standard output", err)
	}
	return exitDenied, nil
}

// summarize prints how many findings are fixed, and why the others are not; with each, of which rule
// and object.
func summarize(w io.Writer, c *fixes.Change, each bool) {
	if len(c.Findings) == 0 {
		fmt.Fprintln(w, "preadmit: there is no finding to fix")
		return
	}
	count := c.Count()
	fmt.Fprintf(w, "preadmit: %d of %s fixed, in %s\n", count[""], policy.Plural(len(c.Findings), "finding"), policy.Plural(len(c.Texts), "file"))
	for _, why := range slices.Sorted(maps.Keys(count)) {
		if why != "" {
			fmt.Fprintf(w, "  %d not fixed: %s\n", count[why], why)
		}
	}
	for _, f := range c.Findings {
		if !each || f.Reason == "" {
			continue
		}
		fmt.Fprintf(w, "  %s: %s", named(&f.Result), f.Reason)
		if f.Because != nil {
			fmt.Fprintf(w, ": %s: %s", named(f.Because), report.Plain(f.Because.Message))
		}
		fmt.Fprintln(w)
	}
}

// named returns the rule and the object of a result.
func named(r *policy.Result) string {
	return report.Plain(fmt.Sprintf("%s/%s of %s/%s", r.Policy, r.Rule, r.Object.Kind, r.Object.Name))
}

// writeFixes writes the edited files, each as a whole or not at all. A file that has changed since it
// was read is left, and named in the error.
func writeFixes(std stdio, c *fixes.Change) error {
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(c.Texts)) {
		name := c.Tree.Display(file)
		path, err := c.Tree.Path(name)
		if err == nil {
			var now []byte
			if now, err = load.ReadRegular(path); err == nil && !bytes.Equal(now, c.Before(file)) {
				err = errors.New("it has changed since it was read; run preadmit fix again")
			}
		}
		if err != nil {
			errs = append(errs, supervise.NotWritten(report.Plain(name), err))
			continue
		}
		if err := writeFile(std.out, path, supervise.Bytes([]byte(c.Texts[file]))); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(std.out, "%s\n", report.Plain(name))
	}
	return errors.Join(errs...)
}
