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

	Packs          []string
	NoTreePolicies bool
	As             string
	AsGroups       []string
	Namespaces     []string // packages of Rego
	Combine        bool

	AllowNew        bool // suppressions that the change adds count
	Date            time.Time
	FromKubeVersion string   // rehearse the upgrade from there
	Enforce         []string // rehearse that these deny
	EnforceBy       string

	// Reconfigured returns the options of a run with another configuration, or an error
	// if that holds wrong flags.
	Reconfigured func(root, file string, node *yaml.Node) (*Reconfigured, error)

	Part     *shard              // nil means the whole run
	Prints   *engines.Prints     // output of print in policies, or nil
	Passes   *policy.Passes      // where passes are kept apart; nil where each is looked at
	Held     *policy.CompactList // where other results about objects are kept apart; nil where they are changed later
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

// EngineOptions returns the engines' options from the command line and the
// files that it names. assumed is a note about the user.
func (o *Options) EngineOptions(in *load.Input) (b engines.Options, assumed string, err error) {
	s := &engines.Settings{
		KubeVersion: o.KubeVersion, Day: o.Day().UTC().Format(time.DateOnly), Authorizer: o.Authorizer,
		NoTreePolicies: o.NoTreePolicies, PoliciesGiven: len(o.Policies) > 0, Packs: o.Packs,
		RegoNamespaces: o.Namespaces, Combine: o.Combine, Verbose: o.Verbose,
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
