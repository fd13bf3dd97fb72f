package podsecurity

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/preadmit/preadmit/render"
)

// finders has a finder for each check. A test holds that none is missing.
var finders = map[string]finds{
	"allowPrivilegeEscalation":   (*finder).allowPrivilegeEscalation,
	"appArmorProfile":            setting("appArmorProfile.type").then((*finder).annotations),
	"capabilities_baseline":      (*finder).capabilities,
	"capabilities_restricted":    (*finder).capabilities,
	"hostNamespaces":             (*finder).hostNamespaces,
	"hostPathVolumes":            (*finder).hostPathVolumes,
	"hostPorts":                  (*finder).hostPorts,
	"hostProbesAndHostLifecycle": (*finder).handlerHosts,
	"privileged":                 setting("privileged"),
	"procMount":                  setting("procMount"),
	"procMount_restricted":       setting("procMount"),
	"restrictedVolumes":          (*finder).volumeTypes,
	"runAsNonRoot":               (*finder).runAsNonRoot,
	"runAsUser":                  setting("runAsUser"),
	"seLinuxOptions":             setting("seLinuxOptions.type", "seLinuxOptions.user", "seLinuxOptions.role"),
	"seccompProfile_baseline":    finds((*finder).annotations).then(explicitSeccompProfile), // annotations before 1.19, fields since
	"seccompProfile_restricted":  (*finder).inheritedSeccompProfile,
	"sysctls":                    (*finder).sysctls,
	"windowsHostProcess":         setting("windowsOptions.hostProcess"),
}

// A finds function adds forbidden fields, such as those of one check, to a finder's list.
type finds func(*finder)

// then returns a function that calls f and next.
func (f finds) then(next finds) finds {
	return func(x *finder) {
		f(x)
		next(x)
	}
}

var (
	explicitSeccompProfile = setting("seccompProfile.type")
	explicitRunAsNonRoot   = setting("runAsNonRoot")
)

// setting returns a function that finds fields of security contexts, the pod's first,
// that are set to a forbidden value.
func setting(fields ...string) finds {
	return func(f *finder) {
		f.contexts(func(p place, container string, sc *corev1.SecurityContext) {
			for _, field := range fields {
				only, value := alone(sc, field)
				if value != nil && f.refusesContainerContext(*only) {
					f.forbidden(p.child(strings.Split(field, ".")...), container, value)
				}
			}
		})
	}
}

// alone returns a security context with only one of its fields, and the value of the
// field: a bool, int or string, or nil if it is not set.
func alone(sc *corev1.SecurityContext, field string) (only *corev1.SecurityContext, value any) {
	only = &corev1.SecurityContext{}
	from, to := reflect.ValueOf(sc).Elem(), reflect.ValueOf(only).Elem()
	for name := range strings.SplitSeq(field, ".") {
		named := func(s string) bool { return strings.EqualFold(s, name) }
		if from, to = from.FieldByNameFunc(named), to.FieldByNameFunc(named); from.Kind() == reflect.Pointer {
			if from.IsNil() {
				return only, nil
			}
			to.Set(reflect.New(to.Type().Elem()))
			from, to = from.Elem(), to.Elem()
		}
	}
	to.Set(from)
	switch from.Kind() {
	case reflect.Bool:
		return only, from.Bool()
	case reflect.Int64:
		return only, int(from.Int())
	default:
		return only, from.String()
	}
}

// allowPrivilegeEscalation finds containers that don't forbid privilege escalation. As
// in Kyverno, an unset field is reported as required if the container has no security
// context, else as forbidden, with the value "nil".
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

// inheritedSeccompProfile finds forbidden profiles, and only if there are none the
// containers without one.
func (f *finder) inheritedSeccompProfile() {
	explicitSeccompProfile(f)
	if len(f.found) == 0 {
		f.withoutSeccompProfile()
	}
}

func (f *finder) withoutSeccompProfile() {
	f.containers(func(p place, c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
			f.required(p.child("securityContext", "seccompProfile", "type"), c.Name)
		}
	})
}

// runAsNonRoot finds fields set to false, and then containers without the field that
// don't inherit it from the pod.
func (f *finder) runAsNonRoot() {
	explicitRunAsNonRoot(f)
	if pod := f.context().RunAsNonRoot; pod == nil || !*pod {
		f.withoutRunAsNonRoot()
	}
}

func (f *finder) withoutRunAsNonRoot() {
	f.containers(func(p place, c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.RunAsNonRoot == nil {
			f.required(p.child("securityContext", "runAsNonRoot"), c.Name)
		}
	})
}

// annotations tries each annotation; those for a container end in its name.
func (f *finder) annotations() {
	named := map[string]bool{}
	f.containers(func(_ place, c *corev1.Container) { named[c.Name] = true })
	for _, key := range slices.Sorted(maps.Keys(f.pod.Metadata.Annotations)) {
		value := f.pod.Metadata.Annotations[key]
		var spec corev1.PodSpec
		if _, name, _ := strings.Cut(key, "/"); named[name] {
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

// capabilities finds the lists that don't drop everything, if that is required, and
// then the capabilities that may not be added.
func (f *finder) capabilities() {
	f.droppedCapabilities()
	f.addedCapabilities()
}

func (f *finder) droppedCapabilities() {
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
}

func (f *finder) addedCapabilities() {
	f.containers(func(p place, c *corev1.Container) {
		p = p.child("securityContext", "capabilities", "add")
		var bad []corev1.Capability
		var parts []string
		for i, added := range capabilitiesOf(c).Add {
			alone := corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{added}}
			if f.refusesContainerContext(corev1.SecurityContext{Capabilities: &alone}) {
				bad, parts = append(bad, added), append(parts, f.pod.At+p.index(i).pointer)
			}
		}
		if len(bad) > 0 {
			f.add(p, FieldError{Container: c.Name, BadValue: capabilityNames(bad), Parts: parts})
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

// volumeTypes finds the source of a volume. Kyverno reports no value for it.
func (f *finder) volumeTypes() {
	for i, v := range f.pod.Spec.Volumes {
		if !f.refuses(corev1.PodSpec{Volumes: []corev1.Volume{v}}, nil) {
			continue
		}
		p := specPlace.child("volumes").index(i)
		names := sources(v.VolumeSource)
		if len(names) == 0 {
			f.add(p.child("unknown"), FieldError{Parts: []string{f.pod.At + p.pointer}})
			continue
		}
		var parts []string
		for _, name := range names {
			parts = append(parts, f.pod.At+p.child(name).pointer)
		}
		f.add(p.child(names[0]), FieldError{Parts: parts})
	}
}

// sources returns the JSON names of a volume's sources.
func sources(s corev1.VolumeSource) []string {
	var names []string
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Pointer && !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
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
