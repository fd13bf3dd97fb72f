package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/suites"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// testOptions are the flags of test.
type testOptions struct {
	output      string
	strict      bool
	quiet       bool
	verbose     bool
	kubeVersion string
	timeout     time.Duration
	policies    []string // Rego modules whose unit tests run
	data        []string
	store       string
	tasks.Limits
	coverageFlags
	mutationFlags
}

func newTestCommand(code *int) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test [PATH ...]",
		Short: "Run Kyverno, gator, kaptest and Rego tests unchanged",
		Long: `Run the suites at each PATH, a file or a directory that is walked (default: the
current directory), and compare the results of policies with the expected ones.

Suites are ` + suiteDocs() + `.
A kaptest manifest tests only the expressions of a policy, not its match
constraints, bindings and failure policy. A kyverno-test.yaml runs as on Kyverno's
command line, except that the policies, rules and resources that it names must
exist. A suite of gator verify states how many violations of a constraint it expects.

With --policy, the unit tests of Rego modules run too, as with conftest verify and
opa test: the rules whose names begin with test_. PATH is optional then.

With --mutate, each policy is changed in small ways, one at a time: a comparison is
reversed, a constant or an anchor is replaced, or a condition, kind or namespace is
left out. The tests that evaluate the changed part run again, and should fail. The
report lists the changes that no test notices. The score is the percentage of changes
that a test notices, among those that compile and make a difference.

Exit codes: 0 every case passed; 1 some did not, or the coverage is below
--fail-under or the score below --fail-under-score; 2 bad command line, no suite
found, or one that can't be read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := configure(shared(cmd.Flags(), "kube-version", "timeout", "task-memory", "task-time", "quiet", "verbose"), args); err != nil {
				return err
			}
			if f := cmd.Flags(); len(o.mutate) == 0 && o.failUnderScore == 0 && (f.Changed("mutate-time") || f.Changed("mutant-time")) {
				return errors.New("--mutate-time and --mutant-time belong to --mutate")
			}
			c, err := runTest(cmd.Context(), &o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			*code = c
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "`FORMAT[=FILE]` of the results: text, json or junit")
	f.StringArrayVarP(&o.policies, "policy", "p", nil, "Rego modules with unit tests, in a file or directory `PATH`, or fetched from oci://REGISTRY/NAME:TAG or a URL by preadmit fetch (repeatable)")
	f.StringArrayVar(&o.data, "data", nil, "data of these modules: a YAML or JSON file, or a directory, at `PATH` (repeatable)")
	f.StringVar(&o.store, "store", "", "read fetched content also from `DIR`, filled by preadmit fetch --store or an OCI image layout")
	f.BoolVar(&o.strict, "strict", false, "fail cases for which no rule ran")
	f.Var((*kubeVersion)(&o.kubeVersion), "kube-version", "version of the API server, `X.Y` (default: the newest known)")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "stop after `DURATION`")
	addLimitFlags(f, &o.Limits)
	o.coverageFlags.addFlags(f)
	o.mutationFlags.addFlags(f)
	f.BoolVarP(&o.quiet, "quiet", "q", false, "list only cases that did not pass")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "also report why cases passed, and what was assumed")
	return cmd
}

const regoTests = "test Rego modules"

func suiteDocs() string {
	var docs []string
	for _, f := range policytest.Formats {
		docs = append(docs, f.Doc)
	}
	return strings.Join(docs, ", ")
}

// shared returns the named flags, which other commands have too.
func shared(flags *pflag.FlagSet, names ...string) *pflag.FlagSet {
	f := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	for _, name := range names {
		f.AddFlag(flags.Lookup(name))
	}
	return f
}

func runTest(ctx context.Context, o *testOptions, args []string, stdout, stderr io.Writer) (int, error) {
	format, file, err := oneOutput(o.output, suites.Formats.Names())
	if err != nil {
		return 0, err
	}
	if _, err := schema.New(nil, schema.Options{KubeVersion: o.kubeVersion}); err != nil {
		return 0, fmt.Errorf("--kube-version: %w", err)
	}
	text := file != "" || format == "text"
	if err := errors.Join(o.Limits.Check(), o.prepareCoverage(text), o.prepareMutation(text)); err != nil {
		return 0, err
	}
	if len(args) == 0 && len(o.policies) == 0 {
		args = []string{"."}
	}
	t, err := load.Open(slices.Concat(args, slices.DeleteFunc(slices.Clone(o.policies), render.IsAddress)))
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(slices.Concat(o.policies, o.data), render.IsAddress) {
		s, err := config.Read(t, configFile)
		if err == nil {
			err = t.OpenStore(o.store, s.Trust)
		}
		if err != nil {
			return 0, err
		}
	}
	names := make([]string, len(args))
	for i, p := range args {
		if p == "-" {
			return 0, errors.New("a suite can't be read from standard input: it names files beside it")
		}
		if names[i], err = t.NameOf(p, nil); err != nil {
			return 0, err
		}
	}
	ctx, cancel := bounded(ctx, o.timeout, stderr)
	defer cancel()
	if why := tasks.Of(ctx).Fatal(); why != "" {
		return 0, &supervise.Incomplete{Err: errors.New(why)}
	}
	var notes io.Writer
	if o.verbose {
		notes = stderr
	}
	read := load.Readable(t, nil, slices.Concat(o.policies, load.DataFiles(o.data)))
	if o.store != "" {
		read = append(read, o.store)
	}
	w, err := o.Limits.Begin(ctx, read, "", notes)
	if err != nil {
		return 0, err
	}
	w.Phase("running suites")
	r, err := policytest.Run(ctx, policytest.Options{FS: t, Engines: suites.Engines(suites.Options{KubeVersion: o.kubeVersion, Coverage: o.counted}), Name: t.Display, Watch: w.Suites()}, names...)
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	if len(o.policies) > 0 {
		done, err := w.Begin(regoTests, true)
		if err != nil {
			return 0, &supervise.Incomplete{Err: fmt.Errorf("--policy: running the tests of Rego modules %w", err)}
		}
		tests, err := newRegoTests(t, o)
		if err == nil {
			var suites []policytest.Suite
			suites, err = tests.Run(ctx, o.counted)
			r.Add(suites...)
		}
		done()
		if err != nil {
			return 0, evaluate.TimedOut(ctx, err)
		}
	}
	if err := writeTests(stdout, r, o, format, file); err != nil {
		return 0, err
	}
	if len(r.Suites) == 0 {
		return 0, fmt.Errorf("no test suite in %s: want %s, or with --policy rules test_x in Rego", strings.Join(slices.Concat(args, o.policies), ", "), suiteDocs())
	}
	code, err := o.writeCoverage(testCode(r, o.strict), t, stdout, stderr, report.Options{})
	if err != nil {
		return 0, err
	}
	return o.runMutation(ctx, code, t, w, names, stdout, stderr)
}

// testCode returns the exit code. Files that can't be read take precedence,
// because they may hide failures.
func testCode(r *policytest.Report, strict bool) int {
	code := exitOK
	if s := r.Summary; s.Passed < s.Cases || strict && s.Vacuous > 0 {
		code = exitDenied
	}
	for _, s := range r.Suites {
		if s.Error != "" {
			return exitUsage
		}
	}
	return code
}

func writeTests(stdout io.Writer, r *policytest.Report, o *testOptions, format, file string) error {
	var b bytes.Buffer
	if err := suites.Formats.Write(&b, format, suites.Results{Report: r, Strict: o.strict}, report.Options{Quiet: o.quiet, Verbose: o.verbose}); err != nil {
		return err
	}
	if file != "" {
		return writeFile(stdout, file, supervise.Bytes(b.Bytes()))
	}
	_, err := stdout.Write(b.Bytes())
	return brokenPipe(err)
}

// newRegoTests reads the unit tests at or below the paths of --policy.
func newRegoTests(t *load.Tree, o *testOptions) (*suites.RegoTests, error) {
	modules, unread, err := load.RegoModules(t, o.policies, nil)
	if err = cmp.Or(err, unread); err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("--policy %s: no .rego file is there", strings.Join(o.policies, ", "))
	}
	names, err := load.DataNames(t, o.data, nil)
	if err != nil {
		return nil, err
	}
	r := &suites.RegoTests{Modules: modules, Now: time.Now().UTC().Truncate(24 * time.Hour), Display: t.Display}
	r.Data, r.Broken = rego.LoadData(t, names...)
	return r, nil
}

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
		Short: func() {
			fmt.Fprintln(stderr, "preadmit: --mutate-time is too short to find all changes: those that are not found are not counted")
		},
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
