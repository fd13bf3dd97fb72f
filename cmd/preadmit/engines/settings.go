package engines

import (
	"cmp"
	"slices"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
)

// Settings are all that engines are made of besides objects, Rego modules
// and their data. Engines get nothing else of the command line, and the cache
// key is the hash of the whole struct, so no option can be forgotten in it:
// fields must be exported plain data.
type Settings struct {
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

// now is when the day begins, so that all runs of a day give the same results.
func (s *Settings) now() time.Time {
	day, _ := time.Parse(time.DateOnly, s.Day)
	return day
}

// By gives requests the user that makes them: the one of the command line, else
// the one that applies the object's unit, else the one that is assumed.
func (s *Settings) By(reqs []policy.Request) []policy.Request {
	for i := range reqs {
		reqs[i].UserInfo = s.User
		if u := reqs[i].Subject().Unit; !s.UserGiven && u != nil && u.User != "" {
			reqs[i].UserInfo = authz.Complete(policy.UserInfo{Username: u.User})
		}
	}
	return reqs
}

// OnCluster are the options for a cluster, which may have a version of its own.
func (o Options) OnCluster(in *load.Input, cluster string) Options {
	s := *o.Settings
	for _, c := range in.Clusters {
		if c.Name == cluster {
			s.KubeVersion = cmp.Or(s.KubeVersion, c.KubeVersion)
		}
	}
	o.Settings = &s
	return o
}

// AmongClusters are the options for one of several clusters: one without policies
// is not evaluated by a pack where others have some.
func (o Options) AmongClusters(trusted *load.Input) Options {
	s := *o.Settings
	s.PoliciesGiven = s.PoliciesGiven || !s.NoTreePolicies && slices.ContainsFunc(render.Objects(trusted.Head), lint.IsPolicy)
	o.Settings = &s
	return o
}

// There is the part of an input by which objects of a cluster are evaluated, with
// the options for it.
func (o Options) There(in *load.Input, cluster string) (*load.Input, Options) {
	names := load.ClusterNames(in)
	if len(names) < 2 {
		return in, o.OnCluster(in, append(names, "")[0])
	}
	return in.On(cluster), o.AmongClusters(in).OnCluster(in, cluster)
}
