package main

import (
	"bufio"
	"context"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/graph"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// graphOptions are the flags of check for rendering, and the format.
type graphOptions struct {
	checkOptions
	format string
}

func newGraphCommand(code *int) *cobra.Command {
	var o graphOptions
	cmd := &cobra.Command{
		Use:   "graph [PATH ...]",
		Short: "Show which objects deploy which units, on which cluster",
		Long: `Show the units that Argo CD and Flux objects at each PATH (default: the current
directory) deploy, with the objects that make them, and what nothing deploys. The
flags of check for policies, users and --base are accepted and change nothing.`,
		RunE: runs(code, o.runGraph, "output"),
	}
	o.addSourceFlags(cmd.Flags())
	o.addPolicyFlags(cmd.Flags())
	o.addUserFlags(cmd.Flags())
	o.addChangeFlags(cmd.Flags())
	ignored(cmd.Flags(), "policy", "pack", "no-tree-policies", "as", "as-group", "as-file", "authorizer", "disable-admission-plugins", "data", "rego-namespace", "combine", "fail-on", "base", "only-new", "require-complete")
	cmd.Flags().StringVarP(&o.format, "output", "o", "text", "`FORMAT`: text, json, dot or mermaid")
	return cmd
}

func (o *graphOptions) runGraph(ctx context.Context, args []string, std stdio) (int, error) {
	if err := checkFormat(o.format, graph.Formats.Names()...); err != nil {
		return 0, err
	}
	addresses := o.addresses()
	o.Policies, o.Data, o.Base, o.Sparse = nil, nil, "", true
	_, cancel, in, err := o.load(ctx, args, std)
	if err != nil {
		return 0, err
	}
	defer cancel()
	for _, address := range addresses { // records in the store that they are needed
		_, _ = in.Tree.Store.Fetched(render.NewAddressed(address))
	}
	g := graph.New(in)
	w := bufio.NewWriter(std.out)
	if err := graph.Formats.Write(w, o.format, g, report.Options{}); err != nil {
		return 0, brokenPipe(err)
	}
	if err := brokenPipe(w.Flush()); err != nil {
		return 0, err
	}
	for _, u := range g.Units {
		if u.Status == string(render.Failed) || u.Status == string(render.NotRendered) || u.Status == string(render.Foreign) {
			return exitIncomplete, nil
		}
	}
	return exitOK, nil
}
