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

// maxFields keeps a hostile object's results small.
const maxFields = 100

// locate returns the pointers of the fields for which a control refuses a pod,
// in the order in which its message names them, and none when it does not.
//
// A locator knows which fields a control looks at, and nothing of which values
// it takes: it puts one field after the other into a pod that has nothing
// else, and asks the control. So lists of allowed values, and what changes in
// them from version to version, stand in the library alone.
func locate(c control, p *pod) []string {
	if c.check(p.meta, p.spec).Allowed {
		return nil
	}
	f := &finder{pod: p, check: c.check}
	if l := locators[c.id]; l != nil {
		l(f)
	}
	if len(f.fields) == 0 {
		f.add("/spec") // a control that is not known here
	}
	return f.fields
}

// locators find the fields of each control. A test holds that none is missing.
var locators = map[string]func(*finder){
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

// A finder gathers the fields of a pod that a check refuses.
type finder struct {
	*pod
	check  psa.CheckPodFn
	fields []string
}

// add takes a pointer relative to what holds metadata and spec.
func (f *finder) add(pointer string) {
	if len(f.fields) < maxFields {
		f.fields = append(f.fields, f.at+pointer)
	}
}

// refuses asks the check about a pod that shares with ours only what it is
// for, which some controls relax for.
func (f *finder) refuses(spec corev1.PodSpec, annotations map[string]string) bool {
	spec.OS, spec.HostUsers = f.spec.OS, f.spec.HostUsers
	return !f.check(&metav1.ObjectMeta{Annotations: annotations}, &spec).Allowed
}

func (f *finder) refusesContainer(c corev1.Container) bool {
	return f.refuses(corev1.PodSpec{Containers: []corev1.Container{c}}, nil)
}

// try adds a pointer when the check refuses a pod that has spec alone.
func (f *finder) try(pointer string, spec corev1.PodSpec) {
	if f.refuses(spec, nil) {
		f.add(pointer)
	}
}

// tryContainer adds a pointer when the check refuses a container.
func (f *finder) tryContainer(pointer string, c corev1.Container) {
	if f.refusesContainer(c) {
		f.add(pointer)
	}
}

// containers calls visit for each container with its pointer, in the library's
// order. The security context is never nil.
func (f *finder) containers(visit func(at string, c *corev1.Container, sc *corev1.SecurityContext)) {
	each := func(list string, i int, c *corev1.Container) {
		sc := c.SecurityContext
		if sc == nil {
			sc = &corev1.SecurityContext{}
		}
		visit(render.Pointer("spec", list, i), c, sc)
	}
	for i := range f.spec.InitContainers {
		each("initContainers", i, &f.spec.InitContainers[i])
	}
	for i := range f.spec.Containers {
		each("containers", i, &f.spec.Containers[i])
	}
	for i := range f.spec.EphemeralContainers {
		each("ephemeralContainers", i, (*corev1.Container)(&f.spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func (f *finder) podContext() *corev1.PodSecurityContext {
	if f.spec.SecurityContext == nil {
		return &corev1.PodSecurityContext{}
	}
	return f.spec.SecurityContext
}

// inContainers tries a field of each container's security context; pick
// returns a context that has the field alone.
func (f *finder) inContainers(name string, pick func(*corev1.SecurityContext) *corev1.SecurityContext) {
	f.containers(func(at string, c *corev1.Container, sc *corev1.SecurityContext) {
		f.tryContainer(at+"/securityContext/"+name, corev1.Container{Name: c.Name, SecurityContext: pick(sc)})
	})
}

// inPod tries a field of the pod's security context.
func (f *finder) inPod(name string, sc *corev1.PodSecurityContext) {
	f.try("/spec/securityContext/"+name, corev1.PodSpec{SecurityContext: sc})
}

func (f *finder) allowPrivilegeEscalation() {
	f.inContainers("allowPrivilegeEscalation", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{AllowPrivilegeEscalation: sc.AllowPrivilegeEscalation}
	})
}

func (f *finder) privileged() {
	f.inContainers("privileged", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{Privileged: sc.Privileged}
	})
}

func (f *finder) procMount() {
	f.inContainers("procMount", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{ProcMount: sc.ProcMount}
	})
}

func (f *finder) runAsUser() {
	f.inPod("runAsUser", &corev1.PodSecurityContext{RunAsUser: f.podContext().RunAsUser})
	f.inContainers("runAsUser", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{RunAsUser: sc.RunAsUser}
	})
}

func (f *finder) windowsHostProcess() {
	f.inPod("windowsOptions/hostProcess", &corev1.PodSecurityContext{WindowsOptions: f.podContext().WindowsOptions})
	f.inContainers("windowsOptions/hostProcess", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{WindowsOptions: sc.WindowsOptions}
	})
}

