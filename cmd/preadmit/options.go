package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/helm"
)

// sources are the flags that say what is rendered, and how.
type sources struct {
	values      []string
	set         []string
	setString   []string
	setFile     []string
	release     string
	namespace   string
	includeCRDs bool
	kubeVersion string
	apiVersions []string

	selection    render.Selection
	gitops       gitopsMode
	clusters     []string // that are looked at; none is all
	repositories []string // other names of this repository

	jobs    int
	timeout time.Duration
	supervision
	verbose bool
	quiet   bool

	config string // read by configure
	store  string // beside the tree's own

	progress *progress    // of a screen; nil elsewhere
	watch    *tasks.Watch // of a child; nil elsewhere
}

func (o *sources) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.values, "values", "f", nil, "values `FILE` for the charts named, later ones win (repeatable)")
	f.StringArrayVar(&o.set, "set", nil, "a chart value, `KEY=VALUE` as in helm (repeatable)")
	f.StringArrayVar(&o.setString, "set-string", nil, "a chart value that is a string, `KEY=VALUE` (repeatable)")
	f.StringArrayVar(&o.setFile, "set-file", nil, "a chart value read from a file, `KEY=FILE` (repeatable)")
	f.StringVar(&o.release, "release", "", "`NAME` of the release (default: the chart's)")
	f.StringVarP(&o.namespace, "namespace", "n", "", "`NAMESPACE` of objects that name none (default: default)")
	f.BoolVar(&o.includeCRDs, "include-crds", true, "render the crds directories of charts")
	f.Var((*kubeVersion)(&o.kubeVersion), "kube-version", "version of the API server, `X.Y` (default: the newest known)")
	f.StringSliceVar(&o.apiVersions, "api-versions", nil, "`LIST` of API versions for the capabilities of charts")
	f.StringArrayVar(&o.selection.Exclude, "exclude", nil, "ignore paths that match `GLOB`, from the repository's root: * within a name, ** across directories (repeatable)")
	f.BoolVar(&o.selection.Hidden, "include-hidden", false, "include hidden directories and fixtures of test suites")
	o.gitops = gitopsAuto
	f.Var(&o.gitops, "gitops", "follow Argo CD and Flux objects: auto, only (ignore what none of them deploys) or off")
	f.StringArrayVar(&o.clusters, "cluster", nil, "only what is deployed to the cluster `NAME` (repeatable)")
	f.StringArrayVar(&o.repositories, "repository", nil, "`URL` that GitOps objects use for this repository, if it is not that of the remote origin (repeatable)")
	f.IntVarP(&o.jobs, "jobs", "j", 0, "render and evaluate `N` units and objects at once (default: the number of processors, fewer if memory is short)")
	f.StringVar(&o.config, "config", "", "read defaults for flags from `FILE` (default: "+configFile+", if it exists); with --base from that revision")
	f.StringVar(&o.store, "store", "", "read what preadmit fetch stored in `DIR`, or what an OCI image layout there holds, besides .preadmit/vendor")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "stop after `DURATION`")
	o.supervision.addFlags(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "also report passes and files without objects")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "report only what fails the run or is undecided, and no summary on standard error")
}

// pathFlags are the flags whose values are paths: from the working directory
// on the command line, from the repository's root in the configuration file.
// That of authorizer is one unless it is a mode.
var pathFlags = []string{"values", "policy", "with", "as-file", "authorizer", "suppressions"}

// start checks the flags that can be wrong by themselves, and applies --jobs, up
// to the number of processors: more would only take memory.
func (o *sources) start() error {
	switch {
	case o.jobs < 0:
		return fmt.Errorf("--jobs %d is negative; 0 is the number of processors", o.jobs)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout %s is no time to run in", o.timeout)
	}
	if err := o.supervision.check(); err != nil {
		return err
	}
	if o.namespace != "" {
		if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
			return fmt.Errorf("--namespace %q can't be the name of a Namespace: small letters, digits and dashes, at most 63, with a letter or digit at both ends", o.namespace)
		}
	}
	if err := helm.CheckSet(o.set, o.setString); err != nil {
		return err
	}
	if o.jobs > 0 {
		runtime.GOMAXPROCS(min(o.jobs, runtime.NumCPU()))
	}
	return nil
}

