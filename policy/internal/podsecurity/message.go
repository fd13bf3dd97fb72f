package podsecurity

import (
	"cmp"
	"fmt"
	"strings"
)

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
