package schema

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/preadmit/preadmit/render"
)

// Annotations in which autoscaling/v1 stores fields that only autoscaling/v2 has.
const (
	hpaMetrics        = "autoscaling.alpha.kubernetes.io/metrics"
	hpaBehavior       = "autoscaling.alpha.kubernetes.io/behavior"
	hpaCurrentMetrics = "autoscaling.alpha.kubernetes.io/current-metrics"
	hpaConditions     = "autoscaling.alpha.kubernetes.io/conditions"
	hpaToleranceUp    = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
	hpaToleranceDown  = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
)

func dropHPAAnnotations(annotations map[string]string) {
	for _, key := range []string{hpaMetrics, hpaBehavior, hpaCurrentMetrics, hpaConditions, hpaToleranceUp, hpaToleranceDown} {
		delete(annotations, key)
	}
}

// A hpaBehaviorForm is the behavior as stored in its annotation: the API
// server's internal type, with Go's field names.
type hpaBehaviorForm struct {
	ScaleUp   *hpaScalingRules
	ScaleDown *hpaScalingRules
}

type hpaScalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []hpaScalingPolicy
	Tolerance                  *quantity
}

type hpaScalingPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

// refuseHPA returns the error about a quantity in an annotation that is too
// costly to parse.
func refuseHPA(annotations map[string]string) error {
	for key, shape := range map[string]*shape{hpaMetrics: hpaMetricsShape, hpaBehavior: hpaBehaviorShape, hpaCurrentMetrics: hpaCurrentShape} {
		var value any
		if json.Unmarshal([]byte(annotations[key]), &value) != nil {
			continue
		}
		f := &faults{}
		if f.check(shape, value); f.hostile != nil {
			return fieldError(f.hostile, render.Pointer("metadata", "annotations", key))
		}
	}
	return nil
}

// hpaV2 converts an autoscaling/v1 object with its annotations to v2.
func hpaV2(in *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta}
	out.APIVersion = autoscalingv2.SchemeGroupVersion.String()
	out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	out.Spec.Metrics = hpaMetricsV2(in)
	out.Spec.Behavior = hpaBehaviorV2(in.Annotations[hpaBehavior])
	out.Status = hpaStatusV2(in)
	out.Annotations = maps.Clone(in.Annotations)
	dropHPAAnnotations(out.Annotations)
	return out
}

func hpaMetricsV2(in *autoscalingv1.HorizontalPodAutoscaler) []autoscalingv2.MetricSpec {
	var metrics []autoscalingv2.MetricSpec
	var others []autoscalingv1.MetricSpec
	if json.Unmarshal([]byte(in.Annotations[hpaMetrics]), &others) == nil {
		for i := range others {
			metrics = append(metrics, metricV2(&others[i]))
		}
	}
	if cpu := in.Spec.TargetCPUUtilizationPercentage; cpu != nil {
		metrics = append(metrics, cpuMetric(*cpu))
	}
	if len(metrics) == 0 {
		metrics = append(metrics, cpuMetric(defaultCPU))
	}
	return metrics
}

func hpaBehaviorV2(text string) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	var form hpaBehaviorForm
	if json.Unmarshal([]byte(text), &form) != nil || form == (hpaBehaviorForm{}) {
		return nil
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rulesV2(form.ScaleUp), ScaleDown: rulesV2(form.ScaleDown)}
}

func rulesV2(in *hpaScalingRules) *autoscalingv2.HPAScalingRules {
	if in == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance,
	}
	if in.Policies != nil {
		out.Policies = []autoscalingv2.HPAScalingPolicy{}
	}
	for _, p := range in.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}

func hpaStatusV2(in *autoscalingv1.HorizontalPodAutoscaler) autoscalingv2.HorizontalPodAutoscalerStatus {
	out := autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
		CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
	}
	if cpu := in.Status.CurrentCPUUtilizationPercentage; cpu != nil {
		out.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(*cpu)},
			},
		}}
	}
	var current []autoscalingv1.MetricStatus
	if text, ok := in.Annotations[hpaCurrentMetrics]; ok && json.Unmarshal([]byte(text), &current) == nil {
		out.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(current))
		for i := range current {
			out.CurrentMetrics[i] = metricStatusV2(&current[i])
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if text, ok := in.Annotations[hpaConditions]; ok && json.Unmarshal([]byte(text), &conditions) == nil {
		out.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{}
		for _, c := range conditions {
			out.Conditions = append(out.Conditions, conditionV2(c))
		}
	}
	return out
}

// hpaV1 converts an autoscaling/v2 object to v1. Fields missing in v1 become
// annotations.
func hpaV1(in *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta}
	out.APIVersion = autoscalingv1.SchemeGroupVersion.String()
	out.Spec.ScaleTargetRef = autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	out.Status = autoscalingv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
		CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
	}
	out.Annotations = maps.Clone(in.Annotations)
	dropHPAAnnotations(out.Annotations)
	hpaMetricsV1(in, out)
	if b := in.Spec.Behavior; b != nil {
		annotate(out, hpaBehavior, hpaBehaviorForm{rulesV1(b.ScaleUp), rulesV1(b.ScaleDown)})
	}
	hpaStatusV1(in, out)
	return out
}

func hpaMetricsV1(in *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) {
	var others []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		cpu := m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU
		if !cpu || m.Resource.Target.AverageUtilization == nil {
			others = append(others, metricV1(m))
			continue
		}
		if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = new(*m.Resource.Target.AverageUtilization)
		}
	}
	if len(others) > 0 {
		annotate(out, hpaMetrics, others)
	}
}

func rulesV1(in *autoscalingv2.HPAScalingRules) *hpaScalingRules {
	if in == nil {
		return nil
	}
	out := &hpaScalingRules{
		StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance,
	}
	if in.Policies != nil {
		out.Policies = []hpaScalingPolicy{}
	}
	for _, p := range in.Policies {
		out.Policies = append(out.Policies, hpaScalingPolicy(p))
	}
	return out
}

func hpaStatusV1(in *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) {
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		m := &in.Status.CurrentMetrics[i]
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = new(*r.Current.AverageUtilization)
		}
		current = append(current, metricStatusV1(m))
	}
	if len(current) > 0 {
		annotate(out, hpaCurrentMetrics, current)
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, conditionV1(c))
	}
	if len(conditions) > 0 {
		annotate(out, hpaConditions, conditions)
	}
}

// annotate stores a value as JSON in an annotation.
func annotate(h *autoscalingv1.HorizontalPodAutoscaler, key string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		return // can't happen: every value of these types has a JSON form
	}
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	h.Annotations[key] = string(data)
}
