package kindcheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// service validates a Service (validateService).
func (c *check) service(o, old *corev1.Service) {
	if old != nil {
		o = withoutUnneeded(o, old)
	}
	s, p := &o.Spec, Top.In("spec")
	headless := isHeadless(s)
	c.topologyAnnotations(o.Annotations)
	external := s.Type == corev1.ServiceTypeExternalName
	if len(s.Ports) == 0 && !headless && !external {
		c.required(p.In("ports"), "")
	}
	oneOf(c, p.In("type"), s.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	if headless && hasNodePorts(s) {
		c.invalid(p.In("clusterIPs", 0), corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", s.Type)).at(clusterIPAt(s, p)).also(p.In("type"))
	}
	if external {
		c.externalName(s, p)
	} else {
		c.clusterIPs(s, p)
	}
	c.servicePorts(s, p.In("ports"))
	c.labels(s.Selector, p.In("selector"))
	c.affinityOfSessions(s, p)
	for i, ip := range s.ExternalIPs {
		c.endpointIP(p.In("externalIPs", i), ip)
	}
	c.sourceRanges(o, p)
	c.trafficPolicies(s, p)
}

// withoutUnneeded returns a copy without the fields that the server drops if an update changes
// the type: those that the old type needs, the new one doesn't, and the update leaves unchanged
// (dropTypeDependentFields).
func withoutUnneeded(o, old *corev1.Service) *corev1.Service {
	o = o.DeepCopy()
	now, was := &o.Spec, &old.Spec
	ends := func(needs func(*corev1.ServiceSpec) bool) bool { return needs(was) && !needs(now) }
	if ends(func(s *corev1.ServiceSpec) bool { return s.Type != corev1.ServiceTypeExternalName }) {
		if now.ClusterIP == was.ClusterIP && slices.Equal(now.ClusterIPs, was.ClusterIPs) {
			now.ClusterIP, now.ClusterIPs = "", nil
		}
		if slices.Equal(now.IPFamilies, was.IPFamilies) {
			now.IPFamilies = nil
		}
		if equality.Semantic.DeepEqual(now.IPFamilyPolicy, was.IPFamilyPolicy) {
			now.IPFamilyPolicy = nil
		}
	}
	if ends(hasNodePorts) && !slices.ContainsFunc(now.Ports, func(p corev1.ServicePort) bool {
		return p.NodePort != 0 && !slices.ContainsFunc(was.Ports, func(q corev1.ServicePort) bool { return q.NodePort == p.NodePort })
	}) {
		for i := range now.Ports {
			now.Ports[i].NodePort = 0
		}
	}
	if ends(checksHealth) && now.HealthCheckNodePort == was.HealthCheckNodePort {
		now.HealthCheckNodePort = 0
	}
	if ends(func(s *corev1.ServiceSpec) bool { return s.Type == corev1.ServiceTypeLoadBalancer }) {
		if equality.Semantic.DeepEqual(now.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts) {
			now.AllocateLoadBalancerNodePorts = nil
		}
		if equality.Semantic.DeepEqual(now.LoadBalancerClass, was.LoadBalancerClass) {
			now.LoadBalancerClass = nil
		}
	}
	if ends(isReachable) && now.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		now.ExternalTrafficPolicy = ""
	}
	return o
}

func hasNodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
}

// isReachable reports whether traffic from outside of the cluster reaches the Service.
func isReachable(s *corev1.ServiceSpec) bool {
	return hasNodePorts(s) || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0
}

// checksHealth reports whether the Service has a node port for health checks.
func checksHealth(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// address returns the first address that a Service asks for, or "".
func address(s *corev1.ServiceSpec) string {
	if s.ClusterIP == "" && len(s.ClusterIPs) > 0 {
		return s.ClusterIPs[0]
	}
	return s.ClusterIP
}

func isHeadless(s *corev1.ServiceSpec) bool { return address(s) == corev1.ClusterIPNone }

// topologyAnnotations requires the two spellings of an annotation to have one value.
func (c *check) topologyAnnotations(annotations map[string]string) {
	hints, ok := annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, both := annotations[corev1.AnnotationTopologyMode]
	if ok && both && hints != mode {
		at := Top.In("metadata", "annotations")
		c.invalid(at.In(mapKey(corev1.AnnotationTopologyMode)), mode, fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints)).
			also(at.In(mapKey(corev1.DeprecatedAnnotationTopologyAwareHints)))
	}
}

// endpointIP validates an address that other hosts can reach.
func (c *check) endpointIP(p *Spot, value string) {
	before := len(c.faults)
	c.legacyIP(p, value)
	if len(c.faults) == before {
		c.reachableIP(p, value)
	}
}

