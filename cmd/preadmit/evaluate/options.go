package evaluate

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/render"
)

// Options configure an evaluation.
type Options struct {
	load.Sources

	Packs           []string
	NoTreePolicies  bool
	DisabledPlugins []string // see engines.Settings
	As              string
	AsGroups        []string
	Namespaces      []string // Rego packages
	Combine         bool

	AllowNew        bool // suppressions that the change adds apply
	OnlyNew         bool // denials that the base has, too, do not count, also of objects that the change touches
	Accepts         bool // the command writes the suppressions file, which may not exist yet
	Date            time.Time
	FromKubeVersion string   // rehearse the upgrade from this version
	Enforce         []string // rehearse enforcing these policies

	// Reconfigured returns the options of a run with another configuration, or an error if that
	// holds wrong flags.
	Reconfigured func(root, file string, node *yaml.Node) (*Reconfigured, error)

	Part     *shard              // nil means the whole run
	Prints   *engines.Prints     // output of print in policies, or nil
	Passes   *policy.Passes      // collects passes; nil keeps them among the results
	Held     *policy.CompactList // collects other results about objects; nil keeps them among the results
	Branches *policy.Coverage    // branches that policies take, or nil without coverage
}

// Day returns the day on which suppressions must be valid.
func (o *Options) Day() time.Time {
	if o.Date.IsZero() {
		return time.Now()
	}
	return o.Date
}

// Midnight returns the beginning of that day. Policies see this time, so that
// all runs of a day give the same results.
func (o *Options) Midnight() time.Time { return o.Day().UTC().Truncate(24 * time.Hour) }

// EngineOptions returns the engines' options from the command line and its files. assumed is a note
// about an assumed user, or "".
func (o *Options) EngineOptions(in *load.Input) (b engines.Options, assumed string, err error) {
	s := &engines.Settings{
		KubeVersion: o.KubeVersion, Day: o.Day().UTC().Format(time.DateOnly), Authorizer: o.Authorizer,
		NoTreePolicies: o.NoTreePolicies, PoliciesGiven: len(o.Policies) > 0, Packs: o.Packs,
		DisabledPlugins: o.DisabledPlugins, RegoNamespaces: o.Namespaces, Combine: o.Combine, Verbose: o.Verbose,
		UserGiven: o.As != "" || len(o.AsGroups) > 0 || o.AsFile != "",
		Variables: slices.ContainsFunc(render.Objects(in.Head), render.Substitutes),
	}
	if s.User, assumed, err = o.requester(in); err != nil {
		return b, "", err
	}
	if !slices.Contains(authz.Modes, o.Authorizer) {
		s.AuthorizerFile, s.AuthorizerData, err = o.authorizerFile(in)
	}
	return engines.Options{Settings: s, Prints: o.Prints, Watch: o.Watch, Coverage: o.Branches, Definitions: new(crd.Reviews), Served: new(engines.Served)}, assumed, err
}
