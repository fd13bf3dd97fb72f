package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/cmd/preadmit/draft"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// initOptions are the flags of check for rendering, and whether to print the file.
type initOptions struct {
	checkOptions
	print bool
}

func newInitCommand(code *int) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [PATH ...]",
		Short: "Write a first configuration file, with the reasons for each line",
		Long: `Evaluate as check does, and write ` + configFile + ` with the lines that this
repository may need, each below the reasons for it, with files and lines: a pack
that denies, policies elsewhere, clusters that Git does not show. All lines are
suggestions that are commented out. A file that is there already is not changed:
print another with --print.

Name the paths that check will be run on. Policies elsewhere in the repository are
named in the file.`,
		RunE: runs(code, o.runInit),
	}
	f := cmd.Flags()
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	o.addCacheFlags(f)
	ignored(f, "fail-on")
	f.BoolVar(&o.print, "print", false, "print the file instead of writing it")
	return cmd
}

func (o *initOptions) runInit(ctx context.Context, args []string, std stdio) (int, error) {
	if slices.Contains(args, "-") {
		return 0, errors.New("a configuration is for the files of a repository, not for standard input")
	}
	dir, err := load.Root(args)
	if err != nil {
		return 0, err
	}
	file, err := rooted(dir, "policy", configFile)
	if err != nil {
		return 0, err
	}
	if _, err := os.Lstat(file); err == nil && !o.print {
		return 0, fmt.Errorf("%s is there already, and is not changed; to compare, print what init would write: preadmit init --print", configFile)
	}
	o.Passes, o.Forgets, o.Held, o.Parts = new(policy.Passes), true, new(policy.CompactList), render.NewParts()
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
	if len(r.Units) == 0 && len(r.Results) == 0 {
		return 0, nothing("found", &o.Options, in, args)
	}
	o.SaveCache()
	data := draft.File(&o.Options, in, j, r)
	if o.print {
		_, err := std.out.Write(data)
		return exitOK, brokenPipe(err)
	}
	if err := writeFile(std.out, file, supervise.Bytes(data)); err != nil {
		return 0, err
	}
	fmt.Fprintf(std.out, "%s is written; its lines are suggestions, each below its reason\n", in.Tree.Display(configFile))
	return exitOK, nil
}
