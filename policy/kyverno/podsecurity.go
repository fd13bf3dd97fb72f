package kyverno

import (
	"cmp"

	"github.com/preadmit/preadmit/policy/internal/podsecurity"
)

// evaluatePodSecurity checks the object's pod at the rule's level, less the
// rule's exclusions. If exceptions exempt all violations, the rule is skipped.
func (r *run) evaluatePodSecurity(exceptions []*exemption) *verdict {
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
	r.review.trace.spares(found, left)
	r.review.trace.finds(left)
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
