package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/helm"
)

// addSourceFlags adds the flags for rendering.
func (o *checkOptions) addSourceFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.Values, "values", "f", nil, "values `FILE` for the charts at each PATH, later ones win (repeatable)")
	f.StringArrayVar(&o.Set, "set", nil, "a chart value, `KEY=VALUE` as in helm (repeatable)")
	f.StringArrayVar(&o.SetString, "set-string", nil, "a chart value that is a string, `KEY=VALUE` (repeatable)")
	f.StringArrayVar(&o.SetFile, "set-file", nil, "a chart value read from a file, `KEY=FILE` (repeatable)")
	f.StringVar(&o.Release, "release", "", "`NAME` of the release (default: the chart's)")
	f.StringVarP(&o.Namespace, "namespace", "n", "", "`NAMESPACE` of objects that name none (default: default)")
	f.BoolVar(&o.IncludeCRDs, "include-crds", true, "render the crds directories of charts")
	f.Var((*kubeVersion)(&o.KubeVersion), "kube-version", "version of the API server, `X.Y` (default: the newest known)")
	f.StringSliceVar(&o.APIVersions, "api-versions", nil, "`LIST` of API versions for the capabilities of charts")
	f.StringArrayVar(&o.Selection.Exclude, "exclude", nil, "ignore paths that match `GLOB`, from the repository's root: * within a name, ** across directories (repeatable)")
	f.BoolVar(&o.Selection.Hidden, "include-hidden", false, "include hidden directories and fixtures of test suites")
	o.GitOps, o.Renderers, o.Resolvers = load.GitOpsAuto, renderers, resolvers
	f.Var(choice{&o.GitOps, "MODE", load.GitOpsModes}, "gitops", "follow Argo CD and Flux objects: auto, only (ignore what none of them deploys) or off")
	f.StringArrayVar(&o.Clusters, "cluster", nil, "only units that are deployed to the cluster `NAME` (repeatable)")
	f.StringArrayVar(&o.Repositories, "repository", nil, "`URL` that GitOps objects use for this repository, if it is not that of the remote origin (repeatable)")
	f.IntVarP(&o.jobs, "jobs", "j", 0, "render and evaluate `N` units and objects at once (default: the number of processors, fewer if memory is short)")
	f.StringVar(&o.Config, "config", "", "read defaults for flags from `FILE` (default: "+configFile+", if it exists); with --base from that revision")
	f.StringVar(&o.Store, "store", "", "read fetched content also from `DIR`, filled by preadmit fetch --store or an OCI image layout")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "stop after `DURATION`")
	addLimitFlags(f, &o.Limits)
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "also report passes and files without objects")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "report only what fails the run or is undecided, and no summary on standard error")
}

// addPolicyFlags adds the flags for the policies, their data, and the user who applies the objects.
func (o *checkOptions) addPolicyFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.Policies, "policy", "p", nil, "evaluate the policies, Rego included, in a file or directory `PATH`, or fetched from oci://REGISTRY/NAME:TAG or a URL by preadmit fetch (repeatable)")
	f.StringArrayVar(&o.Packs, "pack", nil, "evaluate the embedded policy pack `NAME`, see preadmit packs (repeatable)")
	f.BoolVar(&o.NoTreePolicies, "no-tree-policies", false, "ignore the policies among the rendered objects")
	f.StringArrayVar(&o.With, "with", nil, "objects that already exist on the cluster, such as Namespaces and CRDs, in a file or directory `PATH`, or fetched from oci://REGISTRY/NAME:TAG or a URL by preadmit fetch: policies can look them up, but they are not checked (repeatable)")
	f.StringVar(&o.As, "as", "", "evaluate as if `USER` applied the objects (request.userInfo)")
	f.StringArrayVar(&o.AsGroups, "as-group", nil, "evaluate as if USER were a member of `GROUP` (repeatable)")
	f.StringArrayVar(&o.Data, "data", nil, "data of Rego policies: a YAML or JSON file, or a directory, at `PATH` (repeatable)")
	f.StringArrayVar(&o.Namespaces, "rego-namespace", nil, "evaluate the Rego package `NAME` (repeatable; default: all that have a deny, violation or warn rule)")
	f.BoolVar(&o.Combine, "combine", false, "evaluate Rego packages once over all objects, as conftest --combine does")
	o.failOn = string(policy.Deny)
	f.Var(choice{&o.failOn, "ACTION", failActions()}, "fail-on", "exit 1 if a failure has at least this action: deny, warn, audit or never")
}

