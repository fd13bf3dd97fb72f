package podsecurity

import (
	"slices"
	"strings"

	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/preadmit/preadmit/policy/internal/podsecurity"
)

// A control is one revision of a check of the standards.
type control struct {
	id    string
	since api.Version // of the revision
	check psa.CheckPodFn
}

// locate returns the pointers of the fields for which a control refuses a pod,
// in the order in which its message names them.
func (c control) locate(p *pod) []string {
	if p.read == nil {
		p.read = podsecurity.NewPod(p.meta, p.spec, p.at)
	}
	return podsecurity.Locate(c.id, c.check, p.read)
}

// levels returns the controls of each level at each version. The library's own
// evaluator does not say which control a result is from.
type levels struct {
	checks []psa.Check // baseline before restricted, each by ID, as the library reports them
	newest api.Version // that the API server knows
}

func newLevels(checks []psa.Check, limit api.Version) levels {
	l := levels{checks: checks}
	for _, c := range checks {
		for _, v := range c.Versions {
			if l.newest.Older(v.MinimumVersion) {
				l.newest = v.MinimumVersion
			}
		}
	}
	if limit.Older(l.newest) {
		l.newest = limit
	}
	slices.SortFunc(l.checks, func(a, b psa.Check) int {
		if a.Level != b.Level {
			return api.CompareLevels(a.Level, b.Level)
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return l
}

// controls returns the controls of a level at a version, in the API server's
// order. An unknown newer version counts as the newest known one.
func (l levels) controls(lv api.LevelVersion) []control {
	at := lv.Version
	if l.newest.Older(at) {
		at = l.newest
	}
	var found []control
	overridden := make(map[string]bool)
	for _, c := range l.checks {
		if api.CompareLevels(c.Level, lv.Level) > 0 {
			continue
		}
		v, ok := revision(c, at)
		if !ok {
			continue
		}
		for _, id := range v.OverrideCheckIDs {
			overridden[string(id)] = true
		}
		found = append(found, control{id: string(c.ID), since: v.MinimumVersion, check: v.CheckPod})
	}
	return slices.DeleteFunc(found, func(c control) bool { return overridden[c.id] })
}

// revision returns the revision of a check that applies at a version.
func revision(c psa.Check, at api.Version) (found psa.VersionedCheck, ok bool) {
	for _, v := range c.Versions {
		if !at.Older(v.MinimumVersion) {
			found, ok = v, true
		}
	}
	return found, ok
}
