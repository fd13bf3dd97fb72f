package apiserver

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	quota "k8s.io/apiserver/pkg/quota/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	apicorev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/features"
)

// quota returns the causes for which ResourceQuotas refuse a pod whatever else is in its namespace: a
// container lacks a request or limit that a quota counts, or the pod alone exceeds a quota. The former is a
// warning if the tree has no LimitRange of the namespace, since the cluster may have one. It follows
// CheckRequest of k8s.io/apiserver/pkg/admission/plugin/resourcequota with the evaluator of pods in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core, a package that would link the scheduler.
func (p *Plugins) quota(pod *core.Pod, namespace string) (causes []Cause) {
	quotas := slices.DeleteFunc(slices.Clone(p.quotas), func(q *corev1.ResourceQuota) bool { return q.Namespace != namespace })
	if len(quotas) == 0 {
		return nil
	}
	defaults := slices.ContainsFunc(p.limits, func(l *corev1.LimitRange) bool { return l.Namespace == namespace }) // they are set by now
	at, v1 := field.NewPath("spec", "containers"), &corev1.Pod{}
	if err := apicorev1.Convert_core_Pod_To_v1_Pod(pod.DeepCopy(), v1, nil); err != nil {
		return forbidden(at, err)
	}
	byPod := utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources)
	whole := resourcehelper.PodResourcesOptions{SkipPodLevelResources: !byPod}
	used := quotaUsage(resourcehelper.PodRequests(v1, whole), resourcehelper.PodLimits(v1, whole))
	for _, q := range quotas {
		if !matchesScopes(q, v1) {
			continue
		}
		if first, text := lacking(q, v1); text != "" && !(byPod && resourcehelper.IsPodLevelResourcesSet(v1)) {
			lacks := forbidden(at.Index(first).Child("resources"), fmt.Errorf("failed quota: %s: must specify %s", q.Name, text))
			if !defaults && !p.complete(schema.GroupKind{Kind: "LimitRange"}) {
				lacks[0].Warns, lacks[0].Assumed = true, "no LimitRange of the cluster sets defaults in the namespace"
			}
			causes = append(causes, lacks...)
		} else if fits, exceeded := quota.LessThanOrEqual(used, q.Spec.Hard); !fits {
			asked, limit := quota.Mask(used, exceeded), quota.Mask(q.Spec.Hard, exceeded)
			causes = append(causes, forbidden(at, fmt.Errorf("exceeded quota: %s, requested: %s, limited: %s", q.Name, listed(asked), listed(limit)))...)
		}
	}
	return causes
}

// coupled are the resources that each container must name if a quota counts them.
var coupled = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
}

// lacking returns the resources that a quota counts and containers do not name, with these containers, and
// the index of the first of them.
func lacking(q *corev1.ResourceQuota, pod *corev1.Pod) (first int, text string) {
	first = len(pod.Spec.Containers)
	var all []string
	for _, name := range coupled {
		if _, counted := q.Spec.Hard[name]; !counted {
			continue
		}
		var containers []string
		for i, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if _, ok := quotaUsage(c.Resources.Requests, c.Resources.Limits)[name]; !ok {
				first, containers = min(first, i), append(containers, c.Name)
			}
		}
		if slices.Sort(containers); len(containers) > 0 {
			all = append(all, string(name)+" for: "+strings.Join(slices.Compact(containers), ","))
		}
	}
	if first == len(pod.Spec.Containers) {
		first = 0 // an init container
	}
	return first, strings.Join(all, "; ")
}

// quotaUsage returns what requests and limits use of a quota (podComputeUsageHelper).
func quotaUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"), "count/pods": resource.MustParse("1")}
	for name, amount := range requests {
		all[corev1.DefaultResourceRequestsPrefix+name] = amount
		if helper.IsNativeResource(name) {
			all[name] = amount
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if amount, ok := limits[name]; ok {
			all["limits."+name] = amount
		}
	}
	return all
}

// matchesScopes reports whether a quota counts a pod (podMatchesScopeFunc). A quota whose scope can't be
// decided here counts none.
func matchesScopes(q *corev1.ResourceQuota, pod *corev1.Pod) bool {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		scopes = append(scopes, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		scopes = append(scopes, q.Spec.ScopeSelector.MatchExpressions...)
	}
	bestEffort := qos.GetPodQOS(pod) == corev1.PodQOSBestEffort
	terminating := pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	return !slices.ContainsFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool {
		switch s.ScopeName {
		case corev1.ResourceQuotaScopeTerminating:
			return !terminating
		case corev1.ResourceQuotaScopeNotTerminating:
			return terminating
		case corev1.ResourceQuotaScopeBestEffort:
			return !bestEffort
		case corev1.ResourceQuotaScopeNotBestEffort:
			return bestEffort
		case corev1.ResourceQuotaScopePriorityClass:
			class := make(labels.Set)
			if name := pod.Spec.PriorityClassName; name != "" {
				class[string(s.ScopeName)] = name
			}
			selector, err := helper.ScopedResourceSelectorRequirementsAsSelector(s)
			return err != nil || !selector.Matches(class)
		}
		return true
	})
}

func listed(amounts corev1.ResourceList) string {
	var all []string
	for name, amount := range amounts {
		all = append(all, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
