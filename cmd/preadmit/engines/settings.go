package engines

import (
	"time"

	"github.com/preadmit/preadmit/policy"
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
