package schema

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workloadDefaults lists the defaults of the groups apps and batch.
var workloadDefaults = []rule{
	on(func(_ release, d *appsv1.Deployment) {
		fillPtr(&d.Spec.Replicas, 1)
		fill(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if s := &d.Spec.Strategy; s.Type == appsv1.RollingUpdateDeploymentStrategyType {
			fillPtr(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
			fillPtr(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			fillPtr(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
		fillPtr(&d.Spec.RevisionHistoryLimit, 10)
		fillPtr(&d.Spec.ProgressDeadlineSeconds, 600)
	}),
	on(func(_ release, d *appsv1.DaemonSet) {
		fill(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if s := &d.Spec.UpdateStrategy; s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			fillPtr(&s.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			fillPtr(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			fillPtr(&s.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
		fillPtr(&d.Spec.RevisionHistoryLimit, 10)
	}),
	on(statefulSet),
	on(func(_ release, s *appsv1.ReplicaSet) { fillPtr(&s.Spec.Replicas, 1) }),
	on(job),
	on(func(_ release, c *batchv1.CronJob) {
		fill(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		fillPtr(&c.Spec.Suspend, false)
		fillPtr(&c.Spec.SuccessfulJobsHistoryLimit, 3)
		fillPtr(&c.Spec.FailedJobsHistoryLimit, 1)
	}),
	on(func(_ release, p *batchv1.PodFailurePolicyOnPodConditionsPattern) {
		fill(&p.Status, corev1.ConditionTrue)
	}),
}

func statefulSet(_ release, s *appsv1.StatefulSet) {
	fill(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	u := &s.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		fillPtr(&u.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
		fillPtr(&u.RollingUpdate.Partition, 0)
	}
	fillPtr(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fill(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fillPtr(&s.Spec.Replicas, 1)
	fillPtr(&s.Spec.RevisionHistoryLimit, 10)
}

// job sets the defaults of a Job. They are not set in a CronJob's template.
func job(_ release, j *batchv1.Job) {
	if j.Spec.Parallelism == nil {
		fillPtr(&j.Spec.Completions, 1)
	}
	fillPtr(&j.Spec.Parallelism, 1)
	if j.Spec.BackoffLimitPerIndex != nil {
		fillPtr(&j.Spec.BackoffLimit, math.MaxInt32)
	}
	fillPtr(&j.Spec.BackoffLimit, 6)
	if j.Spec.Template.Labels != nil && len(j.Labels) == 0 {
		j.Labels = j.Spec.Template.Labels
	}
	fillPtr(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	fillPtr(&j.Spec.Suspend, false)
	if j.Spec.PodFailurePolicy != nil {
		fillPtr(&j.Spec.PodReplacementPolicy, batchv1.Failed)
	}
	fillPtr(&j.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	fillPtr(&j.Spec.ManualSelector, false)
}