func (f *finder) seLinuxOptions() {
	fields := []struct {
		name string
		pick func(corev1.SELinuxOptions) corev1.SELinuxOptions
	}{
		{"type", func(o corev1.SELinuxOptions) corev1.SELinuxOptions { return corev1.SELinuxOptions{Type: o.Type} }},
		{"user", func(o corev1.SELinuxOptions) corev1.SELinuxOptions { return corev1.SELinuxOptions{User: o.User} }},
		{"role", func(o corev1.SELinuxOptions) corev1.SELinuxOptions { return corev1.SELinuxOptions{Role: o.Role} }},
	}
	try := func(at string, have *corev1.SELinuxOptions) {
		if have == nil {
			return
		}
		for _, field := range fields {
			one := field.pick(*have)
			f.try(at+"/securityContext/seLinuxOptions/"+field.name,
				corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SELinuxOptions: &one}})
		}
	}
	try("/spec", f.podContext().SELinuxOptions)
	f.containers(func(at string, _ *corev1.Container, sc *corev1.SecurityContext) { try(at, sc.SELinuxOptions) })
}

func (f *finder) appArmorProfile() {
	f.inPod("appArmorProfile/type", &corev1.PodSecurityContext{AppArmorProfile: f.podContext().AppArmorProfile})
	f.inContainers("appArmorProfile/type", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{AppArmorProfile: sc.AppArmorProfile}
	})
	f.annotations()
}

// seccompProfile finds annotations in versions before 1.19 and fields since.
func (f *finder) seccompProfile() {
	f.annotations()
	f.inPod("seccompProfile/type", &corev1.PodSecurityContext{SeccompProfile: f.podContext().SeccompProfile})
	f.inContainers("seccompProfile/type", func(sc *corev1.SecurityContext) *corev1.SecurityContext {
		return &corev1.SecurityContext{SeccompProfile: sc.SeccompProfile}
	})
}

// annotations tries each; those about a container end in its name.
func (f *finder) annotations() {
	named := make(map[string]bool)
	f.containers(func(_ string, c *corev1.Container, _ *corev1.SecurityContext) { named[c.Name] = true })
	for _, key := range slices.Sorted(maps.Keys(f.meta.Annotations)) {
		var spec corev1.PodSpec
		if _, name, _ := strings.Cut(key, "/"); named[name] {
			spec.Containers = []corev1.Container{{Name: name}}
		}
		if f.refuses(spec, map[string]string{key: f.meta.Annotations[key]}) {
			f.add(render.Pointer("metadata", "annotations", key))
		}
	}
}

// capabilities finds what is added and, where everything must be dropped, the
// list that does not.
func (f *finder) capabilities() {
	try := func(pointer string, c corev1.Capabilities) {
		f.tryContainer(pointer, corev1.Container{SecurityContext: &corev1.SecurityContext{Capabilities: &c}})
	}
	have := func(sc *corev1.SecurityContext) corev1.Capabilities {
		if sc.Capabilities == nil {
			return corev1.Capabilities{}
		}
		return *sc.Capabilities
	}
	f.containers(func(at string, _ *corev1.Container, sc *corev1.SecurityContext) {
		for i, c := range have(sc).Add {
			try(at+render.Pointer("securityContext", "capabilities", "add", i),
				corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{c}})
		}
	})
	f.containers(func(at string, _ *corev1.Container, sc *corev1.SecurityContext) {
		try(at+"/securityContext/capabilities/drop", corev1.Capabilities{Drop: have(sc).Drop})
	})
}

func (f *finder) hostNamespaces() {
	f.try("/spec/hostNetwork", corev1.PodSpec{HostNetwork: f.spec.HostNetwork})
	f.try("/spec/hostPID", corev1.PodSpec{HostPID: f.spec.HostPID})
	f.try("/spec/hostIPC", corev1.PodSpec{HostIPC: f.spec.HostIPC})
}

func (f *finder) hostPathVolumes() {
	for i, v := range f.spec.Volumes {
		alone := corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{HostPath: v.HostPath}}
		f.try(render.Pointer("spec", "volumes", i, "hostPath"), corev1.PodSpec{Volumes: []corev1.Volume{alone}})
	}
}

