package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// VariantRequests returns the requests that create the objects, and forms of
// objects, that only some installations of units have.
func VariantRequests(units []*render.Unit) []Request { return Creating(render.Variants(units)) }

// Creating returns the requests that create objects.
func Creating(objects []*render.Object) []Request {
	reqs := make([]Request, len(objects))
	for i, o := range objects {
		reqs[i] = Request{Operation: Create, Object: o}
	}
	return reqs
}

// notOnUpgrade is the label of what an upgrade of a release does not send.
const notOnUpgrade = "only outside upgrades"

// only names the installations in which the request is made, if it is not made in all.
func (r *Request) only() string {
	v := r.Subject().Variant
	switch {
	case r.Run == OtherRun:
		return notOnUpgrade
	case r.Run == UpgradeRun && v.IsUpgrade():
		return ""
	}
	return v.String()
}

// inVariant sets the variant of the result's object, which only names. Failures that depend on an invented result of
// lookup, version of Kubernetes or cluster become undecided.
func (r *Result) inVariant(v render.Variant, only string) {
	if only == "" || r.Only != "" {
		return
	}
	r.Only = only
	r.Message = r.Only + ": " + r.Message
	if v.Cluster != "" && r.Outcome == Fail {
		r.Assumed = append(slices.Clone(r.Assumed), assumedCluster+v.Cluster)
	}
	if v.Cluster != "" {
		r.Hint = "declare Argo CD's clusters, each with its server, under `clusters` in .preadmit/config.yaml"
	}
	if v.IsInvented() && r.Outcome == Fail {
		r.Outcome = Unknown
	}
}

const assumedCluster = "Argo CD knows a cluster "

// DenyOnClusters makes a failure of a result that is undecided only because a cluster is not known.
func (r *Result) DenyOnClusters() {
	if r.Outcome == Unknown && r.onCluster() {
		r.Outcome = Fail
	}
}

func (r *Result) onCluster() bool {
	return slices.ContainsFunc(r.Assumed, func(a string) bool { return strings.HasPrefix(a, assumedCluster) })
}

// repeats are the results that those of a variant may repeat, by their fingerprints.
type repeats[F comparable] map[repeated[F]]bool

type repeated[F comparable] struct {
	fingerprint F
	outcome     Outcome
	action      Action
}

// learn adds a result. A failure of the default is added without an outcome, too.
func (k repeats[F]) learn(fingerprint F, r *Result) {
	if r.Outcome == Fail || r.Undecided() {
		k[repeated[F]{fingerprint, r.Outcome, r.Action}] = true
	}
	if r.Outcome == Fail && r.Only == "" {
		k[repeated[F]{fingerprint, "", r.Action}] = true
	}
}

// has reports whether the result of a variant adds nothing to the learned ones. An undecided failure
// adds nothing if the default fails, unless DenyOnClusters may make a failure of it.
func (k repeats[F]) has(fingerprint F, r *Result) bool {
	return r.Outcome == Pass || r.Outcome == Skip || k[repeated[F]{fingerprint, r.Outcome, r.Action}] ||
		r.Outcome == Unknown && !r.onCluster() && k[repeated[F]{fingerprint, "", r.Action}]
}

// WithoutRepeats drops the results of variants that add nothing to those of the
// default or an earlier variant: passes, and results with the fingerprint, outcome and
// action of a failure among results or defaults, or undecided where the default fails.
func WithoutRepeats(results []Result, defaults ...iter.Seq[*Result]) []Result {
	known := repeats[string]{}
	any := false
	for i := range results {
		any = any || results[i].Only != ""
	}
	if !any {
		return results
	}
	for _, list := range append(defaults, Each(results)) {
		for r := range list {
			if r.Only == "" {
				known.learn(r.Fingerprint, r)
			}
		}
	}
	kept := make([]Result, 0, len(results))
	for i := range results {
		r := &results[i]
		if r.Only != "" {
			if known.has(r.Fingerprint, r) {
				continue
			}
			known.learn(r.Fingerprint, r)
		}
		kept = append(kept, *r)
	}
	return kept
}
