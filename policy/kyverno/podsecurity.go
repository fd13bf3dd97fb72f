package kyverno

import (
	"cmp"
	"slices"
	"sync"

	"github.com/preadmit/preadmit/policy/internal/podsecurity"
)

// evaluatePodSecurity checks the object's pod at the rule's level, less the
// rule's exclusions. If exceptions exempt all violations, the rule is skipped.
// The verdict is cached and reused for pods that are equal in all fields that
// the checks read. A DELETE has no verdict.
func (r *run) evaluatePodSecurity(exceptions []*exemption) *verdict {
	if r.ignoresDelete() {
		return nil
	}
	pod := r.review.podKey()
	if len(exceptions) > 0 || r.review.trace != nil || pod == "" {
		return r.checkPod(exceptions)
	}
	key := podKey{pod, podsecurity.ImageKey(r.program.excludes, r.review.podImages)}
	v, known := r.program.pods.find(key)
	if !known {
		if v = *r.checkPod(nil); v.status != StatusError {
			r.program.pods.add(key, v)
		}
	}
	return &v
}

// ignoresDelete reports whether the request is a DELETE and the rule checks podSecurity,
// which Kyverno then leaves out.
func (r *run) ignoresDelete() bool {
	v := r.program.rule.Validate
	return r.review.operation == opDelete && v != nil && v.PodSecurity != nil
}

// podVerdicts caches a rule's verdicts by pod. It is safe for concurrent use.
type podVerdicts struct {
	mu    sync.RWMutex
	known map[podKey]verdict
}

// A podKey identifies what the checks read of a pod. Rules share the text of an object's pod.
type podKey struct{ pod, images string }

// mostPods is the most verdicts of a rule that are cached.
const mostPods = 1024

func (p *podVerdicts) find(key podKey) (verdict, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	v, known := p.known[key]
	return v, known
}

func (p *podVerdicts) add(key podKey, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[podKey]verdict)
	}
	if len(p.known) < mostPods {
		v.fields = slices.Clip(v.fields)
		p.known[key] = v
	}
}

// podKey returns the cache key of the object's pod. Pods that differ only in
// images and in fields that no check reads have equal keys. It is "" if there
// is no pod, or if the pod is large.
func (r *review) podKey() string {
	if !r.podKeyed {
		r.podKeyed = true
		if at, ok := podPaths[r.req.Kind.Kind]; ok {
			r.podKeyValue, r.podImages = podsecurity.Key(r.subject(), at), podsecurity.Images(r.subject(), at)
		}
	}
	return r.podKeyValue
}

// checkPod evaluates podSecurity for a pod without a cached verdict.
func (r *run) checkPod(exceptions []*exemption) *verdict {
	p, name := r.program.rule.Validate.PodSecurity, r.program.rule.Name
	pod, err := r.review.pod()
	switch {
	case err != nil:
		return broken("Error while getting new resource", err)
	case pod == nil:
		return &verdict{status: StatusError, message: "Error while getting new resource: could not find correct resource type"}
	}
	standard, err := r.program.standard, r.program.noStandard
	if err != nil {
		return broken("failed to parse pod security api version", err)
	}
	found := standard.Check(pod)
	without := func(violations []podsecurity.Violation, excludes []podsecurity.Exclude) []podsecurity.Violation {
		if len(violations) == 0 || len(excludes) == 0 {
			return violations
		}
		return standard.Exempt(violations, excludes, pod)
	}
	refused := without(found, r.program.excludes)
	left := refused
	for _, e := range exceptions {
		left = without(left, excludesOf(e.PodSecurity))
	}
	r.review.trace.excluded(found, left)
	r.review.trace.violations(left)
	if len(refused) > 0 && len(left) == 0 {
		return skippedBy(exceptions)
	}
	level, version := p.Level, cmp.Or(p.Version, "latest")
	v := &verdict{status: StatusPass, message: podsecurity.Message(name, level, version, pod, left)}
	if len(left) > 0 {
		v.status, v.fields = StatusFail, podsecurity.Fields(left)
	}
	return v
}

// pod returns the object's pod, which is decoded once for all rules.
func (r *review) pod() (*podsecurity.Pod, error) {
	if !r.podRead {
		r.podRead = true
		if at, ok := podPaths[r.req.Kind.Kind]; ok {
			r.podValue, r.podErr = podsecurity.Read(r.subject(), at)
		}
	}
	return r.podValue, r.podErr
}
