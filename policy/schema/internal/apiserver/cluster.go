package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/service"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// complete sets what validation expects and the cluster sets before it: the plugin
// ServiceAccount, and the allocators of Services
// (pkg/registry/core/service/storage/alloc.go).
func complete(object runtime.Object, free allocation) {
	switch o := object.(type) {
	case *core.LimitRange: // its strategy would make a random name
		o.Name = cmp.Or(o.Name, string(uid))
	case *core.Pod:
		if o.Spec.ServiceAccountName == "" {
			o.Spec.ServiceAccountName, o.Spec.DeprecatedServiceAccount = "default", "default"
		}
	case *core.Service:
		if o.Spec.ClusterIP != "" && len(o.Spec.ClusterIPs) == 0 {
			o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
		}
		local := o.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal
		if o.Spec.Type == core.ServiceTypeLoadBalancer && local && o.Spec.HealthCheckNodePort == 0 {
			o.Spec.HealthCheckNodePort = free.port
		}
	}
}

// namespaces is the client with which the strategies of resource claims get their namespace. It returns
// a namespace without labels.
type namespaces struct {
	clientcorev1.NamespaceInterface
}

// Get implements clientcorev1.NamespaceInterface.
func (namespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// allocates reports whether the allocators give a type of Services an address or ports.
func allocates(t corev1.ServiceType) bool { return t != corev1.ServiceTypeExternalName }

// An allocation is what the allocators find free: an address, and ports for those of a Service.
type allocation struct {
	address string
	family  core.IPFamily
	port    int32
	step    int32
}

// Two allocations that have nothing in common.
var (
	lowest  = allocation{"10.96.0.1", core.IPv4Protocol, minNodePort, 1}
	highest = allocation{"fd00::ffff", core.IPv6Protocol, maxNodePort, -1}
)

// of returns the free address of a family.
func (a allocation) of(families []core.IPFamily) string {
	switch {
	case len(families) == 0 || families[0] == a.family:
		return a.address
	case a.family == core.IPv4Protocol:
		return "fd00::1"
	}
	return "10.111.255.254"
}

// nodePort returns a node port for a port of a Service, if one is left. Both objects of an update get the
// same one.
func (a allocation) nodePort(s *core.Service, port int32) int32 {
	const size = maxNodePort - minNodePort + 1
	for i := range int32(size) {
		n := a.port + a.step*((port%size+i)%size)
		if !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.NodePort == n }) {
			return n
		}
	}
	return a.port
}

// allocate gives a Service what pkg/registry/core/service/storage/alloc.go does: an address and its
// family, unless it has one, and a port for each of its ports that needs one.
func allocate(object runtime.Object, free allocation) {
	s, ok := object.(*core.Service)
	if !ok || !allocates(corev1.ServiceType(s.Spec.Type)) {
		return
	}
	family := free.family
	if len(s.Spec.IPFamilies) > 0 {
		family = s.Spec.IPFamilies[0]
	}
	if s.Spec.ClusterIP == "" {
		address := free.of(s.Spec.IPFamilies)
		s.Spec.ClusterIP, s.Spec.ClusterIPs = address, []string{address}
	} else if strings.Contains(s.Spec.ClusterIP, ":") {
		family = core.IPv6Protocol
	} else if s.Spec.ClusterIP != core.ClusterIPNone {
		family = core.IPv4Protocol
	}
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []core.IPFamily{family}
	}
	if single := core.IPFamilyPolicySingleStack; s.Spec.IPFamilyPolicy == nil {
		s.Spec.IPFamilyPolicy = &single
	}
	balanced := s.Spec.Type == core.ServiceTypeLoadBalancer && (s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.NodePort == 0 && (balanced || s.Spec.Type == core.ServiceTypeNodePort) {
			p.NodePort = free.nodePort(s, p.Port)
		}
	}
}

// The range of --service-node-port-range, by default.
const minNodePort, maxNodePort = 30000, 32767