// apply gives the chart parameters of the command line to sources that are
// charts and the namespace to all.
func (o *sources) apply(t *tree, stdin io.Reader, srcs []render.Source) error {
	params := render.Helm{
		ReleaseName: o.release, Set: o.set, SetString: o.setString,
		KubeVersion: o.kubeVersion, APIVersions: o.apiVersions, SkipCRDs: !o.includeCRDs,
	}
	for _, v := range o.values {
		name, err := t.name(v, stdin)
		if err != nil {
			return err
		}
		params.ValueFiles = append(params.ValueFiles, name)
	}
	for _, kv := range o.setFile {
		resolved, err := setFile(t, stdin, kv)
		if err != nil {
			return err
		}
		params.SetFile = append(params.SetFile, resolved)
	}
	for i := range srcs {
		srcs[i].Namespace = cmp.Or(srcs[i].Namespace, o.namespace)
		switch srcs[i].Kind {
		case "helm":
			h := params
			srcs[i].Helm = &h
		case "kustomize": // for the charts in it
			srcs[i].Helm = &render.Helm{KubeVersion: o.kubeVersion, APIVersions: o.apiVersions}
		}
	}
	return nil
}

// policyFlags choose the policies, and who applies the objects.
type policyFlags struct {
	policies       []string
	packs          []string
	noTreePolicies bool
	with           []string
	as             string
	asGroups       []string
	failOn         failOn
	regos
}

func (o *policyFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.policies, "policy", "p", nil, "evaluate the policies, Rego included, in a file or directory `PATH`, or at oci://REGISTRY/NAME:TAG or a URL as preadmit fetch brought them (repeatable)")
	f.StringArrayVar(&o.packs, "pack", nil, "evaluate the embedded policy pack `NAME`, see preadmit packs (repeatable)")
	f.BoolVar(&o.noTreePolicies, "no-tree-policies", false, "ignore the policies among the rendered objects")
	f.StringArrayVar(&o.with, "with", nil, "objects that already exist on the cluster, such as Namespaces and CRDs, in a file or directory `PATH`, or at a URL or oci://REGISTRY/NAME:TAG as preadmit fetch brought them: policies can look them up, but they are not checked (repeatable)")
	f.StringVar(&o.as, "as", "", "evaluate as if `USER` applied the objects (request.userInfo)")
	f.StringArrayVar(&o.asGroups, "as-group", nil, "evaluate as if USER were a member of `GROUP` (repeatable)")
	o.regos.addFlags(f)
	o.failOn = failOn(policy.Deny)
	f.Var(&o.failOn, "fail-on", "exit 1 if a failure has at least this action: deny, warn, audit or never")
}

// addresses are those among the policies, their data and the objects of the
// cluster that are not paths.
func (o *policyFlags) addresses() []string {
	return slices.DeleteFunc(slices.Concat(o.policies, o.data, o.with), func(p string) bool { return !render.IsAddress(p) })
}

// failOn is the value of --fail-on: an action, or "never".
type failOn policy.Action

func (f *failOn) String() string { return string(*f) }
func (f *failOn) Type() string   { return "ACTION" }

func (f *failOn) Set(s string) error {
	*f = failOn(s)
	return oneOf(s, failActions()...)
}

func failActions() []string {
	var names []string
	for _, a := range policy.Actions {
		names = append(names, string(a))
	}
	return append(names, "never")
}

// kubeVersion is the value of --kube-version.
type kubeVersion string

func (v *kubeVersion) String() string { return string(*v) }
func (v *kubeVersion) Type() string   { return "string" }

func (v *kubeVersion) Set(s string) error {
	*v = kubeVersion(s)
	return schema.CheckVersion(s)
}

// gitopsMode is the value of --gitops.
type gitopsMode string

const (
	gitopsAuto gitopsMode = "auto"
	gitopsOnly gitopsMode = "only"
	gitopsOff  gitopsMode = "off"
)

var gitopsModes = []string{string(gitopsAuto), string(gitopsOnly), string(gitopsOff)}

func (m *gitopsMode) String() string { return string(*m) }
func (m *gitopsMode) Type() string   { return "MODE" }

func (m *gitopsMode) Set(s string) error {
	*m = gitopsMode(s)
	return oneOf(s, gitopsModes...)
}

// chartFlag is a flag of the command line that only charts take, if there is one.
func (o *sources) chartFlag() string {
	switch {
	case len(o.values) > 0:
		return "--values"
	case len(o.set)+len(o.setString)+len(o.setFile) > 0:
		return "--set"
	case o.release != "":
		return "--release"
	}
	return ""
}

// setFile resolves the path in a --set-file value.
func setFile(t *tree, stdin io.Reader, kv string) (string, error) {
	for i, c := range kv {
		if c == '=' {
			name, err := t.name(kv[i+1:], stdin)
			return kv[:i+1] + name, err
		}
	}
	return "", fmt.Errorf("--set-file %s: want KEY=FILE", kv)
}
