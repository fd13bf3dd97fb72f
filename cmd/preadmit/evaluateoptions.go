package main

import (
	"slices"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/render"
)

// evaluateOptions choose what is evaluated, and by what.
type evaluateOptions struct {
	load.Sources

	packs          []string
	noTreePolicies bool
	as             string
	asGroups       []string
	namespaces     []string // packages of Rego
	combine        bool

	allowNew        bool // suppressions that the change adds count
	date            time.Time
	fromKubeVersion string   // rehearse the upgrade from there
	enforce         []string // rehearse that these deny
	enforceBy       string

	part     *shard           // nil is the whole run
	prints   *engines.Prints          // by policies; nil where nobody reads it
	passes   *policy.Passes   // where passes are kept apart; nil where each is looked at
	branches *policy.Coverage // that policies take; nil if coverage is not asked for
}

// day is the day that suppressions are held against.
func (o *evaluateOptions) day() time.Time {
	if o.date.IsZero() {
		return time.Now()
	}
	return o.date
}

// midnight is when that day begins: the time that policies see, so that
// all runs of a day say the same.
func (o *evaluateOptions) midnight() time.Time { return o.day().UTC().Truncate(24 * time.Hour) }

// benchOptions reads the settings from the command line and the files that it
// names. assumed is a note about the user.
func (o *evaluateOptions) benchOptions(in *load.Input) (b engines.Options, assumed string, err error) {
	s := &engines.Settings{
		KubeVersion: o.KubeVersion, Day: o.day().UTC().Format(time.DateOnly), Authorizer: o.Authorizer,
		NoTreePolicies: o.noTreePolicies, PoliciesGiven: len(o.Policies) > 0, Packs: o.packs,
		RegoNamespaces: o.namespaces, Combine: o.combine, Verbose: o.Verbose,
		UserGiven: o.as != "" || len(o.asGroups) > 0 || o.AsFile != "",
		Variables: slices.ContainsFunc(render.Objects(in.Head), render.Substitutes),
	}
	if s.User, assumed, err = o.requester(in); err != nil {
		return b, "", err
	}
	if !slices.Contains(authz.Modes, o.Authorizer) {
		s.AuthorizerFile, s.AuthorizerData, err = o.authorizerFile(in)
	}
	return engines.Options{Settings: s, Prints: o.prints, Watch: o.Watch, Coverage: o.branches, Definitions: new(crd.Reviews)}, assumed, err
}
