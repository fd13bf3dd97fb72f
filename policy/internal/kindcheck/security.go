package kindcheck

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// security validates a container's security context
// (ValidateSecurityContext).
func (c *checker) security(s *corev1.SecurityContext, p *Spot) {
	if s == nil {
		return
	}
	c.user(s.RunAsUser, p.In("runAsUser"))
	c.group(s.RunAsGroup, p.In("runAsGroup"))
	if s.ProcMount != nil {
		oneOf(c.check, p.In("procMount"), *s.ProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if u := c.spec.HostUsers; *s.ProcMount == corev1.UnmaskedProcMount && (u == nil || *u) && c.release >= procMounts {
			c.invalid(p.In("procMount"), s.ProcMount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	c.seccomp(s.SeccompProfile, p.In("seccompProfile"))
	c.appArmor(s.AppArmorProfile, p.In("appArmorProfile"))
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		return
	}
	if s.Privileged != nil && *s.Privileged {
		c.invalid(p, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true").at(p.In("allowPrivilegeEscalation")).also(p.In("privileged"))
	}
	if s.Capabilities == nil {
		return
	}
	for i, capability := range s.Capabilities.Add {
		if capability == "CAP_SYS_ADMIN" {
			c.invalid(p, s, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN").
				at(p.In("allowPrivilegeEscalation")).also(p.In("capabilities", "add", i))
		}
	}
}

// procMounts is the release since which procMount counts by default
// (ProcMountType); before, the server drops it.
const procMounts release = 33

func (c *check) user(id *int64, p *Spot) {
	if id != nil {
		c.invalids(p, *id, validation.IsValidUserID(*id))
	}
}

func (c *check) group(id *int64, p *Spot) {
	if id != nil {
		c.invalids(p, *id, validation.IsValidGroupID(*id))
	}
}

func (c *check) seccomp(s *corev1.SeccompProfile, p *Spot) {
	if s == nil {
		return
	}
	if s.Type == "" {
		c.required(p.In("type"), "type is required when seccompProfile is set")
	} else {
		oneOf(c, p.In("type"), s.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	at := p.In("localhostProfile")
	switch local := s.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && s.LocalhostProfile == nil:
		c.required(at, "must be set when seccomp type is Localhost")
	case local:
		c.invalids(at, *s.LocalhostProfile, descending(*s.LocalhostProfile))
	case s.LocalhostProfile != nil:
		c.invalid(at, s, "can only be set when seccomp type is Localhost")
	}
}

func (c *check) appArmor(s *corev1.AppArmorProfile, p *Spot) {
	if s == nil {
		return
	}
	if s.Type == "" {
		c.required(p.In("type"), "type is required when appArmorProfile is set")
		return
	}
	if !oneOf(c, p.In("type"), s.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined) {
		return
	}
	at := p.In("localhostProfile")
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
func (c *checker) podSecurity(p *Spot) {
	s, at := c.spec.SecurityContext, p.In("securityContext")
	if share := c.spec.ShareProcessNamespace; share != nil && *share && c.spec.HostPID {
		c.invalid(at.In("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled").
			at(p.In("shareProcessNamespace")).also(p.In("hostPID"))
	}
	if s == nil {
		return
	}
	c.group(s.FSGroup, at.In("fsGroup"))
	c.user(s.RunAsUser, at.In("runAsUser"))
	c.group(s.RunAsGroup, at.In("runAsGroup"))
	for i, id := range s.SupplementalGroups {
		c.group(&id, at.In("supplementalGroups", i))
	}
	if policy := s.FSGroupChangePolicy; policy != nil {
		oneOf(c.check, at.In("fsGroupChangePolicy"), *policy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	c.seccomp(s.SeccompProfile, at.In("seccompProfile"))
	c.appArmor(s.AppArmorProfile, at.In("appArmorProfile"))
	c.sysctls(s.Sysctls, at.In("sysctls"))
}

func (c *checker) sysctls(list []corev1.Sysctl, p *Spot) {
	seen := map[string]bool{}
	for i, s := range list {
		if s.Name == "" {
			c.required(p.In(i, "name"), "")
		} else if seen[s.Name] {
			c.duplicate(p.In(i, "name"), s.Name)
		}
		seen[s.Name] = true
	}
}