// allocated returns the causes for which the allocators of addresses and ports refuse a Service (initNodePorts and
// updateNodePorts in pkg/registry/core/service/storage/alloc.go): those that do not depend on the cluster, and what
// another Service has. The server asks about others only if the Service is valid otherwise. old is nil on creation; what
// it has is not allocated again. Which of two new Services is created first is not known.
func allocated(object, old runtime.Object, health healthPorts, others []*corev1.Service, valid bool) []Cause {
	s, ok := object.(*core.Service)
	if !ok {
		return nil
	}
	was, _ := old.(*core.Service)
	spec := field.NewPath("spec")
	var all []Cause
	for _, e := range families(s, spec.Child("ipFamilyPolicy")) {
		all = append(all, causeOf(e))
	}
	own, ofPort := make(map[int32]bool), make(map[int32]int32)
	had := func(n int32) bool { // an update releases the old ports only when it ends
		return was != nil && slices.ContainsFunc(was.Spec.Ports, func(o core.ServicePort) bool { return o.NodePort == n })
	}
	allocatePort := func(at *field.Path, n int32, text string) {
		if n < minNodePort || n > maxNodePort {
			c := causeOf(field.Invalid(at, n, fmt.Sprintf("%sprovided port is not in the valid range. The range of valid ports is %d-%d", text, minNodePort, maxNodePort)))
			c.Warns, c.Assumed = true, "the API server runs with its default --service-node-port-range"
			all = append(all, c)
		}
		switch refusal := field.Invalid(at, n, text+"provided port is already allocated"); {
		case !valid:
		case own[n] || n == health.was || had(n):
			all = append(all, causeOf(refusal))
		default:
			all = append(all, taken(refusal, others, func(o *corev1.Service) bool {
				return o.Spec.HealthCheckNodePort == n || slices.ContainsFunc(o.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == n })
			})...)
		}
		own[n] = true
	}
	for i, p := range s.Spec.Ports {
		n := p.NodePort
		if was == nil && ofPort[p.Port] == 0 { // ports of one number, such as of TCP and UDP, share the first node port
			if first := slices.IndexFunc(s.Spec.Ports, func(o core.ServicePort) bool { return o.Port == p.Port && o.NodePort != 0 }); first >= 0 {
				n = s.Spec.Ports[first].NodePort
			}
		}
		if n == 0 || n == ofPort[p.Port] || was != nil && (own[n] || had(n)) {
			continue
		}
		allocatePort(spec.Child("ports").Index(i).Child("nodePort"), n, "")
		ofPort[p.Port] = n
	}
	if n := health.now; n != 0 && (was == nil || !service.NeedsHealthCheck(was)) {
		allocatePort(spec.Child("healthCheckNodePort"), n, fmt.Sprintf("failed to allocate requested HealthCheck NodePort %d: ", n))
	}
	for _, ip := range s.Spec.ClusterIPs {
		if valid && ip != core.ClusterIPNone && (was == nil || !slices.Contains(was.Spec.ClusterIPs, ip)) {
			text := fmt.Sprintf("failed to allocate IP %v: provided IP is already allocated", ip)
			all = append(all, taken(field.Invalid(spec.Child("clusterIPs"), s.Spec.ClusterIPs, text), others, func(o *corev1.Service) bool {
				return o.Spec.ClusterIP == ip || slices.Contains(o.Spec.ClusterIPs, ip)
			})...)
		}
	}
	return all
}

// healthPorts are the node ports for health checks that a Service asks for, after and before an update. 0 is none.
type healthPorts struct{ now, was int32 }

// healthPort returns the node port for health checks that an object asks for. complete may set another one later.
func healthPort(object runtime.Object) int32 {
	if s, ok := object.(*core.Service); ok && service.NeedsHealthCheck(s) {
		return s.Spec.HealthCheckNodePort
	}
	return 0
}

const createdFirst = "the other one is created first"

// taken returns the error of an allocator as a cause, if another Service has what it allocates.
func taken(e *field.Error, others []*corev1.Service, has func(*corev1.Service) bool) []Cause {
	i := slices.IndexFunc(others, has)
	if i < 0 {
		return nil
	}
	e.Detail += fmt.Sprintf(", to Service %s/%s", others[i].Namespace, others[i].Name)
	c := causeOf(e)
	c.Assumed = createdFirst
	return []Cause{c}
}

