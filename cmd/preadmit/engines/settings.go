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
	"github.com/preadmit/preadmit/render/delivery"
)

// Settings are the options that engines get, besides objects, Rego modules and their data. The
// cache key is the hash of the whole struct, so no option can be forgotten in it. Fields must be
// exported plain data.
type Settings struct {
	KubeVersion     string
	DisabledPlugins []string // default admission plugins that the API server does not run
	Day             string   // in UTC; its midnight is the current time for policies
	User            policy.UserInfo
	UserGiven       bool   // User is from the command line; else units may have users of their own
	Authorizer      string // a mode of authz, or the value that names a file of rules
	AuthorizerFile  string // the display name of that file; "" for a mode
	AuthorizerData  []byte // of that file
	NoTreePolicies  bool
	PoliciesGiven   bool // by --policy
	Packs           []string
	RegoNamespaces  []string
	Combine         bool
	Variables       bool // Flux substitutes variables in objects
	Verbose         bool // reports costs and the output of print in policies
}

// now returns the beginning of the day, so that all runs of a day give the same results.
func (s *Settings) now() time.Time {
	day, _ := time.Parse(time.DateOnly, s.Day)
	return day
}

// Authorizes reports whether the authorizer decides by the user.
func (s *Settings) Authorizes() bool {
	return !slices.Contains([]string{"", "unknown", "allow", "deny"}, s.Authorizer)
}

// methods are the methods of requests by which deployers send objects.
var methods = map[delivery.Act]policy.Method{
	delivery.Apply: policy.Apply, delivery.ApplyDifference: policy.ApplyDifference,
	delivery.ApplyServerSide: policy.ApplyServerSide, delivery.ApplyAsData: policy.ApplyAsData, delivery.Replace: policy.Replace,
}

// By sets the user and the method of requests, and returns reqs. The user is that of the command line,
// else the one that applies the object's unit, else the default user. The method is that of the
// deployer.
func (s *Settings) By(reqs []policy.Request) []policy.Request {
	for i := range reqs {
		r := &reqs[i]
		r.UserInfo = s.User
		if u := r.Subject().Unit; !s.UserGiven && u != nil && u.User != "" {
			r.UserInfo = authz.Complete(policy.UserInfo{Username: u.User})
		}
		if r.Object != nil {
			r.Method = methods[delivery.Sends(r.OldObject, r.Object)]
		}
	}
	return reqs
}

// OnCluster returns the options for a cluster, which may have its own Kubernetes version.
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

// AmongClusters returns the options for one of several clusters. The default pack is not used for a
// cluster without policies if another cluster has some.
func (o Options) AmongClusters(trusted *load.Input) Options {
	s := *o.Settings
	s.PoliciesGiven = s.PoliciesGiven || !s.NoTreePolicies && slices.ContainsFunc(render.Objects(trusted.Head), lint.IsPolicy)
	o.Settings = &s
	return o
}

// ForCluster returns the part of an input that is used to evaluate the objects of a cluster, and the
// options for it.
func (o Options) ForCluster(in *load.Input, cluster string) (*load.Input, Options) {
	if names := load.ClusterNames(in); len(names) < 2 {
		return in, o.OnCluster(in, append(names, "")[0])
	}
	return in.On(cluster), o.AmongClusters(in).OnCluster(in, cluster)
}
