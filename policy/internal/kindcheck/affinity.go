package kindcheck

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *checker) affinity(a *corev1.Affinity, p *Spot) {
	if a == nil {
		return
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		at := p.In("nodeAffinity")
		c.nodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, at.In(required))
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			term := &n.PreferredDuringSchedulingIgnoredDuringExecution[i]
			c.weight(term.Weight, at.In(preferred, i))
			c.nodeTerm(&term.Preference, at.In(preferred, i, "preference"), false)
		}
	}
	if a.PodAffinity != nil {
		at := p.In("podAffinity")
		c.podTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, at.In(required))
		c.weightedTerms(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, at.In(preferred))
	}
	if a.PodAntiAffinity != nil {
		at := p.In("podAntiAffinity")
		c.podTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, at.In(required))
		c.weightedTerms(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, at.In(preferred))
	}
}

func (c *checker) weight(w int32, p *Spot) {
	if w < 1 || w > 100 {
		c.invalid(p.In("weight"), w, "must be in the range 1-100")
	}
}

func (c *checker) nodeSelector(s *corev1.NodeSelector, p *Spot) {
	if s == nil {
		return
	}
	at := p.In("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		c.required(at, "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		c.nodeTerm(&s.NodeSelectorTerms[i], at.In(i), true)
	}
}

func (c *checker) nodeTerm(t *corev1.NodeSelectorTerm, p *Spot, strictly bool) {
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], p.In("matchExpressions", i)
		c.nodeRequirement(r, at)
		c.invalids(at.In("key"), r.Key, qualifiedName(r.Key))
		for j, v := range r.Values {
			if strictly {
				c.invalids(at.In("values", j), v, labelValue(v))
			}
		}
	}
	for i := range t.MatchFields {
		c.nodeField(&t.MatchFields[i], p.In("matchFields", i))
	}
}

func (c *checker) nodeRequirement(r *corev1.NodeSelectorRequirement, p *Spot) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			c.required(p.In("values"), "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			c.forbidden(p.In("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			c.required(p.In("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		c.invalid(p.In("operator"), r.Operator, "not a valid selector operator")
	}
}

func (c *checker) nodeField(r *corev1.NodeSelectorRequirement, p *Spot) {
	if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
		c.invalid(p.In("operator"), r.Operator, "not a valid selector operator")
	} else if len(r.Values) != 1 {
		c.required(p.In("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
	}
	if r.Key != metav1.ObjectNameField {
		c.invalid(p.In("key"), r.Key, "not a valid field selector key")
		return
	}
	for i, v := range r.Values {
		c.invalids(p.In("values", i), v, dnsSubdomain(v))
	}
}

func (c *checker) podTerms(list []corev1.PodAffinityTerm, p *Spot) {
	for i := range list {
		c.podTerm(&list[i], p.In(i))
	}
}

func (c *checker) weightedTerms(list []corev1.WeightedPodAffinityTerm, p *Spot) {
	for i := range list {
		c.weight(list[i].Weight, p.In(i))
		c.podTerm(&list[i].PodAffinityTerm, p.In(i, "podAffinityTerm"))
	}
}

func (c *checker) podTerm(t *corev1.PodAffinityTerm, p *Spot) {
	c.selector(t.LabelSelector, p.In("labelSelector"))
	c.selector(t.NamespaceSelector, p.In("namespaceSelector"))
	for i, name := range t.Namespaces {
		for _, text := range dnsLabel(name) {
			c.invalid(p.In("namespace"), name, text).at(p.In("namespaces", i))
		}
	}
	c.matchKeys(t.MatchLabelKeys, t.LabelSelector, p.In("matchLabelKeys"))
	c.matchKeys(t.MismatchLabelKeys, t.LabelSelector, p.In("mismatchLabelKeys"))
	if t.TopologyKey == "" {
		c.required(p.In("topologyKey"), "can not be empty")
	}
	c.invalids(p.In("topologyKey"), t.TopologyKey, qualifiedName(t.TopologyKey))
}

func (c *checker) matchKeys(keys []string, selector *metav1.LabelSelector, p *Spot) {
	if len(keys) > 0 && selector == nil {
		c.forbidden(p, "must not be specified when labelSelector is not set")
		return
	}
	for i, k := range keys {
		c.invalids(p.In(i), k, qualifiedName(k))
	}
}

// spread validates topology spread constraints.
func (c *checker) spread(list []corev1.TopologySpreadConstraint, p *Spot) {
	for i := range list {
		s, at := &list[i], p.In(i)
		if s.MaxSkew <= 0 {
			c.invalid(at.In("maxSkew"), int64(s.MaxSkew), mustBePositive)
		}
		if s.TopologyKey == "" {
			c.required(at.In("topologyKey"), "can not be empty")
		}
		oneOf(c.check, at.In("whenUnsatisfiable"), s.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		for j := range list[i+1:] {
			if other := &list[i+1+j]; other.TopologyKey == s.TopologyKey && other.WhenUnsatisfiable == s.WhenUnsatisfiable {
				c.duplicate(at.In("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%s, %s}", s.TopologyKey, s.WhenUnsatisfiable)).at(p.In(i + 1 + j)).also(at)
				break
			}
		}
		if n := s.MinDomains; n != nil {
			if *n <= 0 {
				c.invalid(at.In("minDomains"), int64(*n), mustBePositive)
			}
			if s.WhenUnsatisfiable != corev1.DoNotSchedule {
				c.invalid(at.In("minDomains"), n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %s", s.WhenUnsatisfiable))
			}
		}
		for name, policy := range map[string]*corev1.NodeInclusionPolicy{"nodeAffinityPolicy": s.NodeAffinityPolicy, "nodeTaintsPolicy": s.NodeTaintsPolicy} {
			if policy != nil {
				oneOf(c.check, at.In(name), *policy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
			}
		}
		c.selector(s.LabelSelector, at.In("labelSelector"))
		c.matchKeys(s.MatchLabelKeys, s.LabelSelector, at.In("matchLabelKeys"))
	}
}
