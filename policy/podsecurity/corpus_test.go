package podsecurity

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestUpstreamFixtures evaluates the pods that the library is tested with on real
// clusters: those under pass must pass at their level and version, each of
// those under fail must fail by the control that it is named after.
func TestUpstreamFixtures(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "test", "testdata")
	if _, statErr := os.Stat(dir); err != nil || statErr != nil {
		t.Skip("the sources of k8s.io/pod-security-admission are not at hand")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "v*", "*", "*.yaml"))
	if err != nil || len(files) < 1000 {
		t.Fatalf("only %d fixtures: %v", len(files), err)
	}
	for _, file := range files {
		parts := strings.Split(strings.TrimPrefix(file, dir+string(filepath.Separator)), string(filepath.Separator))
		evaluateFixture(t, file, parts[0], parts[1], parts[2] == "pass")
	}
}

func evaluateFixture(t *testing.T, file, level, version string, pass bool) {
	t.Helper()
	data := rendertest.ReadFile(t, file)
	e, err := New(Options{Level: level, KubeVersion: version})
	rendertest.OK(t, err)
	o := object(t, string(data))
	defaultVolumes(o)
	rs, err := e.Validate(t.Context(), request(t, policy.Create, o, nil))
	rendertest.OK(t, err)
	failed := make(map[string]bool)
	for _, r := range rs {
		if r.Outcome == policy.Fail {
			failed[strings.ToLower(r.Rule)] = true
			checkFields(t, file, o, r)
		}
	}
	name := strings.TrimRight(strings.TrimSuffix(filepath.Base(file), ".yaml"), "0123456789")
	if pass && len(failed) > 0 || !pass && !failed[name] && !failed[overriding[name]] {
		t.Errorf("%s: failed by %v", file, failed)
	}
}

// overriding are the restricted controls that stand for baseline ones.
var overriding = map[string]string{
	"hostpathvolumes":         "restrictedvolumes",
	"capabilities_baseline":   "capabilities_restricted",
	"seccompprofile_baseline": "seccompprofile_restricted",
	"procmount":               "procmount_restricted",
}

// defaultVolumes does what the API server does with volumes of no type.
func defaultVolumes(o *render.Object) {
	volumes, _ := render.Lookup(o.Object, "/spec/volumes")
	list, _ := volumes.([]any)
	for _, v := range list {
		if v := v.(map[string]any); len(v) == 1 {
			v["emptyDir"] = map[string]any{}
		}
	}
}

// checkFields: every pointer leads to something, or would in what is there.
func checkFields(t *testing.T, file string, o *render.Object, r policy.Result) {
	t.Helper()
	if len(r.Fields) == 0 {
		t.Errorf("%s: %s has no fields", file, r.Rule)
	}
	for _, f := range r.Fields {
		path := render.Path(f)
		if _, ok := render.Lookup(o.Object, f); ok {
			continue
		}
		for len(path) > 0 && path[len(path)-1] != "securityContext" {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			t.Errorf("%s: %s leads nowhere", file, f)
		}
	}
}
