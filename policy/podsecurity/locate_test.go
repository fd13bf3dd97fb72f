package podsecurity

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// revisions are all controls in all their revisions.
func revisions() []control {
	var all []control
	for _, c := range psa.DefaultChecks() {
		for _, v := range c.Versions {
			all = append(all, control{id: string(c.ID), since: v.MinimumVersion, check: v.CheckPod})
		}
	}
	return all
}

// TestLocate holds the locators against the library: fields are found exactly
// when a control refuses a pod; repairing them all satisfies it; and leaving
// one of them as it is does not.
func TestLocate(t *testing.T) {
	t.Parallel()
	for _, c := range revisions() {
		t.Run(c.id+"/"+c.since.String(), func(t *testing.T) {
			t.Parallel()
			refused := 0
			for seed := range uint64(400) {
				meta, spec := newDice(seed).pod()
				p := &pod{meta: meta, spec: spec, at: "/spec/template"}
				if len(testLocate(t, c, p)) > 0 {
					refused++
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			if refused < 4 || refused > 396 {
				t.Errorf("%d of 400 pods were refused: the generator is of no use for this control", refused)
			}
		})
	}
}

func testLocate(t *testing.T, c control, p *pod) []string {
	t.Helper()
	allowed := c.check(p.meta, p.spec).Allowed
	fields := c.locate(p)
	if allowed {
		return nil
	}
	if seen := duplicate(fields); seen != "" {
		t.Errorf("%s is named twice", seen)
	}
	if v := repaired(t, c, p, fields); !v.Allowed {
		t.Errorf("still refused (%s) with all of %q repaired", v.ForbiddenDetail, fields)
	}
	if !strings.Contains(strings.Join(fields, " "), "/spec/template/spec/securityContext/"+inheritedField[c.id]) || inheritedField[c.id] == "" {
		for i := range fields {
			others := append(append([]string{}, fields[:i]...), fields[i+1:]...)
			if v := repaired(t, c, p, others); v.Allowed {
				t.Errorf("%s need not be repaired, given %q", fields[i], others)
			}
		}
	}
	return fields
}

// inheritedField is what containers may take from the pod, so that naming both
// is more than is needed.
var inheritedField = map[string]string{
	"runAsNonRoot": "runAsNonRoot", "seccompProfile_restricted": "seccompProfile",
}

func duplicate(fields []string) string {
	seen := make(map[string]bool)
	for _, f := range fields {
		if seen[f] {
			return f
		}
		seen[f] = true
	}
	return ""
}

// repaired asks the control about the pod with good values in the fields.
func repaired(t *testing.T, c control, p *pod, fields []string) psa.CheckResult {
	t.Helper()
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.spec)
	rendertest.OK(t, err)
	annotations := make(map[string]any)
	for k, v := range p.meta.Annotations {
		annotations[k] = v
	}
	tree := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
	for _, f := range fields {
		pointer, ok := strings.CutPrefix(f, p.at)
		if !ok {
			t.Fatalf("%s does not begin with %s", f, p.at)
		}
		repair(t, tree, render.Path(pointer))
	}
	fixed, err := extract(tree, "")
	rendertest.OK(t, err)
	return c.check(fixed.meta, fixed.spec)
}

// repair puts a good value where path leads, making what is missing on the way.
func repair(t *testing.T, at any, path []string) {
	t.Helper()
	for len(path) > 1 && path[0] != "volumes" {
		if path[0] == "seLinuxOptions" && path[1] == "type" {
			child(t, at, path[0], path[1]).(map[string]any)["type"] = "container_t"
			return
		}
		at = child(t, at, path[0], path[1])
		path = path[1:]
	}
	if path[0] == "volumes" {
		repairVolume(t, at, path[1:])
		return
	}
	switch at := at.(type) {
	case []any: // an added capability
		at[index(t, path[0])] = "NET_BIND_SERVICE"
	case map[string]any:
		at[path[0]] = goodValue(t, path[0])
	}
}

func child(t *testing.T, at any, key, next string) any {
	t.Helper()
	if list, ok := at.([]any); ok {
		return list[index(t, key)]
	}
	m := at.(map[string]any)
	if m[key] == nil {
		if _, err := strconv.Atoi(next); err == nil {
			t.Fatalf("there is no list %s", key)
		}
		m[key] = map[string]any{}
	}
	return m[key]
}

func index(t *testing.T, s string) int {
	t.Helper()
	i, err := strconv.Atoi(s)
	rendertest.OK(t, err)
	return i
}

// repairVolume takes a source away, as a person would, and puts emptyDir in
// its place where none is left.
func repairVolume(t *testing.T, spec any, path []string) {
	t.Helper()
	v := spec.(map[string]any)["volumes"].([]any)[index(t, path[0])].(map[string]any)
	if len(path) == 2 {
		if v[path[1]] == nil {
			t.Fatalf("the volume has no %s", path[1])
		}
		delete(v, path[1])
	}
	if len(v) == 1 {
		v["emptyDir"] = map[string]any{}
	}
}

func goodValue(t *testing.T, name string) any {
	t.Helper()
	if strings.Contains(name, "kubernetes.io/") {
		return "runtime/default"
	}
	good := map[string]any{
		"allowPrivilegeEscalation": false, "privileged": false, "hostProcess": false,
		"hostNetwork": false, "hostPID": false, "hostIPC": false,
		"runAsNonRoot": true, "runAsUser": int64(1000), "procMount": "Default",
		"drop": []any{"ALL"}, "hostPort": int64(0), "host": "",
		"user": "", "role": "", "name": "kernel.shm_rmid_forced", "type": "RuntimeDefault",
	}
	v, ok := good[name]
	if !ok {
		t.Fatalf("no good value known for %s", name)
	}
	return v
}

// TestLocateUnknownControl: a control that came with a newer library still
// leads somewhere.
func TestLocateUnknownControl(t *testing.T) {
	t.Parallel()
	c := control{id: "new", since: api.LatestVersion(), check: func(*metav1.ObjectMeta, *corev1.PodSpec) psa.CheckResult {
		return psa.CheckResult{}
	}}
	got := c.locate(&pod{meta: &metav1.ObjectMeta{}, spec: &corev1.PodSpec{}, at: "/template"})
	if len(got) != 1 || got[0] != "/template/spec" {
		t.Errorf("got %q", got)
	}
}

// TestLocateManyFields: hostile objects don't make endless results.
func TestLocateManyFields(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{}
	for range 5000 {
		spec.Volumes = append(spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}})
	}
	for _, c := range revisions() {
		if got := len(c.locate(&pod{meta: &metav1.ObjectMeta{}, spec: spec})); got > 100 {
			t.Errorf("%s names %d fields", c.id, got)
		}
	}
}