// addUserFlags adds the flags for the user and the authorizer.
func (o *checkOptions) addUserFlags(f *pflag.FlagSet) {
	f.StringVar(&o.AsFile, "as-file", "", "evaluate as the user that `FILE` describes (username, uid, groups, extra); not with --as")
	f.Var((*plugins)(&o.DisabledPlugins), "disable-admission-plugins", "`LIST` of default admission plugins that the API server does not run: "+strings.Join(engines.PluginNames(), ", "))
	f.StringVar(&o.Authorizer, "authorizer", "unknown", "who may do what, for CEL's authorizer and for accounts that apply objects, `MODE`: unknown, allow, deny, rbac (by the Roles and bindings rendered and in --with), or a file of rules")
}

// addChangeFlags adds the flags for comparing with a base.
func (o *checkOptions) addChangeFlags(f *pflag.FlagSet) {
	o.addBaseFlag(f)
	f.BoolVar(&o.requireComplete, "require-complete", false, "exit 3 if anything could not be rendered or decided, even if it is the same at --base")
	f.BoolVar(&o.OnlyNew, "only-new", false, "with --base, count new failures alone, even if the API server refuses the change for an old one")
}

// addBaseFlag adds the flag that names the base.
func (o *checkOptions) addBaseFlag(f *pflag.FlagSet) {
	o.Reconfigured = func(root, file string, node *yaml.Node) (*evaluate.Reconfigured, error) {
		return o.reconfigured(f, root, file, node)
	}
	f.StringVar(&o.Base, "base", "", "compare with git revision `REV` and evaluate the change with its policies; only new failures count, and all denials of objects that the change touches")
}

// addRehearsalFlags adds the flags for rehearsals.
func (o *checkOptions) addRehearsalFlags(f *pflag.FlagSet) {
	f.Var((*kubeVersion)(&o.FromKubeVersion), "from-kube-version", "rehearse an upgrade of the API server from version `X.Y`, at least "+schema.Versions()[0]+", to --kube-version: only results that the upgrade changes count")
	f.StringArrayVar(&o.Enforce, "enforce", nil, "rehearse enforcing `POLICY` or POLICY/RULE (* matches any text): its warnings and audited failures become denials, and only these count (repeatable)")
}

// addSuppressionFlags adds the flags for suppressions.
func (o *checkOptions) addSuppressionFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Suppressions, "suppressions", "", "read suppressions from `FILE` (default: "+evaluate.SuppressionsFile+", if there is one)")
	f.BoolVar(&o.AllowNew, "allow-new-suppressions", false, "with --base, also apply suppressions that the change adds")
	f.Var((*date)(&o.Date), "date", "evaluate suppressions, exceptions and policies as if today were `DAY`, such as 2027-03-31 (default: today, UTC)")
}

// addCacheFlags adds the flags for the cache.
func (o *checkOptions) addCacheFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Cache, "cache", "", "cache `DIR`, outside the repository (default: preadmit in the user's cache directory)")
	f.BoolVar(&o.NoCache, "no-cache", false, "neither read nor write the cache")
}

