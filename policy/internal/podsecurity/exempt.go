package podsecurity

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// An Exclude is an entry of podSecurity.exclude, or of an exception.
type Exclude struct {
	ControlName     string
	Images          []string
	RestrictedField string
	Values          []string
}

// Exempt returns the violations that [Standard.Check] found without those that the
// excludes exempt.
//
// As in Kyverno, each exclude is evaluated with a reduced pod ([Exclude.probe]): the
// pod with one empty container in place of its own, or, if the exclude names images,
// only the containers with these images. For each field that violates the exclude's
// control there, and that the exclude covers, one field of the same name is removed
// from the violations. If the exclude names images, the field must be of the same
// container.
func (s *Standard) Exempt(violations []Violation, excludes []Exclude, pod *Pod) []Violation {
	left := make([]Violation, len(violations))
	for i, v := range violations {
		left[i] = v
		left[i].Fields = slices.Clone(v.Fields)
	}
	if pod == nil {
		return left
	}
	for _, e := range excludes {
		for _, v := range apply(s.checks, e.probe(pod)) {
			if v.Control == e.ControlName {
				left = e.exempt(left, v)
			}
		}
	}
	return left
}

// maxExempt bounds the fields of a violation that can be excluded, since the search
// takes quadratic time.
const maxExempt = 1 << 11

// exempt removes the excluded fields of a probe's violation from the violations.
func (e *Exclude) exempt(left []Violation, probed Violation) []Violation {
	i := slices.IndexFunc(left, func(v Violation) bool { return v.CheckID == probed.CheckID })
	if i < 0 || len(left[i].Fields) > maxExempt {
		return left
	}
	for _, f := range probed.Fields {
		if e.covers(f) {
			left[i].Fields = e.remove(left[i].Fields, f)
		}
	}
	if len(left[i].Fields) == 0 {
		return slices.Delete(left, i, i+1)
	}
	return left
}

// remove removes the first field of the same name. As in Kyverno, the last field
// takes its place.
func (e *Exclude) remove(fields []FieldError, like FieldError) []FieldError {
	name := anyIndex(like.Field)
	i := slices.IndexFunc(fields, func(f FieldError) bool {
		return (len(e.Images) == 0 || f.Container == like.Container) && anyIndex(f.Field) == name
	})
	if i < 0 {
		return fields
	}
	fields[i] = fields[len(fields)-1]
	return fields[:len(fields)-1]
}

// anyIndex replaces each number in a field by *, as restrictedField does for indices.
func anyIndex(field string) string {
	if !strings.ContainsAny(field, "0123456789") {
		return field
	}
	var b strings.Builder
	for i, r := range field {
		switch digit := '0' <= r && r <= '9'; {
		case !digit:
			b.WriteRune(r)
		case i == 0 || field[i-1] < '0' || field[i-1] > '9':
			b.WriteByte('*')
		}
	}
	return b.String()
}

// covers reports whether the exclude covers a field and all of its values.
func (e *Exclude) covers(f FieldError) bool {
	if e.RestrictedField != "" && e.RestrictedField != anyIndex(f.Field) {
		return false
	}
	if len(e.Values) == 0 {
		return true
	}
	return !slices.ContainsFunc(badValues(f.BadValue), func(v string) bool { return !pattern.AnyWildcard(e.Values, v) })
}

func badValues(v any) []string {
	switch v := v.(type) {
	case string:
		if v != "" {
			return []string{v}
		}
	case bool:
		return []string{strconv.FormatBool(v)}
	case int:
		return []string{strconv.Itoa(v)}
	case []string:
		return v
	}
	return nil
}

// probe returns the reduced pod with which Kyverno evaluates the exclude.
func (e *Exclude) probe(pod *Pod) *Pod {
	if len(e.Images) == 0 {
		shown := *pod
		shown.Spec.Containers = []corev1.Container{{Name: "fake"}}
		shown.Spec.InitContainers, shown.Spec.EphemeralContainers = nil, nil
		return &shown
	}
	var shown Pod
	for _, c := range pod.Spec.InitContainers {
		if pattern.AnyWildcard(e.Images, c.Image) {
			shown.Spec.InitContainers = append(shown.Spec.InitContainers, c)
		}
	}
	for _, c := range pod.Spec.Containers {
		if pattern.AnyWildcard(e.Images, c.Image) {
			shown.Spec.Containers = append(shown.Spec.Containers, c)
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if pattern.AnyWildcard(e.Images, c.Image) {
			shown.Spec.EphemeralContainers = append(shown.Spec.EphemeralContainers, c)
		}
	}
	return &shown
}
