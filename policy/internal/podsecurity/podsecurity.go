// Package podsecurity checks pods by the Pod Security Standards, field by
// field, for the rules of Kyverno that name them.
//
// In go a pod ([Read]), a level and a version; out come the [Violation]s, each
// with the fields at fault, from which [Exempt] takes what a rule excludes.
package podsecurity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Pod is what the checks look at.
type Pod struct {
	Metadata metav1.ObjectMeta
	Spec     corev1.PodSpec
	At       string // pointer, in its object, of what holds metadata and spec: "" of a Pod
}

// Read reads the pod whose metadata and spec stand at a pointer of an object:
// "", /spec/template or /spec/jobTemplate/spec/template. It is nil where the
// object has none there.
func Read(object map[string]any, at string) (*Pod, error) { return &Pod{At: at}, nil }

// A Violation is a check that does not allow a pod.
type Violation struct {
	Control string // Kyverno's controlName
	CheckID string
	Reason  string // as Kyverno reports it: "allowPrivilegeEscalation != false"
	Fields  []FieldError
}

// A FieldError is one field at fault.
type FieldError struct {
	Field     string // as in spec.containers[0].securityContext.privileged
	Container string // its name; "" of a field of the pod
	Required  bool   // it is missing and must not be
	BadValue  any    // bool, int, string, []string or nil
	Pointer   string // in the object, Pod.At and all
}

// An Exclude is an entry of podSecurity.exclude, or of an exception.
type Exclude struct {
	ControlName     string
	Images          []string
	RestrictedField string
	Values          []string
}

// Check returns what a level at a version ("latest", "v1.24") does not allow
// of a pod, in Kyverno's order. The error says which of the two is unknown.
func Check(level, version string, pod *Pod) ([]Violation, error) { return nil, nil }

// Exempt returns what of the violations the excludes leave.
func Exempt(violations []Violation, excludes []Exclude, level, version string, pod *Pod) []Violation {
	return violations
}

// Message words violations as Kyverno does for a rule's failure; of none it is
// the message of a pass.
func Message(rule, level, version string, pod *Pod, violations []Violation) string { return "" }

// Fields are the pointers of what is at fault, each once, in order.
func Fields(violations []Violation) []string { return nil }