// addLimitFlags adds the flags that limit a child's resources.
func addLimitFlags(f *pflag.FlagSet, l *tasks.Limits) {
	f.IntVar(&l.Memory, "task-memory", tasks.DefaultMemory, fmt.Sprintf("memory limit in `MIB` for rendering one unit or evaluating one object, at least %d; exceeding it is an error of that unit or object, and the run goes on", tasks.MinMemory))
	f.DurationVar(&l.Time, "task-time", tasks.DefaultTime, "limit of the processor time for one unit or object, `DURATION`; three times as long by the clock")
	l.Sandbox = "auto"
	f.Var(choice{&l.Sandbox, "string", tasks.SandboxModes}, "sandbox", "on Linux, let the kernel deny connections, other programs, writing, and reading files that are not named on the command line. `MODE`: auto (where the kernel can), require or off")
}

// A choice is the value of a flag that allows only some names.
type choice struct {
	value *string
	named string // in the help
	among []string
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return c.named }

func (c choice) Set(s string) error {
	*c.value = s
	return oneOf(s, c.among...)
}

// plugins is the type of --disable-admission-plugins.
type plugins []string

func (p *plugins) String() string { return strings.Join(*p, ",") }
func (p *plugins) Type() string   { return "stringSlice" }

func (p *plugins) Set(s string) error {
	for _, name := range strings.Split(s, ",") {
		if err := oneOf(name, engines.PluginNames()...); err != nil {
			return err
		}
		*p = append(*p, name)
	}
	return nil
}

func failActions() []string {
	var names []string
	for _, a := range policy.Actions {
		names = append(names, string(a))
	}
	return append(names, "never")
}

// kubeVersion is the type of --kube-version.
type kubeVersion string

func (k *kubeVersion) String() string { return string(*k) }
func (k *kubeVersion) Type() string   { return "string" }

func (k *kubeVersion) Set(s string) error {
	*k = kubeVersion(s)
	return schema.CheckVersion(s)
}

// A date is a flag whose value is a day. The zero value is today.
type date time.Time

func (d *date) Type() string { return "DAY" }
func (d *date) String() string {
	if day := time.Time(*d); !day.IsZero() {
		return day.Format(time.DateOnly)
	}
	return ""
}

func (d *date) Set(s string) error {
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return fmt.Errorf("%q is not a date such as 2027-03-31", s)
	}
	*d = date(day)
	return nil
}

// ignored hides flags that a command accepts, so that it takes the command lines of
// check, but that change nothing in it.
func ignored(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Hidden = true
	}
}

// without returns the flags except the named ones.
func without(flags *pflag.FlagSet, names ...string) *pflag.FlagSet {
	rest := pflag.NewFlagSet("rest", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			rest.AddFlag(f)
		}
	})
	return rest
}

// start checks the flags and sets the number of jobs, which is at most the number of processors
// because more would only use more memory.
func (o *checkOptions) start() error {
	switch {
	case o.jobs < 0:
		return fmt.Errorf("--jobs %d is negative; 0 is the number of processors", o.jobs)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %s: must be longer than 0", o.Timeout)
	}
	if err := o.Limits.Check(); err != nil {
		return err
	}
	if o.Namespace != "" {
		if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
			return fmt.Errorf("--namespace %q can't be the name of a Namespace: small letters, digits and dashes, at most 63, with a letter or digit at both ends", o.Namespace)
		}
	}
	if err := helm.CheckSet(o.Set, o.SetString); err != nil {
		return err
	}
	if o.jobs > 0 {
		runtime.GOMAXPROCS(min(o.jobs, runtime.NumCPU()))
	}
	return nil
}

// addresses returns the values of --policy, --data and --with that are
// addresses instead of paths.
func (o *checkOptions) addresses() []string {
	return slices.DeleteFunc(slices.Concat(o.Policies, o.Data, o.With), func(p string) bool { return !render.IsAddress(p) })
}