func (c *check) reachableIP(p *Spot, value string) {
	ip, err := netip.ParseAddr(value)
	if err != nil {
		return
	}
	ip = ip.Unmap()
	for _, k := range []struct {
		is   bool
		text string
	}{
		{ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", value)},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if k.is {
			c.invalid(p, value, k.text)
		}
	}
}

// clusterIPAt returns the place of a Service's first address.
func clusterIPAt(s *corev1.ServiceSpec, p *Spot) *Spot {
	if s.ClusterIP != "" {
		return p.In("clusterIP")
	}
	return p.In("clusterIPs", 0)
}

func (c *check) externalName(s *corev1.ServiceSpec, p *Spot) {
	if s.ClusterIP != "" || len(s.ClusterIPs) > 0 {
		c.forbidden(p.In("clusterIPs"), "may not be set for ExternalName services").at(clusterIPAt(s, p))
	}
	if len(s.IPFamilies) > 0 {
		c.forbidden(p.In("ipFamilies"), "may not be set for ExternalName services")
	}
	if s.IPFamilyPolicy != nil {
		c.forbidden(p.In("ipFamilyPolicy"), "may not be set for ExternalName services")
	}
	name := strings.TrimSuffix(s.ExternalName, ".")
	if name == "" {
		c.required(p.In("externalName"), "")
		return
	}
	c.invalids(p.In("externalName"), name, dnsSubdomain(name))
}

