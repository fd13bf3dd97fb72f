package kindcheck

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// autoscaler validates the spec of a HorizontalPodAutoscaler as v2, which the
// server's errors about v1 name too.
func (c *check) autoscaler(s *autoscalingv2.HorizontalPodAutoscalerSpec, p *Spot) {
	maximum := p.In("maxReplicas")
	switch {
	case s.MinReplicas == nil || *s.MinReplicas > 0:
	case *s.MinReplicas < 0:
		c.invalid(p.In("minReplicas"), *s.MinReplicas, fmt.Sprintf("must be greater than or equal to %d", c.fewestReplicas()))
	case c.fewestReplicas() > 0:
		f := c.invalid(p.In("minReplicas"), *s.MinReplicas, "must be greater than or equal to 1")
		f.Warns, f.Assumed = true, []string{"the feature gate HPAScaleToZero is off, as it is by default"}
	}
	switch {
	case s.MaxReplicas == 0:
		c.required(maximum, "must be set and greater than 0")
	case s.MaxReplicas < 0:
		c.invalid(maximum, s.MaxReplicas, "must be greater than or equal to 1")
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		c.invalid(maximum, s.MaxReplicas, "must be greater than or equal to `minReplicas`").also(p.In("minReplicas"))
	}
	target := p.In("scaleTargetRef")
	c.scaled(s.ScaleTargetRef, target)
	if v := s.ScaleTargetRef.APIVersion; c.release >= scaledGroup && !strings.Contains(v, "/") {
		c.invalid(target.In("apiVersion"), v, "apiVersion must specify API group")
	}
	scalesToZero := false
	for i := range s.Metrics {
		m := &s.Metrics[i]
		c.metric(m, p.In("metrics", i))
		scalesToZero = scalesToZero || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !scalesToZero {
		c.forbidden(p.In("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas").also(p.In("minReplicas"))
	}
	if b := s.Behavior; b != nil {
		c.scalingRules(b.ScaleUp, p.In("behavior", "scaleUp"))
		c.scalingRules(b.ScaleDown, p.In("behavior", "scaleDown"))
	}
}

// fewestReplicas returns the smallest minReplicas: HPAScaleToZero is on by default since 1.37.
func (c *check) fewestReplicas() int {
	if c.release >= 37 {
		return 0
	}
	return 1
}

// scaledGroup is the release since which the target of an autoscaler has to
// name its API group.
const scaledGroup release = 34

func (c *check) scaled(r autoscalingv2.CrossVersionObjectReference, p *Spot) {
	for _, f := range []struct{ name, value string }{{"kind", r.Kind}, {"name", r.Name}} {
		if f.value == "" {
			c.required(p.In(f.name), "")
		} else {
			c.invalids(p.In(f.name), f.value, content.IsPathSegmentName(f.value))
		}
	}
	if _, err := schema.ParseGroupVersion(r.APIVersion); err != nil {
		c.invalid(p.In("apiVersion"), r.APIVersion, err.Error())
	}
}

var metricTypes = []autoscalingv2.MetricSourceType{
	autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
	autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
}

func (c *check) metric(m *autoscalingv2.MetricSpec, p *Spot) {
	if m.Type == "" {
		c.required(p.In("type"), "must specify a metric source type")
	}
	set := sourceKinds(reflect.ValueOf(m).Elem())
	if len(set) > 0 {
		c.metricSource(m, p)
	}
	want := ""
	if oneOf(c, p.In("type"), m.Type, metricTypes...) {
		want = strings.ToLower(string(m.Type[:1])) + string(m.Type[1:])
		if !slices.Contains(set, want) {
			c.required(p.In(want), "must populate information for the given metric source")
		}
	}
	for _, name := range set {
		if len(set) > 1 && name != want {
			c.forbidden(p.In(name), "must populate the given metric source only")
		}
	}
}

// metricSource validates the first of the sources, in the order of the server.
func (c *check) metricSource(m *autoscalingv2.MetricSpec, p *Spot) {
	const either = "must set either a target raw value or a target utilization"
	var target *autoscalingv2.MetricTarget
	switch {
	case m.Object != nil:
		p, target = p.In("object"), &m.Object.Target
		c.metricName(m.Object.Metric.Name, p)
		c.scaled(m.Object.DescribedObject, p.In("describedObject"))
		if target.Value == nil && target.AverageValue == nil {
			c.required(p.In("target", "averageValue"), "must set either a target value or averageValue")
		}
	case m.External != nil:
		p, target = p.In("external"), &m.External.Target
		c.metricName(m.External.Metric.Name, p)
		if target.Value == nil && target.AverageValue == nil {
			c.required(p.In("target", "averageValue"), "must set either a target value for metric or a per-pod target")
		}
		if target.Value != nil && target.AverageValue != nil {
			c.forbidden(p.In("target", "value"), "may not set both a target value for metric and a per-pod target")
		}
	case m.Pods != nil:
		p, target = p.In("pods"), &m.Pods.Target
		c.metricName(m.Pods.Metric.Name, p)
		if target.AverageValue == nil {
			c.required(p.In("target", "averageValue"), "must specify a positive target averageValue")
		}
	case m.Resource != nil:
		p, target = p.In("resource"), &m.Resource.Target
		c.resourceTarget(string(m.Resource.Name), target, p, either)
	default:
		p, target = p.In("containerResource"), &m.ContainerResource.Target
		c.resourceTarget(string(m.ContainerResource.Name), target, p, either)
		if m.ContainerResource.Container == "" {
			c.required(p.In("container"), "must specify a container")
		}
	}
	c.metricTarget(target, p.In("target"))
}

func (c *check) metricName(name string, p *Spot) {
	if name == "" {
		c.required(p.In("metric", "name"), "must specify a metric name")
		return
	}
	c.invalids(p.In("metric", "name"), name, content.IsPathSegmentName(name))
}

func (c *check) resourceTarget(name string, t *autoscalingv2.MetricTarget, p *Spot, either string) {
	if name == "" {
		c.required(p.In("name"), "must specify a resource name")
	}
	if t.AverageUtilization == nil && t.AverageValue == nil {
		c.required(p.In("target", "averageUtilization"), either)
	}
	if t.AverageUtilization != nil && t.AverageValue != nil {
		c.forbidden(p.In("target", "averageValue"), "may not set both a target raw value and a target utilization")
	}
}

func (c *check) metricTarget(t *autoscalingv2.MetricTarget, p *Spot) {
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	case "":
		c.required(p.In("type"), "must specify a metric target type")
		fallthrough
	default:
		c.invalid(p.In("type"), t.Type, "must be either Utilization, Value, or AverageValue")
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		c.invalid(p.In("value"), t.Value, "must be positive")
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		c.invalid(p.In("averageValue"), t.AverageValue, "must be positive")
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		c.invalid(p.In("averageUtilization"), t.AverageUtilization, "must be greater than 0")
	}
}

func (c *check) scalingRules(r *autoscalingv2.HPAScalingRules, p *Spot) {
	if r == nil {
		return
	}
	const mostWindow, mostPeriod = 3600, 1800
	if w := r.StabilizationWindowSeconds; w != nil && *w < 0 {
		c.invalid(p.In("stabilizationWindowSeconds"), w, "must be greater than or equal to zero")
	} else if w != nil && *w > mostWindow {
		c.invalid(p.In("stabilizationWindowSeconds"), w, fmt.Sprintf("must be less than or equal to %d", mostWindow))
	}
	if s := r.SelectPolicy; s != nil {
		oneOf(c, p.In("selectPolicy"), *s, autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	if len(r.Policies) == 0 {
		c.required(p.In("policies"), "must specify at least one Policy")
	}
	for i, policy := range r.Policies {
		at := p.In("policies", i)
		oneOf(c, at.In("type"), policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		if policy.Value <= 0 {
			c.invalid(at.In("value"), policy.Value, mustBePositive)
		}
		if policy.PeriodSeconds <= 0 {
			c.invalid(at.In("periodSeconds"), policy.PeriodSeconds, mustBePositive)
		}
		if policy.PeriodSeconds > mostPeriod {
			c.invalid(at.In("periodSeconds"), policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", mostPeriod))
		}
	}
}

// disruptionBudget validates the spec of a PodDisruptionBudget.
func (c *check) disruptionBudget(s *policyv1.PodDisruptionBudgetSpec, p *Spot) {
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		c.invalid(p, s, "minAvailable and maxUnavailable cannot be both set").at(p.In("minAvailable")).also(p.In("maxUnavailable"))
	}
	if s.MinAvailable != nil {
		c.intOrPercent(*s.MinAvailable, p.In("minAvailable"))
		c.atMost100(*s.MinAvailable, p.In("minAvailable"))
	}
	if s.MaxUnavailable != nil {
		c.intOrPercent(*s.MaxUnavailable, p.In("maxUnavailable"))
		c.atMost100(*s.MaxUnavailable, p.In("maxUnavailable"))
	}
	c.selector(s.Selector, p.In("selector"))
	if e := s.UnhealthyPodEvictionPolicy; e != nil {
		oneOf(c, p.In("unhealthyPodEvictionPolicy"), *e, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
}