// checkRehearsal returns an error if the flags of a rehearsal can't be combined.
func (o *checkOptions) checkRehearsal() error {
	switch {
	case o.FromKubeVersion != "" && o.Base != "":
		return errors.New("--from-kube-version compares two API servers, --base two trees: a difference could come from either, so run check once with each")
	case len(o.Enforce) > 0 && o.Base != "":
		return errors.New("--enforce compares policies before and after they deny, --base two trees: run check once with each; for a change that may break no policy at all, use --base with --fail-on audit")
	case len(o.Enforce) > 0 && o.FromKubeVersion != "":
		return errors.New("--enforce and --from-kube-version change two things: a denial could come from either, so run check once with each")
	case o.FromKubeVersion != "" && evaluate.Release(o.FromKubeVersion) == evaluate.Release(o.KubeVersion):
		return fmt.Errorf("--from-kube-version and --kube-version are both %s", evaluate.Release(o.KubeVersion))
	}
	return nil
}

// openShard reads --shard and refuses flags that need all results in one process.
func (o *checkOptions) openShard() (err error) {
	if o.Part, err = evaluate.ParseShard(o.shard); err != nil {
		return err
	}
	if o.Part != nil && o.Combine {
		return errors.New("--combine evaluates all objects together, which --shard divides: use one of them")
	}
	if o.withFixes && (o.Part != nil || o.FromKubeVersion != "" || len(o.Enforce) > 0) {
		return errors.New("--fixes proves edits by runs over the whole tree: use it without --shard, --from-kube-version and --enforce")
	}
	if o.Part != nil && o.FromKubeVersion != "" {
		return errors.New("--from-kube-version compares two whole runs: use it without --shard")
	}
	return nil
}

// checkOptions are the flags of check.
type checkOptions struct {
	evaluate.Options
	coverageFlags
	outputs
	failOn          string // an action, or "never"
	requireComplete bool
	shard           string
	withFixes       bool
	jobs            int
	quiet           bool
}

// begin starts a command: it checks the flags, and returns a context that ends
// at --timeout. The caller must call the returned function. The error is a
// wrong flag, or the reason why the supervised children before this one ended
// without a result.
func (o *checkOptions) begin(ctx context.Context, stderr io.Writer) (context.Context, context.CancelFunc, error) {
	if err := o.start(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := bounded(ctx, o.Timeout, stderr)
	if why := tasks.Of(ctx).Fatal(); why != "" {
		cancel()
		return nil, nil, &supervise.Incomplete{Err: errors.New(why)}
	}
	return ctx, cancel, nil
}

// load begins a command and renders the paths in args.
func (o *checkOptions) load(ctx context.Context, args []string, std stdio) (context.Context, context.CancelFunc, *load.Input, error) {
	ctx, cancel, err := o.begin(ctx, std.err)
	if err != nil {
		return nil, nil, nil, err
	}
	in, err := load.Load(ctx, &o.Sources, args, std.in)
	if err != nil {
		defer cancel()
		return nil, nil, nil, evaluate.TimedOut(ctx, err)
	}
	return ctx, cancel, in, nil
}

// bounded returns a context that ends at --timeout. If the command has not stopped
// within grace of that, or of an interrupt, the process is ended: a library that is
// busy with hostile input may never look at the context.
func bounded(ctx context.Context, timeout time.Duration, stderr io.Writer) (context.Context, context.CancelFunc) {
	if w := tasks.Of(ctx); w != nil {
		return w.Bound(ctx, timeout)
	}
	over := fmt.Errorf("not done after --timeout %s", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, over)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(tasks.Grace):
			code := exitInterrupted
			if context.Cause(ctx) == over {
				code = exitIncomplete
			}
			fmt.Fprintf(stderr, "preadmit: %v; ended, because a part of the run did not stop\n", context.Cause(ctx))
			os.Exit(code)
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(done)
		stop()
		cancel()
	})
}

// runs returns a command's RunE, which takes defaults from the configuration,
// except for the command's own flags, and calls run.
func runs(code *int, run func(ctx context.Context, args []string, std stdio) (int, error), own ...string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := configure(without(cmd.Flags(), own...), args)
		if err == nil {
			*code, err = run(cmd.Context(), args, stdio{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		}
		return err
	}
}
