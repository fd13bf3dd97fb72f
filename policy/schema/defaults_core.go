package schema

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// coreDefaults lists the defaults of the core group, except for pods and volumes.
var coreDefaults = []rule{
	on(service),
	on(func(_ release, p *corev1.EndpointPort) { fill(&p.Protocol, corev1.ProtocolTCP) }),
	on(func(_ release, s *corev1.Secret) { fill(&s.Type, corev1.SecretTypeOpaque) }),
	on(func(_ release, m *corev1.ConfigMap) {
		if m.Data == nil {
			m.Data = map[string]string{}
		}
	}),
	on(func(_ release, n *corev1.Namespace) {
		if n.Name == "" {
			return
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[corev1.LabelMetadataName] = n.Name
	}),
	on(func(_ release, s *corev1.NamespaceStatus) { fill(&s.Phase, corev1.NamespaceActive) }),
	on(func(_ release, s *corev1.NodeStatus) {
		if s.Allocatable == nil && s.Capacity != nil {
			s.Allocatable = s.Capacity.DeepCopy()
		}
	}),
	on(limitRangeItem),
	on(func(_ release, c *corev1.ReplicationController) {
		fillPtr(&c.Spec.Replicas, 1)
		if c.Spec.Template == nil || c.Spec.Template.Labels == nil {
			return
		}
		if len(c.Spec.Selector) == 0 {
			c.Spec.Selector = c.Spec.Template.Labels
		}
		if len(c.Labels) == 0 {
			c.Labels = c.Spec.Template.Labels
		}
	}),
}

func service(r release, s *corev1.Service) {
	sessionAffinity(&s.Spec)
	fill(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		fill(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	cluster := s.Spec.Type == corev1.ServiceTypeClusterIP
	nodePort := s.Spec.Type == corev1.ServiceTypeNodePort
	balanced := s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if nodePort || balanced || cluster && len(s.Spec.ExternalIPs) > 0 {
		fill(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if nodePort || balanced || cluster {
		fillPtr(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if balanced {
		fillPtr(&s.Spec.AllocateLoadBalancerNodePorts, true)
		ipModes(r, s.Status.LoadBalancer.Ingress)
	}
}

func sessionAffinity(s *corev1.ServiceSpec) {
	fill(&s.SessionAffinity, corev1.ServiceAffinityNone)
	switch c := s.SessionAffinityConfig; {
	case s.SessionAffinity == corev1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case s.SessionAffinity != corev1.ServiceAffinityClientIP:
	case c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil:
		timeout := corev1.DefaultClientIPServiceAffinitySeconds
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	}
}

func ipModes(r release, ingresses []corev1.LoadBalancerIngress) {
	if r < loadBalancerIPMode {
		return
	}
	for i := range ingresses {
		if ingresses[i].IP != "" {
			fillPtr(&ingresses[i].IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

// limitRangeItem derives limits from maxima, and requests from limits, then
// from minima.
func limitRangeItem(_ release, l *corev1.LimitRangeItem) {
	if l.Type != corev1.LimitTypeContainer {
		return
	}
	if l.Default == nil {
		l.Default = corev1.ResourceList{}
	}
	if l.DefaultRequest == nil {
		l.DefaultRequest = corev1.ResourceList{}
	}
	fillList(l.Default, l.Max)
	fillList(l.DefaultRequest, l.Default)
	fillList(l.DefaultRequest, l.Min)
}
