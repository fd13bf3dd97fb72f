package podsecurity

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/preadmit/preadmit/render"
)

// A finder finds the fields for which a check refuses a pod. It knows which
// fields a check looks at, in the order in which Kyverno names them, and
// nothing of which values it takes: it puts one field after the other into a
// pod that has nothing else, and asks the check. So lists of allowed values,
// and what changes in them from version to version, stand in the library alone.
type finder struct {
	pod   *Pod
	check psa.CheckPodFn
	found []FieldError
}

// finders are of each check. A test holds that none is missing.
var finders = map[string]func(*finder){
	"allowPrivilegeEscalation":   (*finder).allowPrivilegeEscalation,
	"appArmorProfile":            (*finder).appArmorProfile,
	"capabilities_baseline":      (*finder).capabilities,
	"capabilities_restricted":    (*finder).capabilities,
	"hostNamespaces":             (*finder).hostNamespaces,
	"hostPathVolumes":            (*finder).hostPathVolumes,
	"hostPorts":                  (*finder).hostPorts,
	"hostProbesAndHostLifecycle": (*finder).handlerHosts,
	"privileged":                 (*finder).privileged,
	"procMount":                  (*finder).procMount,
	"procMount_restricted":       (*finder).procMount,
	"restrictedVolumes":          (*finder).volumeTypes,
	"runAsNonRoot":               (*finder).runAsNonRoot,
	"runAsUser":                  (*finder).runAsUser,
	"seLinuxOptions":             (*finder).seLinuxOptions,
	"seccompProfile_baseline":    (*finder).seccompProfile,
	"seccompProfile_restricted":  (*finder).inheritedSeccompProfile,
	"sysctls":                    (*finder).sysctls,
	"windowsHostProcess":         (*finder).windowsHostProcess,
}

// A place is a field, as it is reported and as a pointer from what holds the
// pod's spec.
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

// refuses asks the check about a pod that shares with ours only what it is
// for, which some checks relax for.
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

// context is the pod's security context, never nil.
func (f *finder) context() corev1.PodSecurityContext {
	if f.pod.Spec.SecurityContext == nil {
		return corev1.PodSecurityContext{}
	}
	return *f.pod.Spec.SecurityContext
}

// containers calls visit for each container, in the library's order.
func (f *finder) containers(visit func(p place, c *corev1.Container)) {
	spec := &f.pod.Spec
	for i := range spec.InitContainers {
		visit(specPlace.child("initContainers").index(i), &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		visit(specPlace.child("containers").index(i), &spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		visit(specPlace.child("ephemeralContainers").index(i), (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// contexts calls visit for each container with a security context.
func (f *finder) contexts(visit func(p place, name string, sc *corev1.SecurityContext)) {
	f.containers(func(p place, c *corev1.Container) {
		if c.SecurityContext != nil {
			visit(p.child("securityContext"), c.Name, c.SecurityContext)
		}
	})
}

// allowPrivilegeEscalation is required where there is no security context, and
// "nil" where there is one.
func (f *finder) allowPrivilegeEscalation() {
	f.containers(func(p place, c *corev1.Container) {
		p = p.child("securityContext", "allowPrivilegeEscalation")
		switch sc := c.SecurityContext; {
		case sc == nil:
			f.required(p, c.Name)
		case !f.refusesContainerContext(corev1.SecurityContext{AllowPrivilegeEscalation: sc.AllowPrivilegeEscalation}):
		case sc.AllowPrivilegeEscalation == nil:
			f.forbidden(p, c.Name, "nil")
		default:
			f.forbidden(p, c.Name, *sc.AllowPrivilegeEscalation)
		}
	})
}

func (f *finder) privileged() {
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if f.refusesContainerContext(corev1.SecurityContext{Privileged: sc.Privileged}) {
			f.forbidden(p.child("privileged"), name, true)
		}
	})
}

func (f *finder) procMount() {
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if f.refusesContainerContext(corev1.SecurityContext{ProcMount: sc.ProcMount}) {
			f.forbidden(p.child("procMount"), name, string(*sc.ProcMount))
		}
	})
}

func (f *finder) runAsUser() {
	if user := f.context().RunAsUser; f.refusesContext(corev1.PodSecurityContext{RunAsUser: user}) {
		f.forbidden(contextPlace.child("runAsUser"), "", int(*user))
	}
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if f.refusesContainerContext(corev1.SecurityContext{RunAsUser: sc.RunAsUser}) {
			f.forbidden(p.child("runAsUser"), name, int(*sc.RunAsUser))
		}
	})
}

