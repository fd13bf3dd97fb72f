package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The gitlab format is GitLab's Code Quality report (November 2026):
//
//   - GitLab compares the reports of two branches by fingerprint, and shows only the
//     first of equal ones. So fingerprints are unique, and hold no line numbers.
//   - Failures that the base has are in it, or GitLab would show them as fixed.
//     Suppressed failures are not.
//   - A path is relative, without "./", and names a file in the repository.
//   - There is no place for totals, so the last entry counts the entries left out.
const maxEntries = 20_000

// A qualityEntry is one entry, its keys in the order of GitLab's documentation.
type qualityEntry struct {
	Description string          `json:"description"`
	CheckName   string          `json:"check_name"`
	Fingerprint string          `json:"fingerprint"`
	Severity    string          `json:"severity"`
	Location    qualityLocation `json:"location"`
}

type qualityLocation struct {
	Path  string       `json:"path"`
	Lines qualityLines `json:"lines"`
}

type qualityLines struct {
	Begin int `json:"begin"`
}

type qualityWriter struct {
	src  *source
	ids  *ruleIDs
	seen map[string]int // fingerprints before they were made unique
}

func writeGitLab(w io.Writer, r *Report, _ Options) error {
	r = withUnits(r)
	results := newList(r)
	q := &qualityWriter{src: newSource(r), ids: newRuleIDs(r, results), seen: make(map[string]int)}
	found := groupBy(results, func(x *policy.Result) bool {
		return x.Suppression == nil && !x.Unreached && x.Baseline != policy.Absent
	})
	slices.SortStableFunc(found, func(a, b *group) int {
		return cmp.Or(cmp.Compare(severityOrder(a), severityOrder(b)), worseFirst(a, b))
	})
	j := newJSONWriter(w)
	for i, g := range found[:min(maxEntries, len(found))] {
		j.text(separator(i))
		j.value(q.entry(g))
	}
	if len(found) > maxEntries {
		j.text(separator(maxEntries))
		j.value(q.rest(found[maxEntries:]))
	}
	if len(found) == 0 {
		j.text("[")
	}
	j.text("\n]\n")
	return j.flush()
}

// separator returns the text before element i of an array.
func separator(i int) string {
	if i == 0 {
		return "[\n "
	}
	return ",\n "
}

func (q *qualityWriter) entry(g *group) *qualityEntry {
	x := g.first()
	return &qualityEntry{
		Description: q.description(g),
		CheckName:   q.ids.id(x),
		Fingerprint: q.fingerprint(x),
		Severity:    qualitySeverity(g),
		Location:    q.location(x),
	}
}

// rest returns one entry for all findings that are left out, at the place of the first.
func (q *qualityWriter) rest(left []*group) *qualityEntry {
	return &qualityEntry{
		Description: fmt.Sprintf("%d more findings are left out, the worst of them here; the JSON report has all.", len(left)),
		CheckName:   "preadmit/left-out",
		Fingerprint: q.unique("left-out"),
		Severity:    qualitySeverity(left[0]),
		Location:    q.location(left[0].first()),
	}
}

func (q *qualityWriter) description(g *group) string {
	x := g.first()
	text := classes[g.class].word + ": " + subject(x.Object) + headlineOf(x)
	if n := len(objects(g.results)); n > 1 {
		text += " (and " + policy.Plural(n-1, "more object") + ")"
	}
	return render.Cut(text, maxSARIFMessage)
}

// location returns the line that a person would edit, or the nearest file of the tree.
func (q *qualityWriter) location(x *policy.Result) qualityLocation {
	at, _, ok := q.src.locate(x)
	if !ok {
		return qualityLocation{Path: cmp.Or(visible(strings.TrimPrefix(x.Object.Unit, "./"), maxMessage), "unknown"), Lines: qualityLines{1}}
	}
	return qualityLocation{Path: visible(at.File, maxMessage), Lines: qualityLines{max(at.Line, 1)}}
}

// fingerprint identifies a finding by its object and unit. The report's own fingerprint
// may be equal for two manifests of one object.
func (q *qualityWriter) fingerprint(x *policy.Result) string {
	return q.unique(strings.Join([]string{
		x.Fingerprint, q.ids.id(x), x.Object.Unit, x.Object.APIVersion, x.Object.Kind, x.Object.Namespace, x.Object.Name,
	}, "\x00"))
}

// unique returns a hash of a text and of how often that text was seen before.
func (q *qualityWriter) unique(s string) string {
	n := q.seen[s]
	q.seen[s]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", s, n))
	return hex.EncodeToString(sum[:16])
}

var qualitySeverities = []string{"blocker", "critical", "major", "minor", "info"}

func severityOrder(g *group) int { return slices.Index(qualitySeverities, qualitySeverity(g)) }

// qualitySeverity returns GitLab's severity for a finding. It depends on the action first, and then
// on the severity that the policy's author gives.
func qualitySeverity(g *group) string {
	severe := severityRank(g.severity) <= severityRank(policy.High)
	switch {
	case g.class == denied && g.severity == policy.Critical:
		return "blocker"
	case g.class == denied, g.class == broken:
		return "critical"
	case g.class == audited:
		return "info"
	case severe:
		return "major"
	default:
		return "minor"
	}
}
