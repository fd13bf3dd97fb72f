package schema

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *podCheck) affinity(a *corev1.Affinity, p *spot) {
	if a == nil {
		return
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		at := p.in("nodeAffinity")
		c.nodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, at.in(required))
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			term := &n.PreferredDuringSchedulingIgnoredDuringExecution[i]
			c.weight(term.Weight, at.in(preferred, i))
			c.nodeTerm(&term.Preference, at.in(preferred, i, "preference"), false)
		}
	}
	if a.PodAffinity != nil {
		at := p.in("podAffinity")
		c.podTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, at.in(required))
		c.weightedTerms(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, at.in(preferred))
	}
	if a.PodAntiAffinity != nil {
		at := p.in("podAntiAffinity")
		c.podTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, at.in(required))
		c.weightedTerms(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, at.in(preferred))
	}
}

func (c *podCheck) weight(w int32, p *spot) {
	if w < 1 || w > 100 {
		c.invalid(p.in("weight"), w, "must be in the range 1-100")
	}
}

func (c *podCheck) nodeSelector(s *corev1.NodeSelector, p *spot) {
	if s == nil {
		return
	}
	at := p.in("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		c.required(at, "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		c.nodeTerm(&s.NodeSelectorTerms[i], at.in(i), true)
	}
}

func (c *podCheck) nodeTerm(t *corev1.NodeSelectorTerm, p *spot, strictly bool) {
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], p.in("matchExpressions", i)
		c.nodeRequirement(r, at)
		c.invalids(at.in("key"), r.Key, qualifiedName(r.Key))
		for j, v := range r.Values {
			if strictly {
				c.invalids(at.in("values", j), v, labelValue(v))
			}
		}
	}
	for i := range t.MatchFields {
		c.nodeField(&t.MatchFields[i], p.in("matchFields", i))
	}
}

func (c *podCheck) nodeRequirement(r *corev1.NodeSelectorRequirement, p *spot) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			c.required(p.in("values"), "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			c.forbidden(p.in("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			c.required(p.in("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		c.invalid(p.in("operator"), r.Operator, "not a valid selector operator")
	}
}

func (c *podCheck) nodeField(r *corev1.NodeSelectorRequirement, p *spot) {
	if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
		c.invalid(p.in("operator"), r.Operator, "not a valid selector operator")
	} else if len(r.Values) != 1 {
		c.required(p.in("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
	}
	if r.Key != metav1.ObjectNameField {
		c.invalid(p.in("key"), r.Key, "not a valid field selector key")
		return
	}
	for i, v := range r.Values {
		c.invalids(p.in("values", i), v, dnsSubdomain(v))
	}
}

func (c *podCheck) podTerms(list []corev1.PodAffinityTerm, p *spot) {
	for i := range list {
		c.podTerm(&list[i], p.in(i))
	}
}

func (c *podCheck) weightedTerms(list []corev1.WeightedPodAffinityTerm, p *spot) {
	for i := range list {
		c.weight(list[i].Weight, p.in(i))
		c.podTerm(&list[i].PodAffinityTerm, p.in(i, "podAffinityTerm"))
	}
}

func (c *podCheck) podTerm(t *corev1.PodAffinityTerm, p *spot) {
	c.selector(t.LabelSelector, p.in("labelSelector"))
	c.selector(t.NamespaceSelector, p.in("namespaceSelector"))
	for i, name := range t.Namespaces {
		for _, text := range dnsLabel(name) {
			c.invalid(p.in("namespace"), name, text).at(p.in("namespaces", i))
		}
	}
	c.matchKeys(t.MatchLabelKeys, t.LabelSelector, p.in("matchLabelKeys"))
	c.matchKeys(t.MismatchLabelKeys, t.LabelSelector, p.in("mismatchLabelKeys"))
	if t.TopologyKey == "" {
		c.required(p.in("topologyKey"), "can not be empty")
	}
	c.invalids(p.in("topologyKey"), t.TopologyKey, qualifiedName(t.TopologyKey))
}

func (c *podCheck) matchKeys(keys []string, selector *metav1.LabelSelector, p *spot) {
	if len(keys) > 0 && selector == nil {
		c.forbidden(p, "must not be specified when labelSelector is not set")
		return
	}
	for i, k := range keys {
		c.invalids(p.in(i), k, qualifiedName(k))
	}
}

// spread validates topology spread constraints.
func (c *podCheck) spread(list []corev1.TopologySpreadConstraint, p *spot) {
	for i := range list {
		s, at := &list[i], p.in(i)
		if s.MaxSkew <= 0 {
			c.invalid(at.in("maxSkew"), int64(s.MaxSkew), mustBePositive)
		}
		if s.TopologyKey == "" {
			c.required(at.in("topologyKey"), "can not be empty")
		}
		oneOf(c.check, at.in("whenUnsatisfiable"), s.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		for j := range list[i+1:] {
			if other := &list[i+1+j]; other.TopologyKey == s.TopologyKey && other.WhenUnsatisfiable == s.WhenUnsatisfiable {
				c.duplicate(at.in("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%s, %s}", s.TopologyKey, s.WhenUnsatisfiable)).at(p.in(i + 1 + j)).also(at)
				break
			}
		}
		if n := s.MinDomains; n != nil {
			if *n <= 0 {
				c.invalid(at.in("minDomains"), int64(*n), mustBePositive)
			}
			if s.WhenUnsatisfiable != corev1.DoNotSchedule {
				c.invalid(at.in("minDomains"), n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %s", s.WhenUnsatisfiable))
			}
		}
		for name, policy := range map[string]*corev1.NodeInclusionPolicy{"nodeAffinityPolicy": s.NodeAffinityPolicy, "nodeTaintsPolicy": s.NodeTaintsPolicy} {
			if policy != nil {
				oneOf(c.check, at.in(name), *policy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
			}
		}
		c.selector(s.LabelSelector, at.in("labelSelector"))
		c.matchKeys(s.MatchLabelKeys, s.LabelSelector, at.in("matchLabelKeys"))
	}
}