func (f *finder) windowsHostProcess() {
	if o := f.context().WindowsOptions; f.refusesContext(corev1.PodSecurityContext{WindowsOptions: o}) {
		f.forbidden(contextPlace.child("windowsOptions", "hostProcess"), "", true)
	}
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if f.refusesContainerContext(corev1.SecurityContext{WindowsOptions: sc.WindowsOptions}) {
			f.forbidden(p.child("windowsOptions", "hostProcess"), name, true)
		}
	})
}

func (f *finder) seLinuxOptions() {
	try := func(p place, container string, have *corev1.SELinuxOptions) {
		if have == nil {
			return
		}
		for _, o := range []struct {
			name, value string
			alone       corev1.SELinuxOptions
		}{
			{"type", have.Type, corev1.SELinuxOptions{Type: have.Type}},
			{"user", have.User, corev1.SELinuxOptions{User: have.User}},
			{"role", have.Role, corev1.SELinuxOptions{Role: have.Role}},
		} {
			if f.refusesContext(corev1.PodSecurityContext{SELinuxOptions: &o.alone}) {
				f.forbidden(p.child("seLinuxOptions", o.name), container, o.value)
			}
		}
	}
	try(contextPlace, "", f.context().SELinuxOptions)
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) { try(p, name, sc.SELinuxOptions) })
}

func (f *finder) appArmorProfile() {
	if profile := f.context().AppArmorProfile; f.refusesContext(corev1.PodSecurityContext{AppArmorProfile: profile}) {
		f.forbidden(contextPlace.child("appArmorProfile", "type"), "", string(profile.Type))
	}
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if f.refusesContainerContext(corev1.SecurityContext{AppArmorProfile: sc.AppArmorProfile}) {
			f.forbidden(p.child("appArmorProfile", "type"), name, string(sc.AppArmorProfile.Type))
		}
	})
	f.annotations()
}

// seccompProfile finds annotations in versions before 1.19 and fields since.
func (f *finder) seccompProfile() {
	f.annotations()
	f.explicitSeccompProfile()
}

func (f *finder) explicitSeccompProfile() {
	if profile := f.context().SeccompProfile; profile != nil && f.refusesContext(corev1.PodSecurityContext{SeccompProfile: profile}) {
		f.forbidden(contextPlace.child("seccompProfile", "type"), "", string(profile.Type))
	}
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if sc.SeccompProfile != nil && f.refusesContainerContext(corev1.SecurityContext{SeccompProfile: sc.SeccompProfile}) {
			f.forbidden(p.child("seccompProfile", "type"), name, string(sc.SeccompProfile.Type))
		}
	})
}

// inheritedSeccompProfile finds the profiles that are set and may not be, and
// only where there are none the containers that have none.
func (f *finder) inheritedSeccompProfile() {
	f.explicitSeccompProfile()
	if len(f.found) > 0 {
		return
	}
	f.containers(func(p place, c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
			f.required(p.child("securityContext", "seccompProfile", "type"), c.Name)
		}
	})
}

// runAsNonRoot finds what is set to false, and then the containers that have
// none and get none from the pod.
func (f *finder) runAsNonRoot() {
	pod := f.context().RunAsNonRoot
	if pod != nil && f.refusesContext(corev1.PodSecurityContext{RunAsNonRoot: pod}) {
		f.forbidden(contextPlace.child("runAsNonRoot"), "", *pod)
	}
	f.contexts(func(p place, name string, sc *corev1.SecurityContext) {
		if sc.RunAsNonRoot != nil && f.refusesContainerContext(corev1.SecurityContext{RunAsNonRoot: sc.RunAsNonRoot}) {
			f.forbidden(p.child("runAsNonRoot"), name, *sc.RunAsNonRoot)
		}
	})
	if pod != nil && *pod {
		return
	}
	f.containers(func(p place, c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.RunAsNonRoot == nil {
			f.required(p.child("securityContext", "runAsNonRoot"), c.Name)
		}
	})
}

// annotations tries each; those about a container end in its name.
func (f *finder) annotations() {
	for _, key := range slices.Sorted(maps.Keys(f.pod.Metadata.Annotations)) {
		value := f.pod.Metadata.Annotations[key]
		var spec corev1.PodSpec
		if _, name, ok := strings.Cut(key, "/"); ok {
			spec.Containers = []corev1.Container{{Name: name}}
		}
		if f.refuses(spec, map[string]string{key: value}) {
			f.found = append(f.found, FieldError{
				Field: "metadata.annotations[" + key + "]", BadValue: value,
				Pointer: f.pod.metadata + render.Pointer("annotations", key),
			})
		}
	}
}