// volumeTypes finds the key that says of which type a volume is, or the volume
// where no key does.
func (f *finder) volumeTypes() {
	for i, v := range f.spec.Volumes {
		if !f.refuses(corev1.PodSpec{Volumes: []corev1.Volume{v}}, nil) {
			continue
		}
		types := sources(v.VolumeSource)
		for _, t := range types {
			f.add(render.Pointer("spec", "volumes", i, t))
		}
		if len(types) == 0 {
			f.add(render.Pointer("spec", "volumes", i))
		}
	}
}

// sources are the JSON names of the sources that a volume has.
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
	f.containers(func(at string, c *corev1.Container, _ *corev1.SecurityContext) {
		for i, port := range c.Ports {
			f.tryContainer(at+render.Pointer("ports", i, "hostPort"), corev1.Container{Ports: []corev1.ContainerPort{port}})
		}
	})
}

// handlerHosts finds the hosts that probes and lifecycle handlers name.
func (f *finder) handlerHosts() {
	try := func(at string, http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
		if http != nil {
			f.tryContainer(at+"/httpGet/host", probing(corev1.ProbeHandler{HTTPGet: http}))
		}
		if tcp != nil {
			f.tryContainer(at+"/tcpSocket/host", probing(corev1.ProbeHandler{TCPSocket: tcp}))
		}
	}
	probe := func(at string, p *corev1.Probe) {
		if p != nil {
			try(at, p.HTTPGet, p.TCPSocket)
		}
	}
	handler := func(at string, h *corev1.LifecycleHandler) {
		if h != nil {
			try(at, h.HTTPGet, h.TCPSocket)
		}
	}
	f.containers(func(at string, c *corev1.Container, _ *corev1.SecurityContext) {
		probe(at+"/livenessProbe", c.LivenessProbe)
		probe(at+"/readinessProbe", c.ReadinessProbe)
		probe(at+"/startupProbe", c.StartupProbe)
		if c.Lifecycle != nil {
			handler(at+"/lifecycle/postStart", c.Lifecycle.PostStart)
			handler(at+"/lifecycle/preStop", c.Lifecycle.PreStop)
		}
	})
}

func probing(h corev1.ProbeHandler) corev1.Container {
	return corev1.Container{LivenessProbe: &corev1.Probe{ProbeHandler: h}}
}

func (f *finder) sysctls() {
	for i, s := range f.podContext().Sysctls {
		f.inPod(render.Pointer("sysctls", i, "name")[1:], &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{s}})
	}
}

func (f *finder) runAsNonRoot() {
	f.inherited("runAsNonRoot",
		&corev1.PodSecurityContext{RunAsNonRoot: f.podContext().RunAsNonRoot},
		func(sc *corev1.SecurityContext) *corev1.SecurityContext {
			if sc.RunAsNonRoot == nil {
				return nil
			}
			return &corev1.SecurityContext{RunAsNonRoot: sc.RunAsNonRoot}
		})
}

func (f *finder) inheritedSeccompProfile() {
	f.inherited("seccompProfile/type",
		&corev1.PodSecurityContext{SeccompProfile: f.podContext().SeccompProfile},
		func(sc *corev1.SecurityContext) *corev1.SecurityContext {
			if sc.SeccompProfile == nil {
				return nil
			}
			return &corev1.SecurityContext{SeccompProfile: sc.SeccompProfile}
		})
}

// inherited finds a required field that containers take from the pod unless
// they have their own; pick returns nil for a container that does not.
//
// Where nothing sets the field, both places that would hold it are named, the
// pod's first: that is one line for all containers.
func (f *finder) inherited(name string, pod *corev1.PodSecurityContext, pick func(*corev1.SecurityContext) *corev1.SecurityContext) {
	f.inPod(name, pod)
	set := len(f.fields) > 0 || !f.refuses(corev1.PodSpec{SecurityContext: pod, Containers: []corev1.Container{{}}}, nil)
	var explicit, implicit []string
	own := 0
	f.containers(func(at string, _ *corev1.Container, sc *corev1.SecurityContext) {
		mine := pick(sc)
		switch refused := f.refusesContainer(corev1.Container{SecurityContext: mine}); {
		case mine == nil && !set:
			implicit = append(implicit, at+"/securityContext/"+name)
		case mine != nil && refused:
			explicit = append(explicit, at+"/securityContext/"+name)
		case mine != nil:
			own++
		}
	})
	if len(implicit) > 0 && len(explicit)+own == 0 {
		f.add("/spec/securityContext/" + name)
	}
	for _, pointer := range append(explicit, implicit...) {
		f.add(pointer)
	}
}
