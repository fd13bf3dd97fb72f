package schema

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// service validates a Service (validateService).
func (c *check) service(o, old *corev1.Service) {
	s, p := &o.Spec, top.in("spec")
	headless := s.ClusterIP == corev1.ClusterIPNone || len(s.ClusterIPs) > 0 && s.ClusterIPs[0] == corev1.ClusterIPNone
	external := s.Type == corev1.ServiceTypeExternalName
	if len(s.Ports) == 0 && !headless && !external {
		c.required(p.in("ports"), "")
	}
	oneOf(c, p.in("type"), s.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	if headless && (s.Type == corev1.ServiceTypeLoadBalancer || s.Type == corev1.ServiceTypeNodePort) {
		c.invalid(p.in("clusterIPs", 0), corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", s.Type)).at(clusterIPAt(s, p)).also(p.in("type"))
	}
	if external {
		c.externalName(s, p)
	} else {
		c.clusterIPs(s, p)
	}
	// What goes with the old type, and is not changed, an update drops.
	c.servicePorts(s, p.in("ports"), old == nil || old.Spec.Type == s.Type)
	c.labels(s.Selector, p.in("selector"))
	c.affinityOfSessions(s, p)
	for i, ip := range s.ExternalIPs {
		c.legacyIP(p.in("externalIPs", i), ip)
	}
	c.sourceRanges(o, p)
	c.trafficPolicies(s, p)
}

// clusterIPAt is where the first address of a Service is written.
func clusterIPAt(s *corev1.ServiceSpec, p *spot) *spot {
	if s.ClusterIP != "" {
		return p.in("clusterIP")
	}
	return p.in("clusterIPs", 0)
}

func (c *check) externalName(s *corev1.ServiceSpec, p *spot) {
	if s.ClusterIP != "" || len(s.ClusterIPs) > 0 {
		c.forbidden(p.in("clusterIPs"), "may not be set for ExternalName services").at(clusterIPAt(s, p))
	}
	if len(s.IPFamilies) > 0 {
		c.forbidden(p.in("ipFamilies"), "may not be set for ExternalName services")
	}
	if s.IPFamilyPolicy != nil {
		c.forbidden(p.in("ipFamilyPolicy"), "may not be set for ExternalName services")
	}
	name := strings.TrimSuffix(s.ExternalName, ".")
	if name == "" {
		c.required(p.in("externalName"), "")
		return
	}
	c.invalids(p.in("externalName"), name, dnsSubdomain(name))
}

func (c *check) clusterIPs(s *corev1.ServiceSpec, p *spot) {
	if s.ClusterIP != "" && len(s.ClusterIPs) > 0 && s.ClusterIPs[0] != s.ClusterIP {
		c.invalid(p.in("clusterIPs"), s.ClusterIPs, "first value must match `clusterIP`").also(p.in("clusterIP"))
	}
	seen := map[corev1.IPFamily]bool{}
	for i, f := range s.IPFamilies {
		oneOf(c, p.in("ipFamilies", i), f, corev1.IPv4Protocol, corev1.IPv6Protocol)
		if seen[f] {
			c.duplicate(p.in("ipFamilies", i), f)
		}
		seen[f] = true
	}
	if s.IPFamilyPolicy != nil {
		oneOf(c, p.in("ipFamilyPolicy"), *s.IPFamilyPolicy, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
	for i, ip := range s.ClusterIPs {
		if i > 0 || ip != corev1.ClusterIPNone {
			c.legacyIP(p.in("clusterIPs", i), ip)
		}
	}
	if ip := s.ClusterIP; len(s.ClusterIPs) == 0 && ip != "" && ip != corev1.ClusterIPNone {
		before := len(c.faults)
		c.legacyIP(p.in("clusterIPs", 0), ip)
		for _, f := range c.faults[before:] {
			f.at(p.in("clusterIP"))
		}
	}
}

// nodePorts are those that API servers give out by default.
const firstNodePort, lastNodePort = 30000, 32767

func (c *check) servicePorts(s *corev1.ServiceSpec, p *spot, sameType bool) {
	type key struct {
		protocol corev1.Protocol
		number   int32
	}
	names, ports, nodePorts := map[string]int{}, map[key]int{}, map[key]int{}
	for i := range s.Ports {
		port, at := &s.Ports[i], p.in(i)
		c.servicePort(port, at, len(s.Ports) > 1)
		if first, ok := names[port.Name]; ok && port.Name != "" {
			c.duplicate(at.in("name"), port.Name).also(p.in(first, "name"))
		} else {
			names[port.Name] = i
		}
		if first, ok := ports[key{port.Protocol, port.Port}]; ok {
			c.duplicate(at, quotedPort{Protocol: port.Protocol, Port: port.Port}).also(p.in(first))
		} else {
			ports[key{port.Protocol, port.Port}] = i
		}
		if port.NodePort == 0 {
			continue
		}
		switch {
		case s.Type != corev1.ServiceTypeClusterIP:
			c.nodePort(port.NodePort, at.in("nodePort"))
		case sameType:
			c.forbidden(at.in("nodePort"), "may not be used when `type` is 'ClusterIP'")
		}
		if first, ok := nodePorts[key{port.Protocol, port.NodePort}]; ok {
			c.duplicate(at.in("nodePort"), port.NodePort).also(p.in(first, "nodePort"))
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

// nodePort hangs on a flag of the API server, and so only warns.
func (c *check) nodePort(n int32, p *spot) {
	if n >= firstNodePort && n <= lastNodePort {
		return
	}
	f := c.invalid(p, n, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, lastNodePort))
	f.warns = true
	f.assumed = []string{"the API server runs with its default --service-node-port-range"}
}

func (c *check) servicePort(s *corev1.ServicePort, p *spot, named bool) {
	if s.Name != "" {
		c.invalids(p.in("name"), s.Name, dnsLabel(s.Name))
	} else if named {
		c.required(p.in("name"), "")
	}
	c.portNumber(s.Port, p.in("port"))
	c.protocol(s.Protocol, p.in("protocol"))
	c.port(s.TargetPort, p.in("targetPort"))
	if s.AppProtocol != nil {
		c.invalids(p.in("appProtocol"), *s.AppProtocol, qualifiedName(*s.AppProtocol))
	}
}

func (c *check) affinityOfSessions(s *corev1.ServiceSpec, p *spot) {
	oneOf(c, p.in("sessionAffinity"), s.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	at := p.in("sessionAffinityConfig")
	if s.SessionAffinity == corev1.ServiceAffinityNone && s.SessionAffinityConfig != nil {
		c.forbidden(at, "must not be set when session affinity is None").also(p.in("sessionAffinity"))
	}
	const most = 86400
	if s.SessionAffinity != corev1.ServiceAffinityClientIP || s.SessionAffinityConfig == nil || s.SessionAffinityConfig.ClientIP == nil {
		return
	}
	if t := s.SessionAffinityConfig.ClientIP.TimeoutSeconds; t != nil && (*t <= 0 || *t > most) {
		c.invalid(at.in("clientIP", "timeoutSeconds"), t, fmt.Sprintf("must be greater than 0 and less than %d", most))
	}
}

// sourceRanges validates loadBalancerSourceRanges, which the server's paths
// begin with a capital.
func (c *check) sourceRanges(o *corev1.Service, p *spot) {
	const text = "may only be used when `type` is 'LoadBalancer'"
	s := &o.Spec
	at := p.in("loadBalancerSourceRanges")
	said := p.in("LoadBalancerSourceRanges")
	if len(s.LoadBalancerSourceRanges) > 0 && s.Type != corev1.ServiceTypeLoadBalancer {
		c.forbidden(said, text).at(at)
	}
	for i, cidr := range s.LoadBalancerSourceRanges {
		before := len(c.faults)
		c.legacyCIDR(said.in(i), strings.TrimSpace(cidr))
		for _, f := range c.faults[before:] {
			f.at(at.in(i))
		}
	}
	if s.AllocateLoadBalancerNodePorts != nil && s.Type != corev1.ServiceTypeLoadBalancer {
		c.forbidden(p.in("allocateLoadBalancerNodePorts"), text)
	}
	if s.LoadBalancerClass != nil {
		if s.Type != corev1.ServiceTypeLoadBalancer {
			c.forbidden(p.in("loadBalancerClass"), text)
			return
		}
		c.invalids(p.in("loadBalancerClass"), *s.LoadBalancerClass, qualifiedName(*s.LoadBalancerClass))
	}
}

func (c *check) trafficPolicies(s *corev1.ServiceSpec, p *spot) {
	reached := s.Type == corev1.ServiceTypeLoadBalancer || s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0
	at := p.in("externalTrafficPolicy")
	switch policy := s.ExternalTrafficPolicy; {
	case !reached && policy != "":
		c.invalid(at, policy, "may only be set for externally-accessible services")
	case policy != "":
		oneOf(c, at, policy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	}
	checked := s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if s.HealthCheckNodePort != 0 && !checked {
		c.invalid(p.in("healthCheckNodePort"), s.HealthCheckNodePort, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	}
	if policy := s.InternalTrafficPolicy; policy != nil {
		oneOf(c, p.in("internalTrafficPolicy"), *policy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	}
	if d := s.TrafficDistribution; d != nil {
		c.distribution(*d, p.in("trafficDistribution"))
	}
}

// sameDistribution is the release since which traffic may prefer the same zone
// or node (PreferSameTrafficDistribution).
const sameDistribution release = 34

func (c *check) distribution(value string, p *spot) {
	valid := []string{corev1.ServiceTrafficDistributionPreferClose}
	if c.release >= sameDistribution {
		valid = append(valid, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
	if !slices.Contains(valid, value) {
		oneOf(c, p, value, valid...)
	}
}
