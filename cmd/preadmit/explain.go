package main

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/explain"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/explanation"
)

// explainOptions are the flags of check, except those for reports.
type explainOptions struct {
	checkOptions
	output string
	unit   string
}

func newExplainCommand(code *int) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain POLICY[/RULE] OBJECT [PATH ...]",
		Short: "Show how a policy decides on one object, step by step",
		Long: `Show how a policy, or one of its rules, decides on an object: whether it
matches and why, its conditions, variables and expressions with the value of
each part, the fields at fault with their lines, and the action of each binding.
Values of Secrets are hidden.

OBJECT is kind/name, namespace/kind/name, Kind/namespace/name, or
group/Kind/namespace/name as in suppressions (the core group is empty:
/Pod/prod/web). The kind may also be the resource (deployments), with its group
(deployment.apps). It must be among the objects that PATH renders (default:
the current directory). If several units have objects of that name, narrow down
PATH or name the unit with --unit.

Without --base the object is created. With --base REV this is the request that
check --base REV evaluates: an update or a deletion if REV has the object, by
the policies of REV.

  preadmit explain require-limits prod/deployment/web charts/web
  preadmit explain require-limits/validations[0] deployment/web -p policies
  preadmit explain baseline/privileged pod/web --pack pod-security-baseline
  preadmit explain max-replicas prod/deployment/web --base origin/main

The exit code is that of check, for this decision alone.`,
		Args: wants(2, -1, "POLICY[/RULE] and OBJECT", "preadmit explain require-limits prod/deployment/web"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := configure(without(cmd.Flags(), "output"), args[2:]); err != nil {
				return err
			}
			c, err := o.runExplain(cmd.Context(), args, stdio{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
			*code = c
			var several *explain.SeveralObjects
			if errors.As(err, &several) {
				several.List(cmd.ErrOrStderr())
			}
			return err
		},
	}
	f := cmd.Flags()
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	o.addBaseFlag(f)
	o.addSuppressionFlags(f)
	f.StringVarP(&o.output, "output", "o", "text", "`FORMAT[=FILE]` of the explanation: text or json")
	f.StringVar(&o.color, "color", "auto", "colour: auto, always or never")
	f.StringVar(&o.unit, "unit", "", "the unit that contains OBJECT, by its `PATH` in reports")
	return cmd
}

func (o *explainOptions) runExplain(ctx context.Context, args []string, std stdio) (int, error) {
	format, file, err := oneOutput(o.output, explanation.Formats.Names())
	if err != nil {
		return 0, err
	}
	if err := flagOneOf("color", o.color, colorModes...); err != nil {
		return 0, err
	}
	if err := engines.CheckPacks(o.Packs); err != nil {
		return 0, err
	}
	ref, err := explain.ParseRef(args[1])
	if err != nil {
		return 0, err
	}
	ctx, cancel, in, err := o.load(ctx, args[2:], std)
	if err != nil {
		return 0, err
	}
	defer cancel()
	if err := ctx.Err(); err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return 0, err
	}
	d, err := o.decide(ctx, in, s, ref, args[2:], std.in)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	es, err := explain.Explain(ctx, d, s.Packs, args[0])
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	if err := d.Suppress(&o.Options, in, es); err != nil {
		return 0, err
	}
	return explainCode(es, o), o.writeExplanations(std.out, format, file, es)
}

// decide returns the request about the object: with --base, the one that check evaluates.
func (o *explainOptions) decide(ctx context.Context, in *load.Input, s engines.Options, ref explain.Ref, paths []string, stdin io.Reader) (*evaluate.Decision, error) {
	object, err := explain.FindObject(in, s, ref, o.unit)
	if o.Base == "" {
		if err != nil {
			return nil, err
		}
		return explain.Decide(in, s, object)
	}
	var several *explain.SeveralObjects
	if errors.As(err, &several) {
		return nil, err
	}
	j, failed := evaluate.Run(ctx, &o.Options, in, paths, stdin)
	if failed != nil {
		return nil, failed
	}
	evaluate.NewReport(in, j) // names places in results
	if err != nil {           // the change may delete it
		deleted, inBase := explain.FindObject(j.Was, s, ref, o.unit)
		switch {
		case inBase == nil:
			object = deleted
		case errors.As(inBase, &several):
			return nil, inBase
		default:
			return nil, err
		}
	}
	return j.Decision(ctx, &o.Options, in, object)
}

// explainCode is the exit code, as that of check.
func explainCode(es []policy.Explanation, o *explainOptions) int {
	code := exitOK
	for i := range es {
		for j := range es[i].Results {
			r := &es[i].Results[j]
			switch {
			case r.Suppression != nil || r.Unreached || !r.Baseline.Counts():
			case r.Outcome == policy.Fail && o.failOn != "never" && r.Action.AtLeast(policy.Action(o.failOn)):
				return exitDenied
			case r.Undecided():
				code = exitIncomplete
			}
		}
	}
	return code
}

func (o *explainOptions) writeExplanations(stdout io.Writer, format, file string, es []policy.Explanation) error {
	var b bytes.Buffer
	tool := report.Tool{Name: "preadmit", Version: version}
	options := report.Options{Color: file == "" && o.colored(stdout), Verbose: o.Verbose}
	if err := explanation.Write(&b, format, tool, es, options); err != nil {
		return err
	}
	if file != "" {
		return writeFile(stdout, file, supervise.Bytes(b.Bytes()))
	}
	_, err := stdout.Write(b.Bytes())
	return brokenPipe(err)
}
