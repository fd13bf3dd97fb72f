// Package podsecurity checks pods by the Pod Security Standards, field by
// field. Kyverno's rules that name the standards use it, and the native engine
// (policy/podsecurity) to find the fields at fault.
//
// The input is a pod ([Read]) and a level at a version ([New]). [Standard.Check]
// returns [Violation] values, each with the fields at fault; [Standard.Exempt] removes
// those that a rule excludes, and [Message] returns Kyverno's message for the rest.
// [Locate] returns the fields in the order of the API server's messages. The checks
// are those of k8s.io/pod-security-admission; Kyverno's copy of it differs only in the
// names of fields.
package podsecurity

import (
	"cmp"
	"fmt"

	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"
)

// A Violation is a check that a pod fails.
type Violation struct {
	Control string // Kyverno's controlName
	CheckID string
	Reason  string // as the library reports it: "allowPrivilegeEscalation != false"
	Fields  []FieldError
}

// A FieldError is one field at fault.
type FieldError struct {
	Field     string // as in spec.containers[0].securityContext.privileged
	Container string // its name; "" of a field of the pod
	Required  bool   // it is missing and must not be
	BadValue  any    // bool, int, string or []string; nil if required, or not reported
	Pointer   string // in the object

	// Parts are pointers of the elements or keys at fault; empty if the whole field
	// is.
	Parts []string
}

// controls maps checks to Kyverno's names.
var controls = map[string]string{
	"allowPrivilegeEscalation":   "Privilege Escalation",
	"appArmorProfile":            "AppArmor",
	"capabilities_baseline":      "Capabilities",
	"capabilities_restricted":    "Capabilities",
	"hostNamespaces":             "Host Namespaces",
	"hostPathVolumes":            "HostPath Volumes",
	"hostPorts":                  "Host Ports",
	"hostProbesAndHostLifecycle": "Host Probes / Lifecycle Hooks",
	"privileged":                 "Privileged Containers",
	"procMount":                  "/proc Mount Type",
	"procMount_restricted":       "/proc Mount Type",
	"restrictedVolumes":          "Volume Types",
	"runAsNonRoot":               "Running as Non-root",
	"runAsUser":                  "Running as Non-root user",
	"seLinuxOptions":             "SELinux",
	"seccompProfile_baseline":    "Seccomp",
	"seccompProfile_restricted":  "Seccomp",
	"sysctls":                    "Sysctls",
	"windowsHostProcess":         "HostProcess",
}

// A Standard is a level at a version. It is safe for concurrent use.
type Standard struct{ checks []check }

// New returns the checks of a level at a version ("latest", "v1.24"; "" is latest).
// The error names the invalid one of the two.
func New(level, version string) (*Standard, error) {
	checks, err := checksOf(level, version)
	if err != nil {
		return nil, err
	}
	return &Standard{checks}, nil
}

// Check returns the violations of a pod, in the library's order. Unlike the API
// server, Kyverno also runs the baseline checks that those of restricted
// replace, and at level privileged all checks.
func (s *Standard) Check(pod *Pod) []Violation {
	if pod == nil {
		return nil
	}
	return apply(s.checks, pod)
}

func apply(checks []check, pod *Pod) []Violation {
	var found []Violation
	for _, c := range checks {
		if v, ok := c.apply(pod); ok {
			found = append(found, v)
		}
	}
	return found
}

// A check is a check at one version.
type check struct {
	id  string
	pod psa.CheckPodFn
}

func checksOf(level, version string) ([]check, error) {
	l, err := api.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("pod security level must be privileged, baseline or restricted, not %.32q", level)
	}
	version = cmp.Or(version, "latest")
	at, err := api.ParseVersion(version)
	if err != nil {
		return nil, fmt.Errorf("pod security version must be latest or like v1.31, not %.32q", version)
	}
	var found []check
	for _, c := range psa.DefaultChecks() {
		if l == api.LevelBaseline && c.Level != l {
			continue
		}
		if fn := revision(c, at); fn != nil {
			found = append(found, check{string(c.ID), fn})
		}
	}
	return found, nil
}

// newest is the Kubernetes version of the checks in Kyverno 1.19.
var newest = api.MajorMinorVersion(1, 34)

// revision returns the last revision of a check up to a version, or else its
// first one: unlike the API server, Kyverno runs checks also at versions before
// them. It returns nil if Kyverno does not have the check.
func revision(c psa.Check, at api.Version) (found psa.CheckPodFn) {
	for i, v := range c.Versions {
		if !newest.Older(v.MinimumVersion) && (i == 0 || !at.Older(v.MinimumVersion)) {
			found = v.CheckPod
		}
	}
	return found
}

// apply runs the check on a pod.
func (c check) apply(pod *Pod) (Violation, bool) {
	verdict := c.pod(&pod.Metadata, &pod.Spec)
	if verdict.Allowed {
		return Violation{}, false
	}
	return Violation{Control: controls[c.id], CheckID: c.id, Reason: verdict.ForbiddenReason, Fields: find(c.id, c.pod, pod)}, true
}

// maxFields bounds the fields that a result names.
const maxFields = 100

// Fields returns the pointers of the fields at fault, in order, without repetitions,
// at most maxFields.
func Fields(violations []Violation) []string {
	var pointers []string
	seen := make(map[string]bool)
	for _, v := range violations {
		for _, f := range v.Fields {
			if !seen[f.Pointer] && len(pointers) < maxFields {
				seen[f.Pointer] = true
				pointers = append(pointers, f.Pointer)
			}
		}
	}
	return pointers
}