// capabilities finds first, where everything must be dropped, the lists that
// don't, and then what may not be added.
func (f *finder) capabilities() {
	f.containers(func(p place, c *corev1.Container) {
		p = p.child("securityContext", "capabilities", "drop")
		have := capabilitiesOf(c)
		switch {
		case !f.refusesContainerContext(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: have.Drop}}):
		case len(have.Drop) == 0:
			f.required(p, c.Name)
		default:
			f.forbidden(p, c.Name, capabilityNames(have.Drop))
		}
	})
	f.containers(func(p place, c *corev1.Container) {
		var bad []corev1.Capability
		for _, added := range capabilitiesOf(c).Add {
			alone := corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{added}}
			if f.refusesContainerContext(corev1.SecurityContext{Capabilities: &alone}) {
				bad = append(bad, added)
			}
		}
		if len(bad) > 0 {
			f.forbidden(p.child("securityContext", "capabilities", "add"), c.Name, capabilityNames(bad))
		}
	})
}

func capabilitiesOf(c *corev1.Container) corev1.Capabilities {
	if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil {
		return corev1.Capabilities{}
	}
	return *c.SecurityContext.Capabilities
}

func capabilityNames(list []corev1.Capability) []string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = string(c)
	}
	return names
}

func (f *finder) hostNamespaces() {
	spec := &f.pod.Spec
	for _, o := range []struct {
		name string
		set  bool
	}{{"hostNetwork", spec.HostNetwork}, {"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}} {
		if o.set {
			f.forbidden(specPlace.child(o.name), "", true)
		}
	}
}

func (f *finder) hostPathVolumes() {
	for i, v := range f.pod.Spec.Volumes {
		if v.HostPath != nil {
			f.forbidden(specPlace.child("volumes").index(i).child("hostPath"), "", v.HostPath.Path)
		}
	}
}

// volumeTypes finds the source of a volume, which Kyverno doesn't call a value.
func (f *finder) volumeTypes() {
	for i, v := range f.pod.Spec.Volumes {
		if f.refuses(corev1.PodSpec{Volumes: []corev1.Volume{v}}, nil) {
			f.forbidden(specPlace.child("volumes").index(i).child(source(v.VolumeSource)), "", nil)
		}
	}
}

// source is the JSON name of a volume's source.
func source(s corev1.VolumeSource) string {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Pointer && !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "unknown"
}

func (f *finder) hostPorts() {
	f.containers(func(p place, c *corev1.Container) {
		for i, port := range c.Ports {
			if f.refusesContainer(corev1.Container{Ports: []corev1.ContainerPort{port}}) {
				f.forbidden(p.child("ports").index(i).child("hostPort"), c.Name, int(port.HostPort))
			}
		}
	})
}

func (f *finder) sysctls() {
	for i, s := range f.context().Sysctls {
		if f.refusesContext(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{s}}) {
			f.forbidden(contextPlace.child("sysctls").index(i).child("name"), "", s.Name)
		}
	}
}

// handlerHosts finds the hosts that probes and lifecycle handlers name.
func (f *finder) handlerHosts() {
	f.containers(func(p place, c *corev1.Container) {
		try := func(p place, http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
			if http != nil && f.refusesContainer(probing(corev1.ProbeHandler{HTTPGet: http})) {
				f.forbidden(p.child("httpGet", "host"), c.Name, http.Host)
			}
			if tcp != nil && f.refusesContainer(probing(corev1.ProbeHandler{TCPSocket: tcp})) {
				f.forbidden(p.child("tcpSocket", "host"), c.Name, tcp.Host)
			}
		}
		for _, probe := range []struct {
			name string
			have *corev1.Probe
		}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
			if probe.have != nil {
				try(p.child(probe.name), probe.have.HTTPGet, probe.have.TCPSocket)
			}
		}
		if c.Lifecycle == nil {
			return
		}
		if h := c.Lifecycle.PostStart; h != nil {
			try(p.child("lifecycle", "postStart"), h.HTTPGet, h.TCPSocket)
		}
		if h := c.Lifecycle.PreStop; h != nil {
			try(p.child("lifecycle", "preStop"), h.HTTPGet, h.TCPSocket)
		}
	})
}

func probing(h corev1.ProbeHandler) corev1.Container {
	return corev1.Container{LivenessProbe: &corev1.Probe{ProbeHandler: h}}
}
