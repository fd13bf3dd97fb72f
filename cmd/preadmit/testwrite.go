package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/suites"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// writeFlags are the flags of test --write.
type writeFlags struct {
	write     string
	overwrite bool
	with      []string
}

func (w *writeFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&w.write, "write", "", "write a test for each policy below `DIR`, from the objects that PATH renders")
	f.BoolVar(&w.overwrite, "overwrite", false, "with --write: replace existing tests")
	f.StringArrayVar(&w.with, "with", nil, "with --write: objects that exist on the cluster, such as parameters, Namespaces and CRDs, in a file or directory `PATH` (repeatable)")
}

// check returns an error if flags do not belong together. only reports whether no flag asks for
// a report of a suite.
func (w *writeFlags) check(only bool) error {
	switch {
	case w.write == "" && (w.overwrite || len(w.with) > 0):
		return errors.New("--overwrite and --with belong to --write")
	case w.write != "" && !only:
		return errors.New("--write runs no suite and prints text only: leave out --output, --coverage and --mutate")
	}
	return nil
}

// runTestWrite renders the paths in args, writes tests for the policies, and prints the results and
// branches that the tests don't cover.
func runTestWrite(ctx context.Context, o *testOptions, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	c, err := o.asCheck(args)
	if err != nil {
		return 0, err
	}
	ctx, cancel, err := c.begin(ctx, stderr)
	if err != nil {
		return 0, err
	}
	defer cancel()
	rendering, rendered := load.TimeToRender(ctx)
	in, err := load.Load(rendering, &c.Sources, args, stdin)
	rendered()
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	dir, err := in.Tree.NameOfNew(o.write)
	if err != nil {
		return 0, fmt.Errorf("--write %s: %w", o.write, err)
	}
	if info, err := fs.Stat(in.Tree, dir); err == nil && !info.IsDir() {
		return 0, fmt.Errorf("--write %s: is a file, not a directory", o.write)
	}
	c.Watch.Phase("writing tests")
	drafts, late := policytest.Write(ctx, writeOptions(in, c, dir))
	if late != nil && !tasks.IsTimeUp(ctx, late) {
		return 0, late
	}
	if len(drafts) == 0 && late == nil {
		return 0, noPolicy(in, slices.Concat(o.policies, args))
	}
	p := suites.Drafts{Out: stdout, Tree: in.Tree, Overwrite: o.overwrite, Quiet: o.quiet, Verbose: o.verbose, Write: func(name string, data []byte) error {
		if _, ok := stdout.(fileWriter); !ok { // WriteFile of the parent makes directories itself
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return supervise.NotWritten(name, err)
			}
		}
		return writeFile(stdout, name, supervise.Bytes(data))
	}}
	if err := p.Put(drafts); err != nil {
		return 0, err
	}
	if late != nil {
		return 0, evaluate.TimedOut(ctx, late)
	}
	if n := notRendered(in); n > 0 {
		fmt.Fprintf(stderr, "preadmit: %s could not be rendered, so tests have none of their objects; see preadmit check\n", policy.Plural(n, "unit"))
		return exitIncomplete, nil
	}
	return exitOK, nil
}

// noPolicy returns the error of a run without a policy at the given paths.
func noPolicy(in *load.Input, paths []string) error {
	text := fmt.Sprintf("no policy to write a test of in %s: give the policies with --policy, of Kyverno, Gatekeeper (constraints with their templates) or admission policies", strings.Join(paths, ", "))
	for _, s := range in.Skipped {
		if s.State == render.DocFixture && len(in.Head) == 0 {
			return fmt.Errorf("%s; %s was left out, since it holds fixtures of a test suite: name its files to use them", text, report.Plain(in.Tree.Display(s.Path)))
		}
	}
	return errors.New(text)
}

// asCheck returns the equivalent options of check, for rendering.
func (o *testOptions) asCheck(args []string) (*checkOptions, error) {
	c := &checkOptions{}
	f := pflag.NewFlagSet("check", pflag.ContinueOnError)
	c.addSourceFlags(f)
	c.addPolicyFlags(f)
	if err := configure(f, args); err != nil {
		return nil, err
	}
	if len(o.policies) > 0 {
		c.Policies = o.policies
	}
	c.With = append(c.With, o.with...)
	if o.kubeVersion != "" {
		c.KubeVersion = o.kubeVersion
	}
	c.Timeout, c.Limits, c.quiet, c.Verbose, c.NoCache, c.Store = o.timeout, o.Limits, o.quiet, o.verbose, true, o.store
	return c, nil
}

func writeOptions(in *load.Input, c *checkOptions, dir string) policytest.WriteOptions {
	all := render.Objects(in.Head)
	policies := slices.Concat(render.Objects(in.Given), load.Only(all, lint.IsPart))
	return policytest.WriteOptions{
		FS: in.Tree, Dir: dir, Jobs: runtime.GOMAXPROCS(0), Watch: c.Watch.Suites(),
		Engines: func(counted *policy.Coverage) policytest.Engines {
			return suites.Engines(suites.Options{KubeVersion: c.KubeVersion, Coverage: counted})
		},
		Policies: engines.Distinct(policies),
		Objects:  engines.Distinct(load.Only(all, func(o *render.Object) bool { return !lint.IsPart(o) })),
		Others:   render.Objects(in.Context),
	}
}

func notRendered(in *load.Input) int {
	n := 0
	for i := range in.Found {
		if in.Found[i].Undecided() && !in.Found[i].Unreached {
			n++
		}
	}
	return n
}
