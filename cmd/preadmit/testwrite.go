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
	"github.com/preadmit/preadmit/render/disk"
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

func (w *writeFlags) check(text bool) error {
	switch {
	case w.write == "" && (w.overwrite || len(w.with) > 0):
		return errors.New("--overwrite and --with belong to --write")
	case w.write != "" && !text:
		return errors.New("--write prints text only: leave out --output")
	}
	return nil
}

// runTestWrite renders the paths in args, writes tests of the policies and
// prints what they lack.
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
	dir, err := insideTree(in.Tree, o.write)
	if err != nil {
		return 0, err
	}
	c.Watch.Phase("writing tests")
	drafts, late := policytest.Write(ctx, writeOptions(in, c, dir))
	if late != nil && !tasks.IsTimeUp(ctx, late) {
		return 0, late
	}
	if len(drafts) == 0 && late == nil {
		return 0, fmt.Errorf("no policy to write a test of in %s: there are tests for Kyverno's policies, constraints of Gatekeeper and admission policies", strings.Join(slices.Concat(o.policies, args), ", "))
	}
	p := draftPrinter{out: stdout, t: in.Tree, testOptions: o}
	for i := range drafts {
		if err := p.put(&drafts[i]); err != nil {
			return 0, err
		}
	}
	p.summary()
	if late != nil {
		return 0, evaluate.TimedOut(ctx, late)
	}
	if n := notRendered(in); n > 0 {
		fmt.Fprintf(stderr, "preadmit: %s could not be rendered, so tests have none of their objects; see preadmit check\n", policy.Plural(n, "unit"))
		return exitIncomplete, nil
	}
	return exitOK, nil
}

// asCheck returns the options with which check would render the same.
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

// insideTree returns the name in the tree of a directory that need not be there. It
// must not lie outside, since tests name the policies by their paths.
func insideTree(t *load.Tree, dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for up, below := abs, ""; ; up, below = filepath.Dir(up), filepath.Join(filepath.Base(up), below) {
		if _, err := os.Lstat(up); err != nil && filepath.Dir(up) != up {
			continue
		}
		real, err := filepath.EvalSymlinks(up)
		if err != nil {
			return "", fmt.Errorf("--write %s: %w", dir, err)
		}
		name, ok := disk.Within(t.Dir, filepath.Join(real, below))
		if !ok {
			return "", fmt.Errorf("--write %s: is outside of the repository: a test names its policy by a path in it", dir)
		}
		return name, nil
	}
}

// A draftPrinter writes the files of tests, and prints which cases each test has and lacks.
type draftPrinter struct {
	out io.Writer
	t   *load.Tree
	*testOptions
	written, kept, refused int
	rules, both            int
}

func (p *draftPrinter) line(format string, args ...any) { report.Line(p.out, format, args...) }

func (p *draftPrinter) at(s render.Span) string {
	s.File = p.t.Display(s.File)
	return s.String()
}

// put writes the files of one test.
func (p *draftPrinter) put(d *policytest.Draft) error {
	if d.Refused != "" {
		p.refused++
		p.line("not written: %s %s at %s: %s", d.Kind, d.Policy, p.at(d.Origin), d.Refused)
		return nil
	}
	if !p.overwrite {
		for _, f := range d.Files {
			if _, err := os.Lstat(p.path(f.Name)); !errors.Is(err, fs.ErrNotExist) {
				p.kept++
				p.line("kept: %s is there already; --overwrite replaces it", p.t.Display(f.Name))
				return nil
			}
		}
	}
	for _, f := range d.Files {
		if err := p.file(f); err != nil {
			return err
		}
	}
	p.written++
	p.draft(d)
	return nil
}

func (p *draftPrinter) path(name string) string {
	return filepath.Join(p.t.Dir, filepath.FromSlash(name))
}

func (p *draftPrinter) file(f policytest.File) error {
	name := p.path(f.Name)
	if _, ok := p.out.(fileWriter); !ok { // which makes directories by itself
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return supervise.NotWritten(name, err)
		}
	}
	return writeFile(p.out, name, supervise.Bytes(f.Data))
}

// draft prints what a test contains and lacks.
func (p *draftPrinter) draft(d *policytest.Draft) {
	both := 0
	for _, r := range d.Rules {
		if len(r.Missing) == 0 {
			both++
		}
	}
	p.rules, p.both = p.rules+len(d.Rules), p.both+both
	branches := ""
	if d.Branches > 0 {
		branches = fmt.Sprintf(", %d of %d branches", d.Covered, d.Branches)
	}
	p.line("written: %s: %s of %s %s: %d of %s complete%s", p.t.Display(d.File), policy.Plural(d.Cases, "case"), d.Kind, d.Policy, both, policy.Plural(len(d.Rules), "rule"), branches)
	if p.verbose {
		for _, e := range d.Edits {
			p.line("  changed: %s", e)
		}
	}
	if p.quiet {
		return
	}
	for _, r := range d.Rules {
		if len(r.Missing) > 0 {
			p.line("  lacks: %s: no object here gives %s", orPolicy(r.Name, d), strings.Join(r.Missing, " or "))
		}
	}
	for _, b := range d.Untaken {
		p.line("  lacks: %s: never %s: %s", p.at(b.Origin), b.Case, cutText(b.Part))
	}
}

func orPolicy(rule string, d *policytest.Draft) string {
	if rule == "" {
		return d.Policy
	}
	return rule
}

// cutText returns text in one line that is not long.
func cutText(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return text
}

func (p *draftPrinter) summary() {
	p.line("%s written, %d kept, %d not written; %d of %s with each result that a test can expect", policy.Plural(p.written, "test"), p.kept, p.refused, p.both, policy.Plural(p.rules, "rule"))
}
