package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/rendered"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/objects"
)

var renderFormats = []string{"yaml", "json"}

func newRenderCommand(code *int) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render [PATH ...]",
		Short: "Print the rendered objects, each with its source",
		Long: `Print the objects that each PATH renders (default: the current directory), each
with its source. Values of Secrets are printed as they are rendered.

With --base REV only deployed objects that differ from those of REV are printed,
as a diff. Deleted objects that their GitOps controller leaves on the cluster are
notes on standard error.`,
		RunE: runs(code, o.runRender),
	}
	o.addSourceFlags(cmd.Flags())
	o.addPolicyFlags(cmd.Flags())
	o.addUserFlags(cmd.Flags())
	o.addBaseFlag(cmd.Flags())
	ignored(cmd.Flags(), "fail-on")
	cmd.Flags().Lookup("base").Usage = "print only deployed objects that differ from git revision `REV`, as a diff"
	cmd.Flags().StringVarP(&o.format, "output", "o", "yaml", "`FORMAT` of the objects: yaml or json")
	cmd.Flags().BoolVar(&o.admitted, "admitted", false, "show how defaults and mutating policies would change each object, as a diff")
	cmd.Flags().BoolVar(&o.origins, "origins", false, "put the line to edit before each line, as git blame does; in JSON the places of each field")
	return cmd
}

// renderOptions are the flags of the command render.
type renderOptions struct {
	checkOptions
	format   string
	admitted bool // as they would be stored
	origins  bool // with the place of each field
}

func (o *renderOptions) runRender(ctx context.Context, args []string, std stdio) (int, error) {
	if err := checkFormat(o.format, renderFormats...); err != nil {
		return 0, err
	}
	if o.admitted && o.origins && o.format == "yaml" {
		return 0, errors.New("--origins: the lines of a diff by --admitted have no places in files; use -o json, or only one of the two")
	}
	if o.Base != "" && (o.admitted || o.origins) {
		return 0, errors.New("--base prints a diff of the rendered objects; use it without --admitted and --origins")
	}
	if !o.admitted {
		o.Policies, o.With, o.Data = nil, nil, nil // only used for --admitted
	}
	o.Flat = true // the output may be applied, so objects within other objects must not be in it twice
	ctx, cancel, in, err := o.load(ctx, args, std)
	if err != nil {
		return 0, err
	}
	defer cancel()
	if o.Base != "" {
		return o.renderChange(ctx, in, args, std)
	}
	var stored *evaluate.Admitted
	if o.admitted {
		if stored, err = evaluate.Admit(ctx, in, &o.Options); err != nil {
			return 0, evaluate.TimedOut(ctx, err)
		}
	}
	evaluate.Relabel(in.Tree, in.Found)
	w := bufio.NewWriter(std.out)
	switch {
	case o.format == "json":
		err = rendered.JSON(w, in, stored, o.origins)
	case stored != nil:
		err = rendered.Diffs(w, in, stored)
	default:
		err = rendered.YAML(w, in, o.origins)
	}
	if err == nil {
		err = w.Flush()
	}
	if err := brokenPipe(err); err != nil {
		return 0, err
	}
	if o.origins && o.Verbose {
		for _, note := range objects.WithoutLines(in.Head, in.Tree.Display) {
			fmt.Fprintf(std.err, "note: %s\n", report.Plain(note))
		}
	}
	if len(in.Head) == 0 && len(in.Found) == 0 {
		return 0, nothing("rendered", &o.Options, in, args)
	}
	return complain(std.err, in.Found), nil
}

// renderChange prints the objects that differ from those of the base.
func (o *renderOptions) renderChange(ctx context.Context, in *load.Input, args []string, std stdio) (int, error) {
	d, err := evaluate.Compare(ctx, &o.Options, in, args, std.in)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	evaluate.Relabel(in.Tree, d.Found)
	w := bufio.NewWriter(std.out)
	if o.format == "json" {
		err = rendered.ChangeJSON(w, in, d)
	} else {
		err = rendered.Change(w, in, d, o.Base)
	}
	if err == nil {
		err = w.Flush()
	}
	if err := brokenPipe(err); err != nil {
		return 0, err
	}
	for _, note := range d.Notes {
		fmt.Fprintf(std.err, "note: %s\n", report.Plain(note))
	}
	return complain(std.err, d.Found), nil
}

// complain prints the errors of rendering and returns the exit code.
func complain(w io.Writer, results []policy.Result) int {
	code := exitOK
	for _, r := range results {
		severity := "warning"
		if r.Undecided() || r.Outcome == policy.Fail && r.Action == policy.Deny {
			severity, code = "error", exitIncomplete
		}
		place := ""
		if len(r.Origins) > 0 {
			place = r.Origins[0].String() + ": "
		}
		rule := r.Rule
		if r.Object.Kind != "" { // a policy's
			rule = r.Policy + "/" + rule
		}
		fmt.Fprintf(w, "%s%s: %s [%s]\n", report.Plain(place), severity, report.Plain(r.Message), report.Plain(rule))
		if r.Hint != "" {
			fmt.Fprintf(w, "  help: %s\n", report.Plain(r.Hint))
		}
	}
	return code
}
