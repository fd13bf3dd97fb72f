package schema

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
	s, p := &o.Spec, top.in("spec")
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		c.invalid(p, s.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if s.DefaultBackend != nil {
		c.backend(s.DefaultBackend, p.in("defaultBackend"))
	}
	for i := range s.Rules {
		c.ingressRule(&s.Rules[i], p.in("rules", i))
	}
	for i := range s.TLS {
		at := p.in("tls", i)
		for j, host := range s.TLS[i].Hosts {
			c.host(host, at.in("hosts", j))
		}
		if name := s.TLS[i].SecretName; name != "" {
			c.invalids(at.in("secretName"), name, dnsSubdomain(name))
		}
	}
	if s.IngressClassName == nil {
		return
	}
	c.invalids(p.in("ingressClassName"), *s.IngressClassName, dnsSubdomain(*s.IngressClassName))
	if class, ok := o.Annotations[ingressClassAnnotation]; ok && create && class != *s.IngressClassName {
		c.invalid(top.in("annotations", ingressClassAnnotation), class, "must match `ingressClassName` when both are specified").
			at(top.in("metadata", "annotations", ingressClassAnnotation)).also(p.in("ingressClassName"))
	}
}

func (c *check) host(host string, p *spot) {
	if strings.Contains(host, "*") {
		c.invalids(p, host, validation.IsWildcardDNS1123Subdomain(host))
		return
	}
	c.invalids(p, host, dnsSubdomain(host))
}

func (c *check) ingressRule(r *networkingv1.IngressRule, p *spot) {
	if r.Host != "" {
		if _, err := netip.ParseAddr(r.Host); err == nil {
			c.invalid(p.in("host"), r.Host, "must be a DNS name, not an IP address")
		}
		c.host(r.Host, p.in("host"))
	}
	if r.HTTP == nil {
		return
	}
	paths := p.in("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		c.required(paths, "")
	}
	for i := range r.HTTP.Paths {
		c.ingressPath(&r.HTTP.Paths[i], paths.in(i))
	}
}

func (c *check) ingressPath(o *networkingv1.HTTPIngressPath, p *spot) {
	if o.PathType == nil {
		c.required(p.in("pathType"), "pathType must be specified")
		return
	}
	at := p.in("path")
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
		oneOf(c, p.in("pathType"), *o.PathType, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	c.backend(&o.Backend, p.in("backend"))
}

func (c *check) backend(b *networkingv1.IngressBackend, p *spot) {
	switch {
	case b.Resource != nil && b.Service != nil:
		c.invalid(p, "", "cannot set both resource and service backends")
	case b.Resource != nil:
		c.typedReference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, p.in("resource"))
	case b.Service != nil:
		c.serviceBackend(b.Service, p)
	default:
		c.invalid(p, "", "resource or service backend is required")
	}
}

func (c *check) serviceBackend(s *networkingv1.IngressServiceBackend, p *spot) {
	name := p.in("service", "name")
	if s.Name == "" {
		c.required(name, "")
	} else if !plainName(s.Name) {
		c.invalids(name, s.Name, c.serviceName()(s.Name, false))
	}
	port := p.in("service", "port")
	switch {
	case s.Port.Name != "" && s.Port.Number != 0:
		c.invalid(p, "", "cannot set both port name & port number").at(port.in("name")).also(port.in("number"))
	case s.Port.Name != "":
		c.invalids(port.in("name"), s.Port.Name, validation.IsValidPortName(s.Port.Name))
	case s.Port.Number != 0:
		c.portNumber(s.Port.Number, port.in("number"))
	default:
		c.required(p, "port name or number is required").at(port)
	}
}

func (c *check) typedReference(group *string, kind, name string, p *spot) {
	if group != nil {
		c.invalids(p.in("apiGroup"), *group, dnsSubdomain(*group))
	}
	for _, f := range []struct{ field, value string }{{"kind", kind}, {"name", name}} {
		if f.value == "" {
			c.required(p.in(f.field), "")
		} else {
			c.invalids(p.in(f.field), f.value, content.IsPathSegmentName(f.value))
		}
	}
}

func (c *check) ingressClass(s *networkingv1.IngressClassSpec, p *spot) {
	at := p.in("controller")
	if len(s.Controller) > 250 {
		c.tooLong(at, 250)
	}
	c.errors(at, validation.IsDomainPrefixedPath(at.field(), s.Controller))
}

// networkPolicy validates the spec of a NetworkPolicy.
func (c *check) networkPolicy(s *networkingv1.NetworkPolicySpec, p *spot) {
	c.selector(&s.PodSelector, p.in("podSelector"))
	for i := range s.Ingress {
		at := p.in("ingress", i)
		c.policyPorts(s.Ingress[i].Ports, at.in("ports"))
		c.peers(s.Ingress[i].From, at.in("from"))
	}
	for i := range s.Egress {
		at := p.in("egress", i)
		c.policyPorts(s.Egress[i].Ports, at.in("ports"))
		c.peers(s.Egress[i].To, at.in("to"))
	}
	if len(s.PolicyTypes) > 2 {
		c.invalid(p.in("policyTypes"), s.PolicyTypes, "may not specify more than two policyTypes")
		return
	}
	for i, t := range s.PolicyTypes {
		oneOf(c, p.in("policyTypes", i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
}

func (c *check) policyPorts(list []networkingv1.NetworkPolicyPort, p *spot) {
	for i := range list {
		port, at := &list[i], p.in(i)
		if port.Protocol != nil {
			oneOf(c, at.in("protocol"), *port.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		}
		end := at.in("endPort")
		switch {
		case port.Port == nil:
			if port.EndPort != nil {
				c.invalid(end, *port.EndPort, "may not be specified when `port` is not specified")
			}
		case port.Port.Type == intstr.String:
			if port.EndPort != nil {
				c.invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric")
			}
			c.port(*port.Port, at.in("port"))
		default:
			c.port(*port.Port, at.in("port"))
			if port.EndPort != nil && *port.EndPort < port.Port.IntVal {
				c.invalid(end, port.Port.IntVal, "must be greater than or equal to `port`").also(at.in("port"))
			}
			if port.EndPort != nil {
				c.portNumber(*port.EndPort, end)
			}
		}
	}
}

func (c *check) peers(list []networkingv1.NetworkPolicyPeer, p *spot) {
	for i := range list {
		peer, at := &list[i], p.in(i)
		c.selector(peer.PodSelector, at.in("podSelector"))
		c.selector(peer.NamespaceSelector, at.in("namespaceSelector"))
		if peer.IPBlock != nil {
			c.ipBlock(peer.IPBlock, at.in("ipBlock"))
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

func (c *check) ipBlock(b *networkingv1.IPBlock, p *spot) {
	if b.CIDR == "" {
		c.required(p.in("cidr"), "")
		return
	}
	before := len(c.faults)
	c.legacyCIDR(p.in("cidr"), b.CIDR)
	if len(c.faults) > before {
		return
	}
	block, err := netip.ParsePrefix(b.CIDR)
	for i, text := range b.Except {
		at := p.in("except", i)
		c.legacyCIDR(at, text)
		except, exceptErr := netip.ParsePrefix(text)
		if err == nil && exceptErr == nil && (!block.Contains(except.Addr()) || block.Bits() >= except.Bits()) {
			c.invalid(at, text, "must be a strict subset of `cidr`").also(p.in("cidr"))
		}
	}
}
