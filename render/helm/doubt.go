package helm

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/preadmit/preadmit/render"
)

// A doubt is the reason why a value can't be known offline.
type doubt uint8

const (
	byLookup  doubt = iota
	byUpgrade       // this and the next two have variants
	byVersions
	byTime
	byChance
	byHostName
	byRevision
	byKubeDetail
	byOrder
	byCommit
	byKubeVersion // these have assumed values unless the user sets them
	byHelm
	byReleaseName
	byNamespace
	doubtCount
)

var reasons = [doubtCount]string{
	byLookup: "what lookup finds", byUpgrade: "whether this is an upgrade", byVersions: "the list of API versions that the cluster serves",
	byTime: "the time", byChance: "random values", byHostName: "what a host name resolves to", byRevision: "the release's revision",
	byKubeDetail: "the patch version or the suffix of the version of Kubernetes", byHelm: "the version of Helm", byOrder: "the order of a map's keys",
	byCommit: "the commit that Argo CD deploys", byKubeVersion: "the version of Kubernetes",
	byReleaseName: "the release's name", byNamespace: "the release's namespace",
}

// assumptions are the rules of the errors that name assumed values.
var assumptions = map[doubt]string{byKubeVersion: render.AssumedVersion, byHelm: render.AssumedVersion, byReleaseName: render.AssumedRelease, byNamespace: render.AssumedRelease}

// assumedBy maps each assumption of a function to the doubt about its result.
var assumedBy = map[string]doubts{
	assumedLookup: unknown(byLookup), assumedClock: text(byTime), assumedRandom: text(byChance), assumedKeys: text(byChance), assumedHost: unknown(byHostName),
}

// doubts are the reasons why a value may be another one on a cluster, in three degrees: the value is
// or contains a text that differs but is never empty, the value may be anything, or it was chosen
// among known values by one that is in doubt. A condition is in doubt for the last two. A printed
// value matters for the last one: a template may write with it what a side of a branch would.
type doubts uint64

const degree = 20 // bits

func text(d doubt) doubts    { return 1 << d }
func unknown(d doubt) doubts { return 1 << (degree + d) }

const (
	texts      doubts = 1<<degree - 1
	names             = 1<<byReleaseName | 1<<byNamespace | 1<<byCommit
	kube              = 1<<byKubeVersion | 1<<byKubeDetail
	anyVersion        = kube | 1<<byHelm
)

// each returns the reasons, whatever their degree.
func (d doubts) each() doubts { return (d | d>>degree | d>>(2*degree)) & texts }

// has reports whether a reason is among them.
func (d doubts) has(x doubt) bool { return d.each()&text(x) != 0 }

// without removes reasons of the first degree.
func (d doubts) without(reasons doubts) doubts { return d &^ reasons }

// unsure is about a value whose contents depend on doubtful ones.
func (d doubts) unsure() doubts { return d.each() << degree }

// chosen is about a value that doubtful ones choose.
func (d doubts) chosen() doubts { return d.each() << (2 * degree) }

// decides is about whether a value is true.
func (d doubts) decides(true bool) doubts {
	if true {
		return d &^ texts
	}
	return d
}

// worst returns the doubt to report: one that a release does not settle, and rather one that leaves
// the run undecided.
func (r *release) worst(d doubts) (doubt, bool) {
	for d = d.each(); d != 0; d &= d - 1 {
		if x := doubt(bits.TrailingZeros64(uint64(d))); !r.given(x) {
			return x, true
		}
	}
	return 0, false
}

// given reports whether the user has set the value that a doubt is about, or variants have each.
func (r *release) given(d doubt) bool {
	switch d {
	case byUpgrade:
		return true
	case byHelm:
		return params(r.src).Version != ""
	case byKubeDetail:
		return isFullVersion(params(r.src).KubeVersion)
	case byKubeVersion:
		return params(r.src).KubeVersion != ""
	case byReleaseName:
		return params(r.src).ReleaseName != ""
	case byNamespace:
		return r.src.Namespace != ""
	}
	return false
}

// A branch is a branch whose condition was in doubt when it was executed, or an action that printed
// a chosen value. Each way to call its template counts as one.
type branch struct {
	at      asked
	call    uint64 // identifies the calls that led to it
	sides   [2]bool
	doubted doubts
	taken   [2]bool
}

// doubtful records a branch, or an action, whose condition or value is in doubt.
func (r *run) doubtful(p *pipe, sides [2]bool, d doubts, taken [2]bool) {
	if !sides[0] && !sides[1] {
		return
	}
	key := branchKey{p, r.file, r.frame.scope.call}
	b := r.branches[key]
	if b == nil {
		b = &branch{at: asked{src: p.src, spot: p.spot + p.src.base, file: r.file}, call: key.call, sides: sides}
		r.branches[key] = b
	}
	b.doubted |= d
	b.taken[0], b.taken[1] = b.taken[0] || taken[0], b.taken[1] || taken[1]
}

type branchKey struct {
	pipe *pipe
	file string
	call uint64
}

// reportBranches reports which sides of doubtful branches were taken. What NOTES.txt writes is not
// deployed.
func (r *release) reportBranches(x *execution) {
	for _, b := range x.branches {
		d, ok := r.worst(b.doubted)
		if !ok || isNotes(b.at.file) {
			continue
		}
		at := x.spanOf(b.at)
		for side, taken := range b.taken {
			if b.sides[side] {
				r.src.Inputs.Branch(render.Branch{Span: at, Call: b.call, Else: side == 1, Taken: taken, Why: reasons[d], Assumed: assumptions[d]})
			}
		}
	}
}

// doubtCluster records the doubts about the data of the release and the cluster.
func (r *run) doubtCluster(values chartutil.Values) {
	if release, ok := values["Release"].(map[string]any); ok {
		for key, d := range map[string]doubts{
			"Name": text(byReleaseName), "Namespace": text(byNamespace),
			"IsUpgrade": unknown(byUpgrade), "IsInstall": unknown(byUpgrade), "Revision": unknown(byRevision),
		} {
			release[key] = r.boxed(release[key], d)
		}
	}
	if caps, ok := values["Capabilities"].(*chartutil.Capabilities); ok {
		r.versions = []string{caps.KubeVersion.Version, caps.HelmVersion.Version}
	}
	r.mutable = anyText(values["Values"], changesMaps, 0)
}

// changesMaps reports whether a text may change maps if it is given to tpl.
func changesMaps(s string) bool {
	return strings.Contains(s, "{{") && (strings.Contains(s, "set") || strings.Contains(s, "erge"))
}

func anyText(v any, is func(string) bool, depth int) bool {
	switch v := v.(type) {
	case string:
		return is(v)
	case chartutil.Values:
		return anyText(map[string]any(v), is, depth)
	case map[string]any:
		for _, e := range v {
			if depth < maxValue && anyText(e, is, depth+1) {
				return true
			}
		}
	case []any:
		return depth < maxValue && slices.ContainsFunc(v, func(e any) bool { return anyText(e, is, depth+1) })
	}
	return false
}

var fullVersion = regexp.MustCompile(`^v?\d+\.\d+\.\d+`)

// isFullVersion reports whether a version names a patch version.
func isFullVersion(version string) bool { return fullVersion.MatchString(version) }
