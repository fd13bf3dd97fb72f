package fix

import (
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A standard is a field of pods whose value the Pod Security Standards determine, with the fields
// above it in the pod or container.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
type standard struct {
	path   []string // below the pod's spec or the container
	pod    bool     // a field of the pod's spec
	value  any
	remove bool
	safe   bool // see policy.Fix
}

// The table. A field that pods and containers have is first set for the pod, which all its containers
// inherit.
var standardFields = []standard{
	{path: []string{"securityContext", "allowPrivilegeEscalation"}, value: false, safe: true},
	{path: []string{"securityContext", "seccompProfile"}, pod: true, value: runtimeDefault, safe: true},
	{path: []string{"securityContext", "seccompProfile"}, value: runtimeDefault, safe: true},
	{path: []string{"securityContext", "runAsNonRoot"}, pod: true, value: true},
	{path: []string{"securityContext", "runAsNonRoot"}, value: true},
	{path: []string{"securityContext", "readOnlyRootFilesystem"}, value: true},
	{path: []string{"securityContext", "capabilities", "drop"}, value: []any{"ALL"}},
	{path: []string{"securityContext", "capabilities", "add"}, remove: true},
	{path: []string{"securityContext", "privileged"}, value: false},
	{path: []string{"securityContext", "procMount"}, remove: true},
	{path: []string{"securityContext", "runAsUser"}, pod: true, remove: true},
	{path: []string{"securityContext", "runAsUser"}, remove: true},
	{path: []string{"securityContext", "windowsOptions", "hostProcess"}, pod: true, remove: true},
	{path: []string{"securityContext", "windowsOptions", "hostProcess"}, remove: true},
	{path: []string{"securityContext", "seLinuxOptions"}, pod: true, remove: true},
	{path: []string{"securityContext", "seLinuxOptions"}, remove: true},
	{path: []string{"securityContext", "sysctls"}, pod: true, remove: true},
	{path: []string{"hostNetwork"}, pod: true, remove: true},
	{path: []string{"hostPID"}, pod: true, remove: true},
	{path: []string{"hostIPC"}, pod: true, remove: true},
	{path: []string{"automountServiceAccountToken"}, pod: true, value: false},
	{path: []string{"hostPort"}, remove: true},
}

var runtimeDefault = map[string]any{"type": "RuntimeDefault"}

// standards returns the fixes for a field at fault. A field that is a parent of several is completed
// to those that the rule names in its text.
func standards(object map[string]any, field, text string) []policy.Fix {
	var fixes []policy.Fix
	path := render.Path(field)
	for _, s := range standardFields {
		name := s.path[len(s.path)-1]
		at := slices.Index(path, name)
		switch {
		case at >= 0:
			fixes = append(fixes, s.fix(object, path[:at+1])...)
		case !strings.Contains(text, name) || s.remove:
		default:
			for _, owner := range owners(object, path, s.pod) {
				fixes = append(fixes, s.fix(object, slices.Concat(owner, s.path))...)
			}
		}
	}
	return fixes
}

// fix returns the fix of a standard's field at a path.
func (s *standard) fix(object map[string]any, path []string) []policy.Fix {
	pointer := render.PathPointer(path)
	if inContainer := slices.ContainsFunc(path, isContainers); inContainer == s.pod && s.path[0] == "securityContext" {
		return nil
	}
	was, there := render.Lookup(object, pointer)
	f := policy.Fix{Edit: render.Edit{Pointer: pointer, Delete: s.remove, Value: s.value}, Unsafe: !s.safe, Source: policy.FixStandard}
	if list, ok := was.([]any); ok && len(list) > 0 && !s.remove {
		f.Pointer, f.Value = pointer+"/-", s.value.([]any)[0]
	}
	if s.remove && !there {
		return nil
	}
	return []policy.Fix{f}
}

func isContainers(key string) bool {
	return key == "containers" || key == "initContainers" || key == "ephemeralContainers"
}

// owners returns the paths of the containers at a path, or of the pod's spec that it is in.
func owners(object map[string]any, path []string, pod bool) [][]string {
	at := slices.IndexFunc(path, isContainers)
	spec := path
	if at >= 0 {
		spec = path[:at]
	} else if end := slices.Index(path, "securityContext"); end >= 0 {
		spec = path[:end]
	}
	if v, _ := render.Lookup(object, render.PathPointer(spec)); at < 0 && !hasContainers(v) {
		if spec = podSpec(object); spec == nil {
			return nil
		}
	}
	if pod {
		return [][]string{spec}
	}
	if at >= 0 && at+1 < len(path) {
		return [][]string{path[:at+2]}
	}
	var all [][]string
	for _, key := range []string{"containers", "initContainers", "ephemeralContainers"} {
		list, _ := render.Lookup(object, render.PathPointer(append(slices.Clone(spec), key)))
		items, _ := list.([]any)
		for i := range items {
			all = append(all, append(slices.Clone(spec), render.Path(render.Pointer(key, i))...))
		}
	}
	return all
}

func hasContainers(v any) bool {
	m, _ := v.(map[string]any)
	return m["containers"] != nil
}

// podSpec returns the path of the pod's spec in a workload, or nil.
func podSpec(object map[string]any) []string {
	for _, p := range [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"}} {
		if v, ok := render.Lookup(object, render.PathPointer(p)); ok && hasContainers(v) {
			return p
		}
	}
	return nil
}
