package main

import (
	"slices"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/render"
)

// engineSettings are all that engines are made of besides objects, Rego modules
// and their data. Engines get nothing else of the command line, and the cache
// key is the hash of the whole struct, so no option can be forgotten in it:
// fields must be exported plain data.
type engineSettings struct {
	KubeVersion    string
	Day            string // in UTC: the time that policies are given is its midnight
	User           policy.UserInfo
	UserGiven      bool   // by the command line; else a unit may have one of its own
	Authorizer     string // a mode of authz, or what names a file of rules
	AuthorizerFile string // the display name of that file; "" for a mode
	AuthorizerData []byte // of that file
	NoTreePolicies bool
	PoliciesGiven  bool // by --policy
	Packs          []string
	RegoNamespaces []string
	Combine        bool
	Variables      bool // Flux puts values for variables into objects
	Verbose        bool // costs are reported, and what policies print
}

// benchOptions reads the settings from the command line and the files that it
// names. assumed is a note about the user.
func (o *evaluateOptions) benchOptions(in *load.Input) (b benchOptions, assumed string, err error) {
	s := &engineSettings{
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
	return benchOptions{engineSettings: s, prints: o.prints, watch: o.Watch, coverage: o.branches, definitions: new(crd.Reviews)}, assumed, err
}

// now is when the day begins, so that all runs of a day give the same results.
func (s *engineSettings) now() time.Time {
	day, _ := time.Parse(time.DateOnly, s.Day)
	return day
}
