package schema

import (
	"maps"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"

	"github.com/preadmit/preadmit/policy/internal/image"
)

// First releases in which the feature gates of some defaults are on.
const (
	podLevelResources  release = 34
	imageVolume        release = 35
	loadBalancerIPMode release = 30
)

// podDefaults lists the defaults of pods and of pod templates. A pod gets some that a
// template doesn't.
var podDefaults = []rule{
	on(pod),
	on(func(_ release, p *corev1.PodSpec) {
		fill(&p.DNSPolicy, corev1.DNSClusterFirst)
		fill(&p.RestartPolicy, corev1.RestartPolicyAlways)
		fillPtr(&p.SecurityContext, corev1.PodSecurityContext{})
		fillPtr(&p.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		fill(&p.SchedulerName, corev1.DefaultSchedulerName)
	}),
	on(func(_ release, c *corev1.Container) { container(c) }),
	on(func(_ release, c *corev1.EphemeralContainerCommon) { container((*corev1.Container)(c)) }),
	on(func(_ release, p *corev1.ContainerPort) { fill(&p.Protocol, corev1.ProtocolTCP) }),
	on(func(_ release, s *corev1.ObjectFieldSelector) { fill(&s.APIVersion, "v1") }),
	on(func(_ release, s *corev1.FileKeySelector) { fillPtr(&s.Optional, false) }),
	on(func(_ release, p *corev1.Probe) {
		fill(&p.TimeoutSeconds, 1)
		fill(&p.PeriodSeconds, 10)
		fill(&p.SuccessThreshold, 1)
		fill(&p.FailureThreshold, 3)
	}),
	on(func(_ release, a *corev1.HTTPGetAction) {
		fill(&a.Path, "/")
		fill(&a.Scheme, corev1.URISchemeHTTP)
	}),
	on(func(_ release, a *corev1.GRPCAction) { fillPtr(&a.Service, "") }),
	on(func(_ release, l *corev1.ResourceList) {
		const milli = -3
		for name, q := range *l {
			q.RoundUp(milli)
			(*l)[name] = q
		}
	}),
}

func container(c *corev1.Container) {
	fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
}

// imageID matches an image that is named by its ID alone, which has no tag.
var imageID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-f0-9]{64}$`) })

// pullPolicy returns Always for an image with the tag latest, or with neither a tag nor
// a digest.
func pullPolicy(name string) corev1.PullPolicy {
	if imageID().MatchString(name) {
		return corev1.PullIfNotPresent
	}
	official, ok := strings.CutPrefix(name, "index.docker.io/")
	if !ok {
		official = strings.TrimPrefix(name, "docker.io/")
	}
	if !strings.Contains(official, "/") {
		name = "library/" + official // which counts for the length
	}
	if r, err := image.Parse(name); err == nil && r.Tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func pod(r release, p *corev1.Pod) {
	for i := range p.Spec.Containers {
		requestLimits(&p.Spec.Containers[i].Resources)
	}
	for i := range p.Spec.InitContainers {
		requestLimits(&p.Spec.InitContainers[i].Resources)
	}
	if r >= podLevelResources && p.Spec.Resources != nil {
		hugePageLimits(p)
		podRequests(p)
	}
	fillPtr(&p.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if p.Spec.HostNetwork {
		hostPorts(p.Spec.Containers)
		hostPorts(p.Spec.InitContainers)
	}
}

// requestLimits sets missing requests to the limits.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	fillList(r.Requests, r.Limits)
}

// fillList copies the quantities missing in a list.
func fillList(list, from corev1.ResourceList) {
	for name, q := range from {
		if _, ok := list[name]; !ok {
			list[name] = q.DeepCopy()
		}
	}
}

func hostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			fill(&containers[i].Ports[j].HostPort, containers[i].Ports[j].ContainerPort)
		}
	}
}

// hugePageLimits adds to a pod's own limits the huge pages of its containers'
// limits (KEP 2837).
func hugePageLimits(p *corev1.Pod) {
	own := p.Spec.Resources
	if len(own.Limits) == 0 && len(own.Requests) == 0 {
		return
	}
	limits := podresources.AggregateContainerLimits(p, podresources.PodResourcesOptions{})
	maps.DeleteFunc(limits, func(name corev1.ResourceName, _ quantity) bool {
		_, requested := own.Requests[name]
		return requested || !isHugePage(name)
	})
	if len(limits) == 0 {
		return
	}
	if own.Limits == nil {
		own.Limits = corev1.ResourceList{}
	}
	fillList(own.Limits, limits)
}

// podRequests adds the missing requests to a pod's own resources: the sums of its
// containers' requests, or else its own limits (KEP 2837).
func podRequests(p *corev1.Pod) {
	own := p.Spec.Resources
	if len(own.Limits) == 0 {
		return
	}
	unsupported := func(name corev1.ResourceName, _ quantity) bool {
		return !podresources.IsSupportedPodLevelResource(name)
	}
	requests := podresources.AggregateContainerRequests(p, podresources.PodResourcesOptions{})
	maps.DeleteFunc(requests, unsupported)
	maps.DeleteFunc(requests, func(name corev1.ResourceName, _ quantity) bool { return isHugePage(name) })
	limits := maps.Clone(own.Limits)
	maps.DeleteFunc(limits, unsupported)
	if len(requests)+len(limits) == 0 {
		return
	}
	if own.Requests == nil {
		own.Requests = corev1.ResourceList{}
	}
	fillList(own.Requests, requests)
	fillList(own.Requests, limits)
}

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
