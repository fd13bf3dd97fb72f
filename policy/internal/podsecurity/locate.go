package podsecurity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	psa "k8s.io/pod-security-admission/policy"
)

// Locate returns pointers to the fields for which a check refuses a pod, at least
// one, in the order of the API server's message.
func Locate(id string, check psa.CheckPodFn, pod *Pod) []string {
	f := &finder{pod: pod, check: check}
	fields := finders[id]
	if named, ok := inMessages[id]; ok {
		fields = named
	}
	if fields != nil {
		fields(f)
	}
	var pointers []string
	for _, e := range f.found {
		if len(e.Parts) == 0 {
			e.Parts = []string{e.Pointer}
		}
		pointers = append(pointers, e.Parts...)
	}
	if len(pointers) == 0 { // an unknown check
		return []string{pod.At + "/spec"}
	}
	return pointers[:min(len(pointers), maxFields)]
}

// inMessages are the finders of checks whose messages name other fields than
// Kyverno does, or in another order.
var inMessages = map[string]func(*finder){
	"capabilities_restricted": func(f *finder) {
		f.addedCapabilities()
		f.droppedCapabilities()
	},
	"runAsNonRoot": func(f *finder) {
		f.inherited("runAsNonRoot", (*finder).explicitRunAsNonRoot, (*finder).withoutRunAsNonRoot)
	},
	"seccompProfile_restricted": func(f *finder) {
		f.inherited("seccompProfile/type", (*finder).explicitSeccompProfile, (*finder).withoutSeccompProfile)
	},
}

// inherited finds a required field that containers take from the pod unless
// they have their own.
//
// If neither the pod nor a container sets the field, it finds both places, the pod's
// first, since setting the field there corrects all containers.
func (f *finder) inherited(name string, explicit, missing func(*finder)) {
	explicit(f)
	pod := contextPlace.child(name)
	none := corev1.PodSpec{SecurityContext: f.pod.Spec.SecurityContext, Containers: []corev1.Container{{}}}
	if f.has(pod) || !f.refuses(none, nil) {
		return
	}
	set := len(f.found)
	missing(f)
	containers := 0
	f.containers(func(place, *corev1.Container) { containers++ })
	if missing := len(f.found) - set; missing > 0 && missing == containers {
		f.found = slices.Insert(f.found, 0, FieldError{Pointer: f.pod.At + pod.pointer})
	}
}

func (f *finder) has(p place) bool {
	return slices.ContainsFunc(f.found, func(e FieldError) bool { return e.Pointer == f.pod.At+p.pointer })
}

// maxMessage bounds the length of a message.
const maxMessage = 4 << 10

// Message returns Kyverno's message for the violations of a rule, or for a pass if there
// are none. Fields are named as in the object that contains the pod.
func Message(rule, level, version string, pod *Pod, violations []Violation) string {
	if len(violations) == 0 {
		return fmt.Sprintf("Validation rule '%s' passed.", rule)
	}
	version = cmp.Or(version, "latest")
	b := fmt.Appendf(nil, `Validation rule '%s' failed. It violates PodSecurity "%s:%s": `, rule, level, version)
	for _, v := range violations {
		b = fmt.Appendf(b, "(Forbidden reason: %s, field error list: [%s])", v.Reason, strings.Join(v.words(pod), ", "))
	}
	if len(b) > maxMessage {
		return strings.ToValidUTF8(string(b[:maxMessage-3]), "") + "..."
	}
	return string(b)
}

func (v *Violation) words(pod *Pod) []string {
	words := make([]string, len(v.Fields))
	for i, f := range v.Fields {
		words[i] = f.words(pod)
	}
	return words
}

func (f *FieldError) words(pod *Pod) string {
	field := f.Field
	if strings.HasPrefix(field, "spec") {
		field = strings.ReplaceAll(strings.TrimPrefix(pod.At+"/", "/"), "/", ".") + field
	}
	switch {
	case f.Required:
		return field + ": Required value"
	case f.BadValue == nil || f.BadValue == "":
		return field + ": Forbidden"
	}
	return fmt.Sprintf("%s is forbidden, forbidden values found: %v", field, f.BadValue)
}
