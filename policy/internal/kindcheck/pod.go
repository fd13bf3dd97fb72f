package kindcheck

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"
)

// A checker validates a pod's spec (ValidatePodSpec of
// k8s.io/kubernetes/pkg/apis/core/validation).
type checker struct {
	*check
	spec    *corev1.PodSpec
	volumes map[string]corev1.VolumeSource // the valid ones
	claims  []string                       // names of resource claims
	grace   *int64
	pod     bool // not a template
}

func (c *check) pod(o *corev1.Pod, create bool) {
	spec := Top.In("spec")
	c.podAnnotations(o.Annotations, &o.Spec, Top.In("metadata", "annotations"))
	p := &checker{check: c, spec: &o.Spec, pod: true}
	p.all(spec)
	if create && len(o.Spec.EphemeralContainers) > 0 {
		c.forbidden(spec.In("ephemeralContainers"), "cannot be set on create")
	}
	if create && o.Spec.NodeName != "" && len(o.Spec.SchedulingGates) > 0 {
		c.forbidden(spec.In("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
	p.eachContainer(func(at *Spot, container *corev1.Container) {
		if strings.TrimSpace(container.Image) != container.Image {
			c.invalid(at.In("image"), container.Image, "must not have leading or trailing whitespace")
		}
	}, spec)
}

// template validates a pod template. The server's paths for the labels and
// annotations of templates leave out metadata.
func (c *check) template(t *corev1.PodTemplateSpec, p *Spot) {
	metadata := p.In("metadata")
	before := len(c.faults)
	c.labels(t.Labels, metadata.In("labels"))
	c.annotations(t.Annotations, metadata.In("annotations"))
	c.podAnnotations(t.Annotations, &t.Spec, metadata.In("annotations"))
	for _, f := range c.faults[before:] {
		f.Err.Field = strings.Replace(f.Err.Field, ".metadata.", ".", 1)
	}
	(&checker{check: c, spec: &t.Spec}).all(p.In("spec"))
	if len(t.Spec.EphemeralContainers) > 0 {
		c.forbidden(p.In("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
}

// podAnnotations validates the annotations for AppArmor and seccomp.
func (c *check) podAnnotations(annotations map[string]string, spec *corev1.PodSpec, p *Spot) {
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[k]
		name, ok := strings.CutPrefix(k, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !ok {
			continue
		}
		at := p.In(mapKey(k))
		if !hasContainer(spec, name) {
			c.invalid(at, name, "container not found")
		}
		if value != "" && value != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault && value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined &&
			!strings.HasPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
			c.invalid(at, value, fmt.Sprintf("invalid AppArmor profile name: %q", value))
		}
	}
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	found := false
	(&checker{spec: spec}).eachContainer(func(_ *Spot, c *corev1.Container) { found = found || c.Name == name }, Top)
	return found
}

// eachContainer visits the containers and init containers.
func (c *checker) eachContainer(visit func(*Spot, *corev1.Container), p *Spot) {
	for i := range c.spec.InitContainers {
		visit(p.In("initContainers", i), &c.spec.InitContainers[i])
	}
	for i := range c.spec.Containers {
		visit(p.In("containers", i), &c.spec.Containers[i])
	}
}

func (c *checker) all(p *Spot) {
	s := c.spec
	if c.grace = s.TerminationGracePeriodSeconds; c.grace == nil {
		c.required(p.In("terminationGracePeriodSeconds"), "")
	}
	c.checkVolumes(s.Volumes, p.In("volumes"))
	c.resourceClaims(p.In("resourceClaims"))
	c.containers(p)
	c.initContainers(p)
	c.podResources(p.In("resources"))
	c.hostNetwork(p.In("containers"))
	oneOf(c.check, p.In("restartPolicy"), s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(c.check, p.In("dnsPolicy"), s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	c.labels(s.NodeSelector, p.In("nodeSelector"))
	c.podSecurity(p)
	c.affinity(s.Affinity, p.In("affinity"))
	c.dnsConfig(p.In("dnsConfig"))
	for i, g := range s.ReadinessGates {
		c.invalids(p.In("readinessGates", i, "conditionType"), string(g.ConditionType), qualifiedName(string(g.ConditionType)))
	}
	c.schedulingGates(p.In("schedulingGates"))
	c.spread(s.TopologySpreadConstraints, p.In("topologySpreadConstraints"))
	c.hostProcesses(p)
	c.hostUsers(p)
	c.hostnameOverride(p)
	c.names(p)
	c.tolerations(s.Tolerations, p.In("tolerations"))
	for i, a := range s.HostAliases {
		at := p.In("hostAliases", i)
		c.legacyIP(at.In("ip"), a.IP)
		for j, name := range a.Hostnames {
			c.invalids(at.In("hostnames", j), name, dnsSubdomain(name))
		}
	}
	if s.PreemptionPolicy != nil && *s.PreemptionPolicy == "" {
		c.required(p.In("preemptionPolicy"), "")
	} else if s.PreemptionPolicy != nil {
		oneOf(c.check, p.In("preemptionPolicy"), *s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	c.overhead(s.Overhead, p.In("overhead"), p.In("overhead"))
	c.operatingSystem(p)
}

// names validates the names in a pod's spec.
func (c *checker) names(p *Spot) {
	s := c.spec
	for _, n := range []struct {
		field, value string
		valid        func(string) []string
	}{
		{"serviceAccountName", s.ServiceAccountName, dnsSubdomain},
		{"nodeName", s.NodeName, dnsSubdomain},
		{"hostname", s.Hostname, dnsLabel},
		{"subdomain", s.Subdomain, dnsLabel},
		{"priorityClassName", s.PriorityClassName, dnsSubdomain},
	} {
		if n.value != "" {
			c.invalids(p.In(n.field), n.value, n.valid(n.value))
		}
	}
	if s.RuntimeClassName != nil {
		c.invalids(p.In("runtimeClassName"), *s.RuntimeClassName, dnsSubdomain(*s.RuntimeClassName))
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		c.invalid(p.In("activeDeadlineSeconds"), *d, validation.InclusiveRangeError(1, math.MaxInt32))
	}
}

func (c *checker) schedulingGates(p *Spot) {
	seen := map[string]bool{}
	for i, g := range c.spec.SchedulingGates {
		c.invalids(p.In(i), g.Name, qualifiedName(g.Name))
		if seen[g.Name] {
			c.duplicate(p.In(i), g.Name)
		}
		seen[g.Name] = true
	}
}

// strictAddresses is the release since which addresses must have their canonical form
// (StrictIPCIDRValidation).
const strictAddresses release = 36

func (c *check) legacyIP(p *Spot, value string) {
	c.errors(p, validation.IsValidIPForLegacyField(p.field(), value, c.release >= strictAddresses, nil))
}

func (c *check) legacyCIDR(p *Spot, value string) {
	c.errors(p, validation.IsValidCIDRForLegacyField(p.field(), value, c.release >= strictAddresses, nil))
}

// relaxedSearches is the release since which search domains may have
// underscores and be the root (RelaxedDNSSearchValidation).
const relaxedSearches release = 33

func (c *checker) dnsConfig(p *Spot) {
	config := c.spec.DNSConfig
	if c.spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			c.required(p, "must provide `dnsConfig` when `dnsPolicy` is None")
			return
		}
		if len(config.Nameservers) == 0 {
			c.required(p.In("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
			return
		}
	}
	if config == nil {
		return
	}
	if len(config.Nameservers) > 3 {
		c.invalid(p.In("nameservers"), config.Nameservers, "must not have more than 3 nameservers")
	}
	for i, ns := range config.Nameservers {
		c.legacyIP(p.In("nameservers", i), ns)
	}
	c.searches(config.Searches, p.In("searches"))
	for i, o := range config.Options {
		if o.Name == "" {
			c.required(p.In("options", i), "must not be empty")
		}
	}
}

func (c *checker) searches(list []string, p *Spot) {
	if len(list) > 32 {
		c.invalid(p, list, "must not have more than 32 search paths")
	}
	if len(strings.Join(list, " ")) > 2048 {
		c.invalid(p, list, "must not have more than 2048 characters (including spaces) in the search list")
	}
	for i, domain := range list {
		short := strings.TrimSuffix(domain, ".")
		switch {
		case c.release < relaxedSearches:
			c.invalids(p.In(i), short, dnsSubdomain(short))
		case domain != ".":
			c.invalids(p.In(i), short, validation.IsDNS1123SubdomainWithUnderscore(short))
		}
	}
}

// hostNetwork requires containers in the node's network to use the same ports on the
// node.
func (c *checker) hostNetwork(p *Spot) {
	if !c.spec.HostNetwork {
		return
	}
	for i := range c.spec.Containers {
		for j, port := range c.spec.Containers[i].Ports {
			if (c.pod || port.HostPort != 0) && port.HostPort != port.ContainerPort {
				c.invalid(p.In(i, "ports", j, "hostPort"), port.HostPort, "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

// hostUsers refuses fields that user namespaces don't support.
func (c *checker) hostUsers(p *Spot) {
	s := c.spec
	if s.HostUsers == nil || *s.HostUsers {
		return
	}
	if s.HostNetwork {
		c.forbidden(p.In("hostNetwork"), "when `hostUsers` is false").also(p.In("hostUsers"))
	}
	if s.HostPID {
		c.forbidden(p.In("HostPID"), "when `hostUsers` is false").at(p.In("hostPID")).also(p.In("hostUsers"))
	}
	if s.HostIPC {
		c.forbidden(p.In("HostIPC"), "when `hostUsers` is false").at(p.In("hostIPC")).also(p.In("hostUsers"))
	}
}

// hostnames is the release since which hostnameOverride counts by default (HostnameOverride);
// before, the server drops it.
const hostnames release = 35

func (c *checker) hostnameOverride(p *Spot) {
	name, at := c.spec.HostnameOverride, p.In("hostnameOverride")
	if name == nil || c.release < hostnames {
		return
	}
	if fqdn := c.spec.SetHostnameAsFQDN; fqdn != nil && *fqdn {
		c.forbidden(at, "may not be specified when setHostnameAsFQDN is true").also(p.In("setHostnameAsFQDN"))
	}
	if c.spec.HostNetwork {
		c.forbidden(at, "may not be specified when hostNetwork is true").also(p.In("hostNetwork"))
	}
	if len(*name) > 64 {
		c.tooLong(at, 64)
	}
	c.invalids(at, *name, dnsSubdomain(*name))
}

func (c *checker) resourceClaims(p *Spot) {
	seen := map[string]bool{}
	for i, claim := range c.spec.ResourceClaims {
		at := p.In(i)
		switch {
		case claim.Name == "":
			c.required(at.In("name"), "")
		case seen[claim.Name]:
			c.duplicate(at.In("name"), claim.Name)
		default:
			c.invalids(at.In("name"), claim.Name, dnsLabel(claim.Name))
			c.claims = append(c.claims, claim.Name)
		}
		seen[claim.Name] = true
		switch name, template := claim.ResourceClaimName, claim.ResourceClaimTemplateName; {
		case name != nil && template != nil:
			c.invalid(at, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case name != nil:
			c.invalids(at.In("resourceClaimName"), *name, dnsSubdomain(*name))
		case template != nil:
			c.invalids(at.In("resourceClaimTemplateName"), *template, dnsSubdomain(*template))
		}
	}
}

func (c *checker) tolerations(list []corev1.Toleration, p *Spot) {
	for i := range list {
		t, at := &list[i], p.In(i)
		if t.Key != "" {
			c.invalids(at.In("key"), t.Key, qualifiedName(t.Key))
		}
		if t.Key == "" && t.Operator != corev1.TolerationOpExists {
			c.invalid(at.In("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			c.invalid(at.In("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		c.tolerationValue(t, at)
		if t.Effect != "" {
			oneOf(c.check, at.In("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		}
	}
}

func (c *checker) tolerationValue(t *corev1.Toleration, p *Spot) {
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if texts := labelValue(t.Value); len(texts) > 0 {
			c.invalid(p.In("operator"), t.Value, strings.Join(texts, ";")).at(p.In("value"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			c.invalid(p.In("operator"), t.Value, "value must be empty when `operator` is 'Exists'").also(p.In("value"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // behind a feature gate
	default:
		c.add(p.In("operator"), fielderr.NotSupported(nil, t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
}
