package kindcheck

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
)

// endpoints validates Endpoints. Subsets that an update leaves unchanged are not
// validated again.
func (c *check) endpoints(o, old *corev1.Endpoints) {
	if old != nil && equality.Semantic.DeepEqual(o.Subsets, old.Subsets) {
		return
	}
	for i := range o.Subsets {
		s, p := &o.Subsets[i], Top.In("subsets", i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			c.required(p, "must specify `addresses` or `notReadyAddresses`")
		}
		for j := range s.Addresses {
			c.endpointAddress(&s.Addresses[j], p.In("addresses", j))
		}
		for j := range s.NotReadyAddresses {
			c.endpointAddress(&s.NotReadyAddresses[j], p.In("notReadyAddresses", j))
		}
		for j := range s.Ports {
			port, at := &s.Ports[j], p.In("ports", j)
			if port.Name != "" {
				c.invalids(at.In("name"), port.Name, dnsLabel(port.Name))
			} else if len(s.Ports) > 1 {
				c.required(at.In("name"), "")
			}
			c.portNumber(port.Port, at.In("port"))
			c.protocol(port.Protocol, at.In("protocol"))
			if port.AppProtocol != nil {
				c.invalids(at.In("appProtocol"), *port.AppProtocol, qualifiedName(*port.AppProtocol))
			}
		}
	}
}

func (c *check) endpointAddress(a *corev1.EndpointAddress, p *Spot) {
	c.endpointIP(p.In("ip"), a.IP)
	if a.Hostname != "" {
		c.invalids(p.In("hostname"), a.Hostname, dnsLabel(a.Hostname))
	}
	if a.NodeName != nil {
		c.invalids(p.In("nodeName"), *a.NodeName, dnsSubdomain(*a.NodeName))
	}
}

// The most that an EndpointSlice holds.
const maxEndpoints, maxEndpointPorts, maxEndpointAddresses = 1000, 20000, 100

// endpointSlice validates an EndpointSlice. Endpoints that an update leaves unchanged
// are not validated again.
func (c *check) endpointSlice(o, old *discoveryv1.EndpointSlice) {
	at := Top.In("addressType")
	if o.AddressType == "" {
		c.required(at, "")
	} else {
		oneOf(c, at, o.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	}
	c.slicePorts(o.Ports, Top.In("ports"))
	p := Top.In("endpoints")
	switch n := len(o.Endpoints); {
	case old != nil && equality.Semantic.DeepEqual(o.Endpoints, old.Endpoints):
	case n > maxEndpoints:
		c.tooMany(p, n, maxEndpoints)
	default:
		for i := range o.Endpoints {
			c.endpoint(&o.Endpoints[i], o.AddressType, p.In(i))
		}
	}
}

func (c *check) slicePorts(list []discoveryv1.EndpointPort, p *Spot) {
	if n := len(list); n > maxEndpointPorts {
		c.tooMany(p, n, maxEndpointPorts)
		return
	}
	names := map[string]bool{}
	for i := range list {
		port, at := &list[i], p.In(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			c.invalids(at.In("name"), name, dnsLabel(name))
		}
		if names[name] {
			c.duplicate(at.In("name"), name)
		}
		names[name] = true
		if port.Protocol != nil {
			oneOf(c, at.In("protocol"), *port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		if port.AppProtocol != nil {
			c.invalids(at.In("appProtocol"), *port.AppProtocol, qualifiedName(*port.AppProtocol))
		}
	}
}

func (c *check) endpoint(e *discoveryv1.Endpoint, kind discoveryv1.AddressType, p *Spot) {
	at := p.In("addresses")
	if n := len(e.Addresses); n == 0 {
		c.required(at, "must contain at least 1 address")
	} else if n > maxEndpointAddresses {
		c.tooMany(at, n, maxEndpointAddresses)
	}
	for i, a := range e.Addresses {
		switch kind {
		case discoveryv1.AddressTypeIPv4:
			c.addressOf(4, a, at, i)
		case discoveryv1.AddressTypeIPv6:
			c.addressOf(6, a, at, i)
		case discoveryv1.AddressTypeFQDN:
			c.errors(at.In(i), validation.IsFullyQualifiedDomainName(at.In(i).field(), a))
		}
	}
	if e.NodeName != nil {
		c.invalids(p.In("nodeName"), *e.NodeName, dnsSubdomain(*e.NodeName))
	}
	if e.Hostname != nil {
		c.invalids(p.In("hostname"), *e.Hostname, dnsLabel(*e.Hostname))
	}
}

// addressOf validates an address of a version of the Internet protocol. The server's paths
// leave out the index.
func (c *check) addressOf(version int, value string, list *Spot, i int) {
	before := len(c.faults)
	if version == 4 {
		c.legacyIP(list.In(i), value)
	} else {
		c.errors(list.In(i), validation.IsValidIP(list.In(i).field(), value))
	}
	if len(c.faults) > before {
		return
	}
	ip, err := netip.ParseAddr(value)
	if four := err != nil || ip.Is4() || ip.Is4In6(); four != (version == 4) || strings.Contains(value, ":") == (version == 4) {
		text := map[int]string{4: "must be an IPv4 address", 6: "must be an IPv6 address"}[version]
		c.invalid(list, value, text).at(list.In(i))
	}
	c.reachableIP(list.In(i), value)
}
