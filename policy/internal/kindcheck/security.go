package kindcheck

import (
	"fmt"
	"regexp"
	"slices"
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

// sharesInSpec is the release since which faults of shareProcessNamespace have the
// field's path.
const sharesInSpec release = 37

// podSecurity validates a pod's security context.
func (c *checker) podSecurity(p *Spot) {
	s, at := c.spec.SecurityContext, p.In("securityContext")
	if share := c.spec.ShareProcessNamespace; share != nil && *share && c.spec.HostPID {
		reported := at
		if c.release >= sharesInSpec {
			reported = p
		}
		c.invalid(reported.In("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled").
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
	if policy := s.SupplementalGroupsPolicy; policy != nil && c.release >= supplementalPolicies {
		oneOf(c.check, at.In("supplementalGroupsPolicy"), *policy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if policy := s.SELinuxChangePolicy; policy != nil && c.release >= supplementalPolicies {
		valid := []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyRecursive}
		if c.release >= labelMounts {
			valid = []corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive}
		}
		oneOf(c.check, at.In("seLinuxChangePolicy"), *policy, valid...)
	}
}

// supplementalPolicies is the release since which supplementalGroupsPolicy and
// seLinuxChangePolicy count by default; before, the server drops them.
const supplementalPolicies release = 33

// labelMounts is the release since which volumes of all kinds are mounted with their SELinux
// label by default (SELinuxMount).
const labelMounts release = 37

func (c *checker) sysctls(list []corev1.Sysctl, p *Spot) {
	seen := map[string]bool{}
	for i, s := range list {
		at := p.In(i, "name")
		switch {
		case s.Name == "":
			c.required(at, "")
		case len(s.Name) > 253 || !sysctlName.MatchString(s.Name):
			c.invalid(at, s.Name, fmt.Sprintf("must have at most 253 characters and match regex %s", sysctlName))
		case seen[s.Name]:
			c.duplicate(at, s.Name)
		}
		seen[s.Name] = true
		name := strings.ReplaceAll(s.Name, "/", ".")
		switch {
		case c.spec.HostNetwork && strings.HasPrefix(name, "net."):
			c.invalid(at, s.Name, "may not be specified when 'hostNetwork' is true")
		case c.spec.HostIPC && ofIPC(name):
			c.invalid(at, s.Name, "may not be specified when 'hostIPC' is true")
		}
	}
}

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// ofIPC reports whether a sysctl belongs to the namespace of interprocess communication.
func ofIPC(name string) bool {
	return slices.Contains([]string{
		"kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni",
	}, name) || strings.HasPrefix(name, "fs.mqueue.")
}

// hostProcesses requires that all containers of a pod on Windows are host processes,
// or none, and that a pod of host processes uses the host's network.
func (c *checker) hostProcesses(p *Spot) {
	ofHost := func(o *corev1.WindowsSecurityContextOptions) *bool {
		if o == nil {
			return nil
		}
		return o.HostProcess
	}
	var pod *bool
	if s := c.spec.SecurityContext; s != nil {
		pod = ofHost(s.WindowsOptions)
	}
	all, some := true, false
	c.eachContainer(func(p *Spot, o *corev1.Container) {
		is := pod
		if s := o.SecurityContext; s != nil && ofHost(s.WindowsOptions) != nil {
			is = ofHost(s.WindowsOptions)
			if pod != nil && *is != *pod {
				c.invalid(p.In("securityContext", "windowsOptions", "hostProcess"), *is, fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *pod))
			}
		}
		all, some = all && is != nil && *is, some || is != nil && *is
	}, p)
	if some && !all {
		c.invalid(p, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if some && !c.spec.HostNetwork {
		c.invalid(p.In("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// operatingSystem refuses settings of one operating system in a pod of the other.
func (c *checker) operatingSystem(p *Spot) {
	o, at := c.spec.OS, p.In("os")
	switch {
	case o == nil:
	case o.Name == "":
		c.required(at.In("name"), "")
	case o.Name == corev1.Linux:
		const text = "windows options cannot be set for a linux pod"
		if s := c.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
			c.forbidden(p.In("securityContext", "windowsOptions"), text).also(at.In("name"))
		}
		c.eachContainer(func(p *Spot, o *corev1.Container) {
			if s := o.SecurityContext; s != nil && s.WindowsOptions != nil {
				c.forbidden(p.In("securityContext", "windowsOptions"), text).also(at.In("name"))
			}
		}, p)
	case o.Name == corev1.Windows:
		c.windows(p)
	default:
		before := len(c.faults)
		oneOf(c.check, at, o.Name, corev1.Linux, corev1.Windows)
		for _, f := range c.faults[before:] {
			f.at(at.In("name"))
		}
	}
}

// A linuxField is a field that a pod on Windows may not set.
type linuxField struct {
	set bool
	at  *Spot
}

func (c *checker) windows(p *Spot) {
	s, at := c.spec.SecurityContext, p.In("securityContext")
	if s == nil {
		s = &corev1.PodSecurityContext{}
	}
	fields := []linuxField{
		{s.AppArmorProfile != nil, at.In("appArmorProfile")},
		{s.SELinuxOptions != nil, at.In("seLinuxOptions")},
		{c.spec.HostUsers != nil, p.In("hostUsers")},
		{c.spec.HostPID, p.In("hostPID")},
		{c.spec.HostIPC, p.In("hostIPC")},
		{s.SeccompProfile != nil, at.In("seccompProfile")},
		{s.FSGroup != nil, at.In("fsGroup")},
		{s.FSGroupChangePolicy != nil, at.In("fsGroupChangePolicy")},
		{len(s.Sysctls) > 0, at.In("sysctls")},
		{c.spec.ShareProcessNamespace != nil, p.In("shareProcessNamespace")},
		{s.RunAsUser != nil, at.In("runAsUser")},
		{s.RunAsGroup != nil, at.In("runAsGroup")},
		{s.SupplementalGroups != nil, at.In("supplementalGroups")},
		{s.SupplementalGroupsPolicy != nil, at.In("supplementalGroupsPolicy")},
		{s.SELinuxChangePolicy != nil, at.In("seLinuxChangePolicy")},
	}
	c.eachContainer(func(p *Spot, o *corev1.Container) {
		s, at := o.SecurityContext, p.In("securityContext")
		if s == nil {
			return
		}
		fields = append(fields,
			linuxField{s.AppArmorProfile != nil, at.In("appArmorProfile")},
			linuxField{s.SELinuxOptions != nil, at.In("seLinuxOptions")},
			linuxField{s.SeccompProfile != nil, at.In("seccompProfile")},
			linuxField{s.Capabilities != nil, at.In("capabilities")},
			linuxField{s.ReadOnlyRootFilesystem != nil, at.In("readOnlyRootFilesystem")},
			linuxField{s.Privileged != nil, at.In("privileged")},
			linuxField{s.AllowPrivilegeEscalation != nil, at.In("allowPrivilegeEscalation")},
			linuxField{s.ProcMount != nil, at.In("procMount")},
			linuxField{s.RunAsUser != nil, at.In("runAsUser")},
			linuxField{s.RunAsGroup != nil, at.In("runAsGroup")},
		)
	}, p)
	for _, f := range fields {
		if f.set {
			c.forbidden(f.at, "cannot be set for a windows pod").also(p.In("os", "name"))
		}
	}
}
