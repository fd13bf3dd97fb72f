package schema

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
)

// Defaults of priority levels and flow schemas.
const (
	matchingPrecedence = 1000
	concurrencyShares  = 30
	handSize           = 8
	queues             = 64
	queueLengthLimit   = 50
)

// clusterDefaults lists the defaults of groups that have only a few each.
var clusterDefaults = []rule{
	on(func(_ release, p *networkingv1.NetworkPolicyPort) { fillPtr(&p.Protocol, corev1.ProtocolTCP) }),
	on(func(_ release, p *networkingv1.NetworkPolicy) {
		if len(p.Spec.PolicyTypes) > 0 {
			return
		}
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}),
	on(func(_ release, c *networkingv1.IngressClassParametersReference) {
		fillPtr(&c.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}),
	on(func(_ release, p *discoveryv1.EndpointPort) {
		fillPtr(&p.Name, "")
		fillPtr(&p.Protocol, corev1.ProtocolTCP)
	}),
	on(func(_ release, b *rbacv1.ClusterRoleBinding) { fill(&b.RoleRef.APIGroup, rbacv1.GroupName) }),
	on(func(_ release, b *rbacv1.RoleBinding) { fill(&b.RoleRef.APIGroup, rbacv1.GroupName) }),
	on(func(_ release, s *rbacv1.Subject) {
		if s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			fill(&s.APIGroup, rbacv1.GroupName)
		}
	}),
	on(func(_ release, c *storagev1.StorageClass) {
		fillPtr(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		fillPtr(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	}),
	on(func(_ release, d *storagev1.CSIDriver) {
		fillPtr(&d.Spec.AttachRequired, true)
		fillPtr(&d.Spec.PodInfoOnMount, false)
		fillPtr(&d.Spec.StorageCapacity, false)
		fillPtr(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		fillPtr(&d.Spec.RequiresRepublish, false)
		fillPtr(&d.Spec.SELinuxMount, false)
		if len(d.Spec.VolumeLifecycleModes) == 0 {
			d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	}),
	on(func(_ release, c *schedulingv1.PriorityClass) {
		fillPtr(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
	}),
	on(func(_ release, s *authenticationv1.TokenRequestSpec) { fillPtr(&s.ExpirationSeconds, 60*60) }),
	on(func(_ release, s *certificatesv1.PodCertificateRequestSpec) {
		fillPtr(&s.MaxExpirationSeconds, 24*60*60)
	}),
	on(func(_ release, s *schedulingv1beta1.PodGroupSpec) {
		fillPtr(&s.DisruptionMode, schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}})
	}),
	on(func(_ release, s *certificatesv1beta1.PodCertificateRequestSpec) {
		fillPtr(&s.MaxExpirationSeconds, 24*60*60)
	}),
	on(func(_ release, s *flowcontrolv1.FlowSchemaSpec) { fill(&s.MatchingPrecedence, matchingPrecedence) }),
	on(func(_ release, c *flowcontrolv1.LimitedPriorityLevelConfiguration) {
		fillPtr(&c.NominalConcurrencyShares, concurrencyShares)
		fillPtr(&c.LendablePercent, 0)
	}),
	on(func(_ release, c *flowcontrolv1.ExemptPriorityLevelConfiguration) {
		fillPtr(&c.NominalConcurrencyShares, 0)
		fillPtr(&c.LendablePercent, 0)
	}),
	on(func(_ release, c *flowcontrolv1.QueuingConfiguration) {
		queuing(&c.HandSize, &c.Queues, &c.QueueLengthLimit)
	}),
	on(func(_ release, s *flowcontrolv1beta3.FlowSchemaSpec) { fill(&s.MatchingPrecedence, matchingPrecedence) }),
	on(func(_ release, c *flowcontrolv1beta3.PriorityLevelConfiguration) {
		_, keepsZero := c.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]
		if c.Spec.Limited != nil && !keepsZero {
			fill(&c.Spec.Limited.NominalConcurrencyShares, concurrencyShares)
		}
	}),
	on(func(_ release, c *flowcontrolv1beta3.LimitedPriorityLevelConfiguration) {
		fillPtr(&c.LendablePercent, 0)
	}),
	on(func(_ release, c *flowcontrolv1beta3.ExemptPriorityLevelConfiguration) {
		fillPtr(&c.NominalConcurrencyShares, 0)
		fillPtr(&c.LendablePercent, 0)
	}),
	on(func(_ release, c *flowcontrolv1beta3.QueuingConfiguration) {
		queuing(&c.HandSize, &c.Queues, &c.QueueLengthLimit)
	}),
}

func queuing(hand, number, length *int32) {
	fill(hand, handSize)
	fill(number, queues)
	fill(length, queueLengthLimit)
}
