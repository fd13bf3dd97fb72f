package podsecurity

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLevels holds the choice of controls against the library's evaluator, for
// every level, version and version of the API server.
func TestLevels(t *testing.T) {
	t.Parallel()
	servers := []api.Version{api.LatestVersion()}
	for _, minor := range []int{0, 8, 18, 22, 24, 28, 34, 36, 99} {
		servers = append(servers, api.MajorMinorVersion(1, minor))
	}
	for _, server := range servers {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			want, err := psa.NewEvaluator(psa.DefaultChecks(), &server)
			rendertest.OK(t, err)
			got := newLevels(psa.DefaultChecks(), server)
			for _, level := range []api.Level{api.LevelPrivileged, api.LevelBaseline, api.LevelRestricted} {
				for minor := range 45 {
					compareLevels(t, got, want, api.LevelVersion{Level: level, Version: api.MajorMinorVersion(1, minor)})
				}
				compareLevels(t, got, want, api.LevelVersion{Level: level, Version: api.LatestVersion()})
			}
		})
	}
}

func compareLevels(t *testing.T, got levels, want psa.Evaluator, lv api.LevelVersion) {
	t.Helper()
	controls := got.controls(lv)
	for seed := range uint64(5) {
		meta, spec := newDice(seed).pod()
		var results []psa.CheckResult
		for _, c := range controls {
			results = append(results, c.check(meta, spec))
		}
		if diff := cmp.Diff(want.EvaluatePod(lv, meta, spec), results); diff != "" {
			t.Fatalf("%s, seed %d: %s", lv, seed, diff)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	tests := []struct {
		opts   Options
		newest string
		err    string
	}{
		{Options{Level: "baseline"}, "v1.37", ""},
		{Options{Level: "restricted", KubeVersion: "1.24"}, "v1.24", ""},
		{Options{Level: "restricted", KubeVersion: "v1.31.2-gke.1"}, "v1.31", ""},
		{Options{Level: "baseline", KubeVersion: "1.99"}, "v1.37", ""},
		{Options{Level: "baseline", KubeVersion: "newest"}, "", `kubernetes version must look like 1.31, not "newest"`},
		{Options{Level: "baseline", KubeVersion: "2.0"}, "", `kubernetes version must look like 1.31, not "2.0"`},
		{Options{Level: "baseline", KubeVersion: "1"}, "", `kubernetes version must look like 1.31, not "1"`},
		{Options{Level: "privileged"}, "v1.37", ""},
		{Options{}, "", `pod security level must be privileged, baseline or restricted, not ""`},
	}
	for _, test := range tests {
		e, err := New(test.opts)
		if got := errorString(err); got != test.err {
			t.Errorf("%+v: error %q, want %q", test.opts, got, test.err)
		}
		if err == nil && e.levels.newest.String() != test.newest {
			t.Errorf("%+v: newest is %s, want %s", test.opts, e.levels.newest.String(), test.newest)
		}
	}
}

func errorString(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}
