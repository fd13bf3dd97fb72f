package schema

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// defaultCPU is the target CPU utilization of an autoscaler without metrics.
const defaultCPU = 80

// autoscalingDefaults lists the defaults of horizontal pod autoscalers. The
// default metric of autoscaling/v1 is set in stored, because annotations may
// define metrics.
var autoscalingDefaults = []rule{
	on(func(_ release, h *autoscalingv1.HorizontalPodAutoscaler) { fillPtr(&h.Spec.MinReplicas, 1) }),
	on(func(_ release, h *autoscalingv2.HorizontalPodAutoscaler) {
		fillPtr(&h.Spec.MinReplicas, 1)
		if len(h.Spec.Metrics) == 0 {
			h.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultCPU)}
		}
		if b := h.Spec.Behavior; b != nil {
			scaleUp(&b.ScaleUp)
			scaleDown(&b.ScaleDown)
		}
	}),
}

func cpuMetric(utilization int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
		},
	}
}

func scaleUp(rules **autoscalingv2.HPAScalingRules) {
	fillPtr(rules, autoscalingv2.HPAScalingRules{})
	fillPtr(&(*rules).StabilizationWindowSeconds, 0)
	scaling(*rules,
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
}

func scaleDown(rules **autoscalingv2.HPAScalingRules) {
	fillPtr(rules, autoscalingv2.HPAScalingRules{})
	scaling(*rules, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
}

func scaling(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	fillPtr(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}
