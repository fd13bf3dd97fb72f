package podsecurity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/preadmit/preadmit/render"
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
var inMessages = map[string]finds{
	"capabilities_restricted": func(f *finder) {
		f.addedCapabilities()
		f.droppedCapabilities()
	},
	"runAsNonRoot": func(f *finder) {
		f.inherited("runAsNonRoot", explicitRunAsNonRoot, (*finder).withoutRunAsNonRoot)
	},
	"seccompProfile_restricted": func(f *finder) {
		f.inherited("seccompProfile/type", explicitSeccompProfile, (*finder).withoutSeccompProfile)
	},
}

// inherited finds a required field that containers take from the pod unless
// they have their own.
//
// If neither the pod nor a container sets the field, it finds both places, the pod's
// first, since setting the field there corrects all containers.
func (f *finder) inherited(name string, explicit, missing finds) {
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

// find returns the fields for which a check refuses a pod, in the order in
// which Kyverno names them.
func find(id string, check psa.CheckPodFn, pod *Pod) []FieldError {
	f := &finder{pod: pod, check: check}
	if fields := finders[id]; fields != nil {
		fields(f)
	}
	if len(f.found) == 0 { // an unknown check
		f.found = []FieldError{{Field: "spec", Pointer: pod.At + "/spec"}}
	}
	return f.found
}

// A finder finds the fields for which a check refuses a pod. It knows which fields a
// check reads, in the order in which Kyverno names them, but not which values are
// allowed: it puts one field after the other into an otherwise empty pod, and runs
// the check. So lists of allowed values, and their changes between versions, are in
// the library alone.
type finder struct {
	pod   *Pod
	check psa.CheckPodFn
	found []FieldError
}

// A place is a field, as reported, and its pointer below the parent of the pod's
// spec.
type place struct{ field, pointer string }

func (p place) child(names ...string) place {
	for _, name := range names {
		p.field += "." + name
		p.pointer += "/" + name
	}
	return p
}

func (p place) index(i int) place {
	pointer := render.Pointer(i)
	return place{p.field + "[" + pointer[1:] + "]", p.pointer + pointer}
}

var (
	specPlace    = place{"spec", "/spec"}
	contextPlace = specPlace.child("securityContext")
)

func (f *finder) add(p place, e FieldError) {
	e.Field, e.Pointer = p.field, f.pod.At+p.pointer
	f.found = append(f.found, e)
}

func (f *finder) forbidden(p place, container string, value any) {
	f.add(p, FieldError{Container: container, BadValue: value})
}

func (f *finder) required(p place, container string) {
	f.add(p, FieldError{Container: container, Required: true})
}

// refuses runs the check on a pod that shares with ours only the fields for which
// some checks are relaxed.
func (f *finder) refuses(spec corev1.PodSpec, annotations map[string]string) bool {
	spec.OS, spec.HostUsers = f.pod.Spec.OS, f.pod.Spec.HostUsers
	return !f.check(&metav1.ObjectMeta{Annotations: annotations}, &spec).Allowed
}

func (f *finder) refusesContext(sc corev1.PodSecurityContext) bool {
	return f.refuses(corev1.PodSpec{SecurityContext: &sc}, nil)
}

func (f *finder) refusesContainer(c corev1.Container) bool {
	return f.refuses(corev1.PodSpec{Containers: []corev1.Container{c}}, nil)
}

func (f *finder) refusesContainerContext(sc corev1.SecurityContext) bool {
	return f.refusesContainer(corev1.Container{SecurityContext: &sc})
}

// context returns the pod's security context, never nil.
func (f *finder) context() corev1.PodSecurityContext {
	if f.pod.Spec.SecurityContext == nil {
		return corev1.PodSecurityContext{}
	}
	return *f.pod.Spec.SecurityContext
}

// containers calls visit for each container, in the library's order.
func (f *finder) containers(visit func(p place, c *corev1.Container)) {
	spec, places := &f.pod.Spec, f.pod.containerPlaces()
	for i := range spec.InitContainers {
		visit(places[i], &spec.InitContainers[i])
	}
	places = places[len(spec.InitContainers):]
	for i := range spec.Containers {
		visit(places[i], &spec.Containers[i])
	}
	places = places[len(spec.Containers):]
	for i := range spec.EphemeralContainers {
		visit(places[i], (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func (p *Pod) containerPlaces() []place {
	if p.places == nil {
		add := func(list string, n int) {
			for i := range n {
				p.places = append(p.places, specPlace.child(list).index(i))
			}
		}
		add("initContainers", len(p.Spec.InitContainers))
		add("containers", len(p.Spec.Containers))
		add("ephemeralContainers", len(p.Spec.EphemeralContainers))
	}
	return p.places
}

// contexts calls visit with the fields of the pod's security context that containers
// have, too, and then for each container with a security context.
func (f *finder) contexts(visit func(p place, container string, sc *corev1.SecurityContext)) {
	pod := f.context()
	visit(contextPlace, "", &corev1.SecurityContext{
		RunAsUser: pod.RunAsUser, RunAsNonRoot: pod.RunAsNonRoot, SELinuxOptions: pod.SELinuxOptions,
		SeccompProfile: pod.SeccompProfile, AppArmorProfile: pod.AppArmorProfile, WindowsOptions: pod.WindowsOptions,
	})
	f.containers(func(p place, c *corev1.Container) {
		if c.SecurityContext != nil {
			visit(p.child("securityContext"), c.Name, c.SecurityContext)
		}
	})
}