func (c *check) clusterIPs(s *corev1.ServiceSpec, p *Spot) {
	all, before := p.In("clusterIPs"), len(c.faults)
	switch {
	case len(s.ClusterIPs) == 0:
	case s.ClusterIP == "":
		c.invalid(all, s.ClusterIPs, "must be empty when `clusterIP` is not specified")
	case s.ClusterIPs[0] != s.ClusterIP:
		c.invalid(all, s.ClusterIPs, "first value must match `clusterIP`").also(p.In("clusterIP"))
	}
	seen := map[corev1.IPFamily]bool{}
	for i, f := range s.IPFamilies {
		oneOf(c, p.In("ipFamilies", i), f, corev1.IPv4Protocol, corev1.IPv6Protocol)
		if seen[f] {
			c.duplicate(p.In("ipFamilies", i), f)
		}
		seen[f] = true
	}
	if s.IPFamilyPolicy != nil {
		oneOf(c, p.In("ipFamilyPolicy"), *s.IPFamilyPolicy, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
	list := s.ClusterIPs
	if len(list) == 0 && s.ClusterIP != "" {
		list = []string{s.ClusterIP}
	}
	listed := len(c.faults)
	c.addresses(list, s, all)
	if len(s.ClusterIPs) == 0 {
		for _, f := range c.faults[listed:] {
			f.at(p.In("clusterIP"))
		}
	}
	if policy := s.IPFamilyPolicy; len(c.faults) == before && (policy == nil || *policy == corev1.IPFamilyPolicySingleStack) {
		c.singleStack(s, p)
	}
}

// addresses validates the addresses of a Service and their families.
func (c *check) addresses(list []string, s *corev1.ServiceSpec, p *Spot) {
	before := len(c.faults)
	for i, ip := range list {
		switch {
		case i > 0 || ip != corev1.ClusterIPNone:
			c.legacyIP(p.In(i), ip)
		case len(list) > 1:
			c.invalid(p, list, "'None' must be the first and only value")
		}
	}
	valid := len(c.faults) == before
	if len(list) > 2 {
		c.invalid(p, list, "may only hold up to 2 values")
	}
	if !valid || isHeadless(s) {
		return
	}
	six := make([]bool, len(list))
	for i, ip := range list {
		six[i] = strings.Contains(ip, ":")
	}
	if len(list) > 1 && !(slices.Contains(six, true) && slices.Contains(six, false)) {
		c.invalid(p, list, "may specify no more than one IP for each IP family")
	}
	for i, ip := range list[:min(len(list), len(s.IPFamilies))] {
		switch family := s.IPFamilies[i]; {
		case family == corev1.IPv4Protocol && six[i]:
			c.invalid(p.In(i), ip, fmt.Sprintf("expected an IPv4 value as indicated by `ipFamilies[%d]`", i))
		case family == corev1.IPv6Protocol && !six[i]:
			c.invalid(p.In(i), ip, fmt.Sprintf("expected an IPv6 value as indicated by `ipFamilies[%d]`", i))
		}
	}
}

// singleStack requires one family for SingleStack or no policy, as the address
// allocator does.
func (c *check) singleStack(s *corev1.ServiceSpec, p *Spot) {
	if s.IPFamilyPolicy == nil && isHeadless(s) && len(s.Selector) == 0 {
		return // which has both
	}
	single := corev1.IPFamilyPolicySingleStack
	at := p.In("ipFamilyPolicy")
	if len(s.ClusterIPs) == 2 {
		c.invalid(at, &single, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified").also(p.In("clusterIPs"))
	}
	if len(s.IPFamilies) == 2 {
		c.invalid(at, &single, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified").also(p.In("ipFamilies"))
	}
}

// updateService refuses changes of the address, of the order of families, and of the
// load balancer's class.
func (c *check) updateService(now, old *corev1.ServiceSpec, p *Spot) {
	const text = "may not change once set"
	if now.Type != corev1.ServiceTypeExternalName && old.Type != corev1.ServiceTypeExternalName {
		c.keepAddress(now, old, p)
		if is, was := now.IPFamilies, old.IPFamilies; len(is) > 0 && len(was) > 0 && is[0] != was[0] && !isHeadless(now) && !isHeadless(old) {
			c.invalid(p.In("ipFamilies", 0), is, text).immutable = true
		}
	}
	balancer := corev1.ServiceTypeLoadBalancer
	if now.Type != balancer || old.Type != balancer {
		return
	}
	if is, was := now.LoadBalancerClass, old.LoadBalancerClass; (is == nil) != (was == nil) || is != nil && *is != *was {
		c.invalid(p.In("loadBalancerClass"), is, text).immutable = true
	}
	if is, was := now.HealthCheckNodePort, old.HealthCheckNodePort; is != was && is != 0 && was != 0 && checksHealth(now) && checksHealth(old) {
		c.forbidden(p.In("healthCheckNodePort"), "field is immutable").immutable = true
	}
}

// keepAddress refuses a change of a Service's address. If an update has none, the
// server keeps the old one.
func (c *check) keepAddress(now, old *corev1.ServiceSpec, p *Spot) {
	is, was := address(now), address(old)
	if is == "" || is == was {
		return
	}
	list := now.ClusterIPs
	if len(list) == 0 {
		list = []string{is}
	}
	f := c.invalid(p.In("clusterIPs", 0), list, "may not change once set").at(clusterIPAt(now, p))
	f.immutable = true
	if was == "" && is != corev1.ClusterIPNone {
		f.Warns, f.Assumed = true, []string{"the cluster gave the Service another address when it was created"}
	}
}

// The default range of node ports.
const firstNodePort, lastNodePort = 30000, 32767

func (c *check) servicePorts(s *corev1.ServiceSpec, p *Spot) {
	type key struct {
		protocol corev1.Protocol
		number   int32
	}
	names, ports, nodePorts := map[string]int{}, map[key]int{}, map[key]int{}
	for i := range s.Ports {
		port, at := &s.Ports[i], p.In(i)
		c.servicePort(port, at, len(s.Ports) > 1)
		if first, ok := names[port.Name]; ok && port.Name != "" {
			c.duplicate(at.In("name"), port.Name).also(p.In(first, "name"))
		} else {
			names[port.Name] = i
		}
		if first, ok := ports[key{port.Protocol, port.Port}]; ok {
			c.duplicate(at, quotedPort{Protocol: port.Protocol, Port: port.Port}).also(p.In(first))
		} else {
			ports[key{port.Protocol, port.Port}] = i
		}
		if port.NodePort == 0 {
			continue
		}
		switch {
		case s.Type != corev1.ServiceTypeClusterIP:
			c.nodePort(port.NodePort, at.In("nodePort"))
		default:
			c.forbidden(at.In("nodePort"), "may not be used when `type` is 'ClusterIP'")
		}
		if first, ok := nodePorts[key{port.Protocol, port.NodePort}]; ok {
			c.duplicate(at.In("nodePort"), port.NodePort).also(p.In(first, "nodePort"))
		} else {
			nodePorts[key{port.Protocol, port.NodePort}] = i
		}
	}
}

// A quotedPort is how the server quotes a port: as its own type.
type quotedPort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  int32
	NodePort    int32
}

// nodePort only warns, because the range of ports is a flag of the API server.
func (c *check) nodePort(n int32, p *Spot) {
	if n >= firstNodePort && n <= lastNodePort {
		return
	}
	f := c.invalid(p, n, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, lastNodePort))
	f.Warns = true
	f.Assumed = []string{"the API server runs with its default --service-node-port-range"}
}

func (c *check) servicePort(s *corev1.ServicePort, p *Spot, named bool) {
	if s.Name != "" {
		c.invalids(p.In("name"), s.Name, dnsLabel(s.Name))
	} else if named {
		c.required(p.In("name"), "")
	}
	c.portNumber(s.Port, p.In("port"))
	c.protocol(s.Protocol, p.In("protocol"))
	c.port(s.TargetPort, p.In("targetPort"))
	if s.AppProtocol != nil {
		c.invalids(p.In("appProtocol"), *s.AppProtocol, qualifiedName(*s.AppProtocol))
	}
}

func (c *check) affinityOfSessions(s *corev1.ServiceSpec, p *Spot) {
	oneOf(c, p.In("sessionAffinity"), s.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	at := p.In("sessionAffinityConfig")
	if s.SessionAffinity == corev1.ServiceAffinityNone && s.SessionAffinityConfig != nil {
		c.forbidden(at, "must not be set when session affinity is None").also(p.In("sessionAffinity"))
	}
	const most = 86400
	if s.SessionAffinity != corev1.ServiceAffinityClientIP || s.SessionAffinityConfig == nil || s.SessionAffinityConfig.ClientIP == nil {
		return
	}
	if t := s.SessionAffinityConfig.ClientIP.TimeoutSeconds; t != nil && (*t <= 0 || *t > most) {
		c.invalid(at.In("clientIP", "timeoutSeconds"), t, fmt.Sprintf("must be greater than 0 and less than %d", most))
	}
}

// sourceRanges validates loadBalancerSourceRanges. The server's paths begin with a
// capital.
func (c *check) sourceRanges(o *corev1.Service, p *Spot) {
	const text = "may only be used when `type` is 'LoadBalancer'"
	s := &o.Spec
	at := p.In("loadBalancerSourceRanges")
	reported := p.In("LoadBalancerSourceRanges")
	if len(s.LoadBalancerSourceRanges) > 0 && s.Type != corev1.ServiceTypeLoadBalancer {
		c.forbidden(reported, text).at(at)
	}
	if len(s.LoadBalancerSourceRanges) == 0 {
		c.annotatedRanges(o)
	}
	for i, cidr := range s.LoadBalancerSourceRanges {
		before := len(c.faults)
		c.legacyCIDR(reported.In(i), strings.TrimSpace(cidr))
		for _, f := range c.faults[before:] {
			f.at(at.In(i))
		}
	}
	if s.AllocateLoadBalancerNodePorts != nil && s.Type != corev1.ServiceTypeLoadBalancer {
		c.forbidden(p.In("allocateLoadBalancerNodePorts"), text)
	}
	if s.LoadBalancerClass != nil {
		if s.Type != corev1.ServiceTypeLoadBalancer {
			c.forbidden(p.In("loadBalancerClass"), text)
			return
		}
		c.invalids(p.In("loadBalancerClass"), *s.LoadBalancerClass, qualifiedName(*s.LoadBalancerClass))
	}
}

// annotatedRanges validates the annotation that preceded loadBalancerSourceRanges.
func (c *check) annotatedRanges(o *corev1.Service) {
	list, ok := o.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return
	}
	at := Top.In("metadata", "annotations", mapKey(corev1.AnnotationLoadBalancerSourceRangesKey))
	if o.Spec.Type != corev1.ServiceTypeLoadBalancer {
		c.forbidden(at, "may only be used when `type` is 'LoadBalancer'").also(Top.In("spec", "type"))
	}
	if list = strings.TrimSpace(list); list == "" {
		return
	}
	for cidr := range strings.SplitSeq(list, ",") {
		c.legacyCIDR(at, strings.TrimSpace(cidr))
	}
}

func (c *check) trafficPolicies(s *corev1.ServiceSpec, p *Spot) {
	at := p.In("externalTrafficPolicy")
	switch policy := s.ExternalTrafficPolicy; {
	case !isReachable(s) && policy != "":
		c.invalid(at, policy, "may only be set for externally-accessible services")
	case policy != "":
		oneOf(c, at, policy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	}
	if s.HealthCheckNodePort != 0 && !checksHealth(s) {
		c.invalid(p.In("healthCheckNodePort"), s.HealthCheckNodePort, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	}
	if policy := s.InternalTrafficPolicy; policy != nil {
		oneOf(c, p.In("internalTrafficPolicy"), *policy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	}
	if d := s.TrafficDistribution; d != nil {
		c.distribution(*d, p.In("trafficDistribution"))
	}
}

// sameDistribution is the release since which traffic may prefer the same zone
// or node (PreferSameTrafficDistribution).
const sameDistribution release = 34

func (c *check) distribution(value string, p *Spot) {
	valid := []string{corev1.ServiceTrafficDistributionPreferClose}
	if c.release >= sameDistribution {
		valid = append(valid, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
	if !slices.Contains(valid, value) {
		oneOf(c, p, value, valid...)
	}
}
