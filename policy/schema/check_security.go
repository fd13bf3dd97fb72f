package schema

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// security validates a container's security context
// (ValidateSecurityContext).
func (c *podCheck) security(s *corev1.SecurityContext, p *spot) {
	if s == nil {
		return
	}
	c.user(s.RunAsUser, p.in("runAsUser"))
	c.group(s.RunAsGroup, p.in("runAsGroup"))
	if s.ProcMount != nil {
		oneOf(c.check, p.in("procMount"), *s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if u := c.spec.HostUsers; *s.ProcMount == corev1.UnmaskedProcMount && (u == nil || *u) && c.release >= procMounts {
			c.invalid(p.in("procMount"), s.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	c.seccomp(s.SeccompProfile, p.in("seccompProfile"))
	c.appArmor(s.AppArmorProfile, p.in("appArmorProfile"))
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		return
	}
	if s.Privileged != nil && *s.Privileged {
		c.invalid(p, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true").at(p.in("allowPrivilegeEscalation")).also(p.in("privileged"))
	}
	if s.Capabilities == nil {
		return
	}
	for i, capability := range s.Capabilities.Add {
		if capability == "CAP_SYS_ADMIN" {
			c.invalid(p, s, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN").
				at(p.in("allowPrivilegeEscalation")).also(p.in("capabilities", "add", i))
		}
	}
}

// procMounts is the release since which procMount counts by default
// (ProcMountType); before, the server drops it.
const procMounts release = 33

func (c *check) user(id *int64, p *spot) {
	if id != nil {
		c.invalids(p, *id, validation.IsValidUserID(*id))
	}
}

func (c *check) group(id *int64, p *spot) {
	if id != nil {
		c.invalids(p, *id, validation.IsValidGroupID(*id))
	}
}

func (c *check) seccomp(s *corev1.SeccompProfile, p *spot) {
	if s == nil {
		return
	}
	if s.Type == "" {
		c.required(p.in("type"), "type is required when seccompProfile is set")
	} else {
		oneOf(c, p.in("type"), s.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	at := p.in("localhostProfile")
	switch local := s.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && s.LocalhostProfile == nil:
		c.required(at, "must be set when seccomp type is Localhost")
	case local:
		c.invalids(at, *s.LocalhostProfile, descending(*s.LocalhostProfile))
	case s.LocalhostProfile != nil:
		c.invalid(at, s, "can only be set when seccomp type is Localhost")
	}
}

func (c *check) appArmor(s *corev1.AppArmorProfile, p *spot) {
	if s == nil {
		return
	}
	if s.Type == "" {
		c.required(p.in("type"), "type is required when appArmorProfile is set")
		return
	}
	if !oneOf(c, p.in("type"), s.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined) {
		return
	}
	at := p.in("localhostProfile")
	switch local := s.Type == corev1.AppArmorProfileTypeLocalhost; {
	case local && (s.LocalhostProfile == nil || *s.LocalhostProfile == ""):
		c.required(at, "must be set when AppArmor type is Localhost")
	case local && strings.TrimSpace(*s.LocalhostProfile) != *s.LocalhostProfile:
		c.invalid(at, *s.LocalhostProfile, "must not be padded with whitespace")
	case !local && s.LocalhostProfile != nil:
		c.invalid(at, s.LocalhostProfile, "can only be set when AppArmor type is Localhost")
	}
}

// podSecurity validates a pod's security context.
func (c *podCheck) podSecurity(p *spot) {
	s, at := c.spec.SecurityContext, p.in("securityContext")
	if share := c.spec.ShareProcessNamespace; share != nil && *share && c.spec.HostPID {
		c.invalid(at.in("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled").
			at(p.in("shareProcessNamespace")).also(p.in("hostPID"))
	}
	if s == nil {
		return
	}
	c.group(s.FSGroup, at.in("fsGroup"))
	c.user(s.RunAsUser, at.in("runAsUser"))
	c.group(s.RunAsGroup, at.in("runAsGroup"))
	for i, id := range s.SupplementalGroups {
		c.group(&id, at.in("supplementalGroups", i))
	}
	if policy := s.FSGroupChangePolicy; policy != nil {
		oneOf(c.check, at.in("fsGroupChangePolicy"), *policy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	c.seccomp(s.SeccompProfile, at.in("seccompProfile"))
	c.appArmor(s.AppArmorProfile, at.in("appArmorProfile"))
	c.sysctls(s.Sysctls, at.in("sysctls"))
}

func (c *podCheck) sysctls(list []corev1.Sysctl, p *spot) {
	seen := map[string]bool{}
	for i, s := range list {
		if s.Name == "" {
			c.required(p.in(i, "name"), "")
		} else if seen[s.Name] {
			c.duplicate(p.in(i, "name"), s.Name)
		}
		seen[s.Name] = true
	}
}