func causeOf(e *field.Error) Cause {
	return Cause{StatusCause: metav1.StatusCause{Type: metav1.CauseType(e.Type), Message: e.ErrorBody(), Field: e.Field}}
}

// families returns the errors of initIPFamilyFields that do not depend on the cluster.
func families(s *core.Service, at *field.Path) field.ErrorList {
	single := core.IPFamilyPolicySingleStack
	policy := s.Spec.IPFamilyPolicy
	headless := s.Spec.ClusterIP == core.ClusterIPNone && len(s.Spec.Selector) == 0
	if policy == nil && !headless {
		policy = &single
	}
	if s.Spec.Type == core.ServiceTypeExternalName || policy == nil || *policy != single || len(validation.ValidateServiceClusterIPsRelatedFields(s, nil)) > 0 {
		return nil
	}
	var errs field.ErrorList
	const text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
	if len(s.Spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(at, single, text+"cluster IPs are specified"))
	}
	if len(s.Spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(at, single, text+"IP families are specified"))
	}
	return errs
}

// keepAllocated gives both objects of an update the fields that the cluster set when the
// old one was created, and that clients leave alone.
func (r Request) keepAllocated(object, old runtime.Object, free allocation) {
	switch was := old.(type) {
	case *core.Service:
		complete(was, free)
		now := object.(*core.Service)
		if now.Spec.HealthCheckNodePort == 0 && service.NeedsHealthCheck(now) && service.NeedsHealthCheck(was) { // patchAllocatedValues
			now.Spec.HealthCheckNodePort = was.Spec.HealthCheckNodePort
		}
		complete(now, free)
		keepAddress(now, was, free)
	case *core.PersistentVolumeClaim: // bound to a volume of the size that it requests
		was.Status.Phase = core.ClaimBound
		was.Status.Capacity = core.ResourceList{core.ResourceStorage: was.Spec.Resources.Requests[core.ResourceStorage]}
		if r.Replaces && object.(*core.PersistentVolumeClaim).Spec.VolumeName == "" {
			was.Spec.VolumeName = cmp.Or(was.Spec.VolumeName, "bound-volume")
		}
	}
}

// assume adds to a cause what keepAllocated assumes of the cluster.
func (r Request) assume(c *Cause) {
	switch old := r.Old.(type) {
	case *corev1.Service:
		if c.Changed && old.Spec.ClusterIP == "" && strings.HasPrefix(c.Field, "spec.clusterIP") {
			c.Warns, c.Assumed = true, "the cluster gave the Service another address when it was created"
		}
	case *corev1.PersistentVolumeClaim:
		if c.Field == "spec.resources.requests.storage" {
			c.Assumed = "the claim has the capacity that it requested"
		} else if r.Replaces && c.Field == "spec" {
			c.Assumed = "the claim is bound to a volume, which the manifest that replaces it does not name"
		}
	}
}

// keepAddress keeps the address of a Service, as normalizeClusterIPs and
// patchAllocatedValues of pkg/registry/core/service/storage do.
func keepAddress(now, old *core.Service, free allocation) {
	if now.Spec.Type == core.ServiceTypeExternalName || old.Spec.Type == core.ServiceTypeExternalName {
		return
	}
	if old.Spec.ClusterIP == "" && len(old.Spec.ClusterIPs) == 0 {
		address := free.of(old.Spec.IPFamilies)
		old.Spec.ClusterIP, old.Spec.ClusterIPs = address, []string{address}
	}
	if now.Spec.ClusterIP != old.Spec.ClusterIP && slices.Equal(now.Spec.ClusterIPs, old.Spec.ClusterIPs) { // one changes alone
		if now.Spec.ClusterIPs = nil; now.Spec.ClusterIP != "" {
			now.Spec.ClusterIPs = []string{now.Spec.ClusterIP}
		}
	}
	if now.Spec.ClusterIP == "" && len(now.Spec.ClusterIPs) == 0 {
		now.Spec.ClusterIP, now.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	if len(now.Spec.IPFamilies) == 0 {
		now.Spec.IPFamilies = old.Spec.IPFamilies
	}
	if len(old.Spec.IPFamilies) == 0 {
		old.Spec.IPFamilies = now.Spec.IPFamilies
	}
}
