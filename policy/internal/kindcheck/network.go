package kindcheck

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

const ingressClassAnnotation = "kubernetes.io/ingress.class"

func (c *check) ingress(o *networkingv1.Ingress, create bool) {
	s, p := &o.Spec, Top.In("spec")
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		c.invalid(p, s.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if s.DefaultBackend != nil {
		c.backend(s.DefaultBackend, p.In("defaultBackend"))
	}
	for i := range s.Rules {
		c.ingressRule(&s.Rules[i], p.In("rules", i))
	}
	for i := range s.TLS {
		at := p.In("tls", i)
		for j, host := range s.TLS[i].Hosts {
			c.host(host, at.In("hosts", j))
		}
		if name := s.TLS[i].SecretName; name != "" {
			c.invalids(at.In("secretName"), name, dnsSubdomain(name))
		}
	}
	if s.IngressClassName == nil {
		return
	}
	c.invalids(p.In("ingressClassName"), *s.IngressClassName, dnsSubdomain(*s.IngressClassName))
	if class, ok := o.Annotations[ingressClassAnnotation]; ok && create && class != *s.IngressClassName {
		c.invalid(Top.In("annotations", ingressClassAnnotation), class, "must match `ingressClassName` when both are specified").
			at(Top.In("metadata", "annotations", ingressClassAnnotation)).also(p.In("ingressClassName"))
	}
}

func (c *check) host(host string, p *Spot) {
	if strings.Contains(host, "*") {
		c.invalids(p, host, validation.IsWildcardDNS1123Subdomain(host))
		return
	}
	c.invalids(p, host, dnsSubdomain(host))
}

func (c *check) ingressRule(r *networkingv1.IngressRule, p *Spot) {
	if r.Host != "" {
		if _, err := netip.ParseAddr(r.Host); err == nil {
			c.invalid(p.In("host"), r.Host, "must be a DNS name, not an IP address")
		}
		c.host(r.Host, p.In("host"))
	}
	if r.HTTP == nil {
		return
	}
	paths := p.In("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		c.required(paths, "")
	}
	for i := range r.HTTP.Paths {
		c.ingressPath(&r.HTTP.Paths[i], paths.In(i))
	}
}

func (c *check) ingressPath(o *networkingv1.HTTPIngressPath, p *Spot) {
	if o.PathType == nil {
		c.required(p.In("pathType"), "pathType must be specified")
		return
	}
	at := p.In("path")
	absolute := strings.HasPrefix(o.Path, "/")
	switch *o.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !absolute {
			c.invalid(at, o.Path, "must be an absolute path")
		}
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(o.Path, part) {
				c.invalid(at, o.Path, fmt.Sprintf("must not contain '%s'", part))
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(o.Path, end) {
				c.invalid(at, o.Path, fmt.Sprintf("cannot end with '%s'", end))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if o.Path != "" && !absolute {
			c.invalid(at, o.Path, "must be an absolute path")
		}
	default:
		oneOf(c, p.In("pathType"), *o.PathType, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	c.backend(&o.Backend, p.In("backend"))
}

func (c *check) backend(b *networkingv1.IngressBackend, p *Spot) {
	switch {
	case b.Resource != nil && b.Service != nil:
		c.invalid(p, "", "cannot set both resource and service backends")
	case b.Resource != nil:
		c.typedReference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, p.In("resource"))
	case b.Service != nil:
		c.serviceBackend(b.Service, p)
	default:
		c.invalid(p, "", "resource or service backend is required")
	}
}

func (c *check) serviceBackend(s *networkingv1.IngressServiceBackend, p *Spot) {
	name := p.In("service", "name")
	if s.Name == "" {
		c.required(name, "")
	} else if !plainName(s.Name) {
		c.invalids(name, s.Name, c.serviceName()(s.Name, false))
	}
	port := p.In("service", "port")
	switch {
	case s.Port.Name != "" && s.Port.Number != 0:
		c.invalid(p, "", "cannot set both port name & port number").at(port.In("name")).also(port.In("number"))
	case s.Port.Name != "":
		c.invalids(port.In("name"), s.Port.Name, validation.IsValidPortName(s.Port.Name))
	case s.Port.Number != 0:
		c.portNumber(s.Port.Number, port.In("number"))
	default:
		c.required(p, "port name or number is required").at(port)
	}
}

func (c *check) typedReference(group *string, kind, name string, p *Spot) {
	if group != nil {
		c.invalids(p.In("apiGroup"), *group, dnsSubdomain(*group))
	}
	for _, f := range []struct{ field, value string }{{"kind", kind}, {"name", name}} {
		if f.value == "" {
			c.required(p.In(f.field), "")
		} else {
			c.invalids(p.In(f.field), f.value, content.IsPathSegmentName(f.value))
		}
	}
}

func (c *check) ingressClass(s *networkingv1.IngressClassSpec, p *Spot) {
	at := p.In("controller")
	if len(s.Controller) > 250 {
		c.tooLong(at, 250)
	}
	c.errors(at, validation.IsDomainPrefixedPath(at.field(), s.Controller))
	if s.Parameters != nil {
		c.classParameters(s.Parameters, p.In("parameters"))
	}
}

func (c *check) classParameters(r *networkingv1.IngressClassParametersReference, p *Spot) {
	c.typedReference(r.APIGroup, r.Kind, r.Name, p)
	namespace := p.In("namespace")
	if r.Scope == nil {
		c.required(p.In("scope"), "")
		return
	}
	if !oneOf(c, p.In("scope"), *r.Scope, networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace) {
		return
	}
	switch cluster := *r.Scope == networkingv1.IngressClassParametersReferenceScopeCluster; {
	case cluster && r.Namespace != nil:
		c.forbidden(namespace, "`parameters.scope` is set to 'Cluster'").also(p.In("scope"))
	case cluster:
	case r.Namespace == nil:
		c.required(namespace, "`parameters.scope` is set to 'Namespace'").also(p.In("scope"))
	default:
		c.invalids(namespace, *r.Namespace, dnsLabel(*r.Namespace))
	}
}

// networkPolicy validates the spec of a NetworkPolicy.
func (c *check) networkPolicy(s *networkingv1.NetworkPolicySpec, p *Spot) {
	c.selector(&s.PodSelector, p.In("podSelector"))
	for i := range s.Ingress {
		at := p.In("ingress", i)
		c.policyPorts(s.Ingress[i].Ports, at.In("ports"))
		c.peers(s.Ingress[i].From, at.In("from"))
	}
	for i := range s.Egress {
		at := p.In("egress", i)
		c.policyPorts(s.Egress[i].Ports, at.In("ports"))
		c.peers(s.Egress[i].To, at.In("to"))
	}
	if len(s.PolicyTypes) > 2 {
		c.invalid(p.In("policyTypes"), s.PolicyTypes, "may not specify more than two policyTypes")
		return
	}
	for i, t := range s.PolicyTypes {
		oneOf(c, p.In("policyTypes", i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
}

func (c *check) policyPorts(list []networkingv1.NetworkPolicyPort, p *Spot) {
	for i := range list {
		port, at := &list[i], p.In(i)
		if port.Protocol != nil {
			oneOf(c, at.In("protocol"), *port.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		}
		end := at.In("endPort")
		switch {
		case port.Port == nil:
			if port.EndPort != nil {
				c.invalid(end, *port.EndPort, "may not be specified when `port` is not specified")
			}
		case port.Port.Type == intstr.String:
			if port.EndPort != nil {
				c.invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric")
			}
			c.port(*port.Port, at.In("port"))
		default:
			c.port(*port.Port, at.In("port"))
			if port.EndPort != nil && *port.EndPort < port.Port.IntVal {
				c.invalid(end, port.Port.IntVal, "must be greater than or equal to `port`").also(at.In("port"))
			}
			if port.EndPort != nil {
				c.portNumber(*port.EndPort, end)
			}
		}
	}
}

func (c *check) peers(list []networkingv1.NetworkPolicyPeer, p *Spot) {
	for i := range list {
		peer, at := &list[i], p.In(i)
		c.selector(peer.PodSelector, at.In("podSelector"))
		c.selector(peer.NamespaceSelector, at.In("namespaceSelector"))
		if peer.IPBlock != nil {
			c.ipBlock(peer.IPBlock, at.In("ipBlock"))
		}
		selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
		switch {
		case !selects && peer.IPBlock == nil:
			c.required(at, "must specify a peer")
		case selects && peer.IPBlock != nil:
			c.forbidden(at, "may not specify both ipBlock and another peer")
		}
	}
}

func (c *check) ipBlock(b *networkingv1.IPBlock, p *Spot) {
	if b.CIDR == "" {
		c.required(p.In("cidr"), "")
		return
	}
	before := len(c.faults)
	c.legacyCIDR(p.In("cidr"), b.CIDR)
	if len(c.faults) > before {
		return
	}
	block, err := netip.ParsePrefix(b.CIDR)
	for i, text := range b.Except {
		at := p.In("except", i)
		c.legacyCIDR(at, text)
		except, exceptErr := netip.ParsePrefix(text)
		if err == nil && exceptErr == nil && (!block.Contains(except.Addr()) || block.Bits() >= except.Bits()) {
			c.invalid(at, text, "must be a strict subset of `cidr`").also(p.In("cidr"))
		}
	}
}
