package podsecurity

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A dice makes pods by chance, the same ones for the same seed. They lean
// towards what controls look at, good and bad values of it alike.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

func (d dice) often() bool  { return d.IntN(4) > 0 }
func (d dice) seldom() bool { return d.IntN(6) == 0 }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// maybe is nil half of the time.
func maybe[T any](d dice, from ...T) *T {
	if d.IntN(2) == 0 {
		return nil
	}
	v := pick(d, from...)
	return &v
}

func (d dice) pod() (*metav1.ObjectMeta, *corev1.PodSpec) {
	spec := &corev1.PodSpec{
		HostNetwork: d.seldom(), HostPID: d.seldom(), HostIPC: d.seldom(),
		SecurityContext: d.podContext(),
	}
	if d.seldom() {
		spec.OS = &corev1.PodOS{Name: pick(d, corev1.Windows, corev1.Linux)}
	}
	if d.seldom() {
		spec.HostUsers = maybe(d, true, false)
	}
	n := 0
	for range d.IntN(3) {
		spec.InitContainers = append(spec.InitContainers, d.container(&n))
	}
	for range 1 + d.IntN(3) {
		spec.Containers = append(spec.Containers, d.container(&n))
	}
	if d.seldom() {
		c := d.container(&n)
		spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)}}
	}
	for i := range d.IntN(4) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: d.volume()})
	}
	return &metav1.ObjectMeta{Annotations: d.annotations()}, spec
}

func (d dice) annotations() map[string]string {
	if d.often() {
		return nil
	}
	m := map[string]string{"note": "unconfined"}
	for range d.IntN(4) {
		key := pick(d,
			"container.apparmor.security.beta.kubernetes.io/c0", "container.apparmor.security.beta.kubernetes.io/gone",
			"container.apparmor.security.beta.kubernetes.io/a/b~c",
			"seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/c0",
			"container.seccomp.security.alpha.kubernetes.io/c1", "container.seccomp.security.alpha.kubernetes.io/gone")
		m[key] = pick(d, "runtime/default", "localhost/x", "unconfined", "", "docker/default")
	}
	return m
}

func (d dice) container(n *int) corev1.Container {
	c := corev1.Container{Name: fmt.Sprint("c", *n), Image: "registry.example/c:1"}
	*n++
	if d.often() {
		c.SecurityContext = d.context()
	}
	for range d.IntN(3) {
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80, HostPort: pick[int32](d, 0, 0, 80, 443)})
	}
	if d.seldom() {
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = d.probe(), d.probe(), d.probe()
	}
	if d.seldom() {
		c.Lifecycle = &corev1.Lifecycle{PostStart: d.hook(), PreStop: d.hook()}
	}
	return c
}

func (d dice) probe() *corev1.Probe {
	switch d.IntN(4) {
	case 0:
		return nil
	case 1:
		return &corev1.Probe{}
	case 2:
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: pick(d, "", "10.0.0.1")}}}
	default:
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet:   &corev1.HTTPGetAction{Host: pick(d, "", "localhost")},
			TCPSocket: &corev1.TCPSocketAction{Host: pick(d, "", "10.0.0.1")},
		}}
	}
}

func (d dice) hook() *corev1.LifecycleHandler {
	p := d.probe()
	if p == nil {
		return nil
	}
	return &corev1.LifecycleHandler{HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket}
}

func (d dice) context() *corev1.SecurityContext {
	sc := &corev1.SecurityContext{
		Privileged:               maybe(d, true, false, false),
		AllowPrivilegeEscalation: maybe(d, true, false, false),
		RunAsNonRoot:             maybe(d, true, true, false),
		RunAsUser:                maybe[int64](d, 0, 1000, 2000),
		SELinuxOptions:           d.seLinux(),
	}
	if d.seldom() {
		sc.ProcMount = maybe(d, corev1.DefaultProcMount, corev1.UnmaskedProcMount, "Odd")
	}
	if d.often() {
		sc.Capabilities = &corev1.Capabilities{}
		for range d.IntN(3) {
			sc.Capabilities.Add = append(sc.Capabilities.Add, pick[corev1.Capability](d, "NET_BIND_SERVICE", "SYS_ADMIN", "CHOWN", "NET_RAW"))
		}
		for range d.IntN(3) {
			sc.Capabilities.Drop = append(sc.Capabilities.Drop, pick[corev1.Capability](d, "ALL", "NET_RAW", "all"))
		}
	}
	sc.SeccompProfile, sc.AppArmorProfile, sc.WindowsOptions = d.seccomp(), d.appArmor(), d.windows()
	return sc
}

func (d dice) podContext() *corev1.PodSecurityContext {
	if d.seldom() {
		return nil
	}
	sc := &corev1.PodSecurityContext{
		RunAsNonRoot: maybe(d, true, true, false), RunAsUser: maybe[int64](d, 0, 1000),
		SELinuxOptions: d.seLinux(), SeccompProfile: d.seccomp(),
		AppArmorProfile: d.appArmor(), WindowsOptions: d.windows(),
	}
	for range d.IntN(4) {
		sc.Sysctls = append(sc.Sysctls, corev1.Sysctl{Name: pick(d,
			"kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_notsent_lowat", "kernel.msgmax")})
	}
	return sc
}

func (d dice) seccomp() *corev1.SeccompProfile {
	if d.often() {
		return nil
	}
	return &corev1.SeccompProfile{Type: pick(d, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined, "")}
}

func (d dice) appArmor() *corev1.AppArmorProfile {
	if d.often() {
		return nil
	}
	return &corev1.AppArmorProfile{Type: pick(d, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined, "")}
}

func (d dice) windows() *corev1.WindowsSecurityContextOptions {
	if d.often() {
		return nil
	}
	return &corev1.WindowsSecurityContextOptions{HostProcess: maybe(d, true, false)}
}

func (d dice) seLinux() *corev1.SELinuxOptions {
	if d.often() {
		return nil
	}
	return &corev1.SELinuxOptions{
		Type: pick(d, "", "container_t", "container_engine_t", "spc_t"), User: pick(d, "", "", "system_u"), Role: pick(d, "", "", "system_r"),
	}
}

func (d dice) volume() corev1.VolumeSource {
	return pick(d,
		corev1.VolumeSource{},
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
		corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
		corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: "r"}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}, NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}, Secret: &corev1.SecretVolumeSource{}},
	)
}
