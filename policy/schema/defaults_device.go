package schema

import (
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
)

// deviceDefaults lists the defaults of resource.k8s.io, except a taint's time,
// which is the time of the request.
var deviceDefaults = []rule{
	on(func(_ release, q *resourcev1.ExactDeviceRequest) { devices(&q.AllocationMode, &q.Count) }),
	on(func(_ release, q *resourcev1.DeviceSubRequest) { devices(&q.AllocationMode, &q.Count) }),
	on(func(_ release, t *resourcev1.DeviceToleration) { fill(&t.Operator, resourcev1.DeviceTolerationOpEqual) }),
	on(func(_ release, q *resourcev1beta2.ExactDeviceRequest) { devices(&q.AllocationMode, &q.Count) }),
	on(func(_ release, q *resourcev1beta2.DeviceSubRequest) { devices(&q.AllocationMode, &q.Count) }),
	on(func(_ release, t *resourcev1beta2.DeviceToleration) {
		fill(&t.Operator, resourcev1beta2.DeviceTolerationOpEqual)
	}),
	on(func(_ release, q *resourcev1beta1.DeviceRequest) {
		if q.DeviceClassName != "" { // else it is one of several alternatives
			devices(&q.AllocationMode, &q.Count)
		}
	}),
	on(func(_ release, q *resourcev1beta1.DeviceSubRequest) { devices(&q.AllocationMode, &q.Count) }),
	on(func(_ release, t *resourcev1beta1.DeviceToleration) {
		fill(&t.Operator, resourcev1beta1.DeviceTolerationOpEqual)
	}),
	on(func(_ release, s *resourcev1alpha3.ResourcePoolStatusRequestSpec) {
		fillPtr(&s.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault)
	}),
}

func devices[M ~string](mode *M, count *int64) {
	const exact = "ExactCount"
	fill(mode, exact)
	if *mode == exact {
		fill(count, 1)
	}
}
