package kyverno

import (
	"cmp"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/podsecurity"
)

// judgePodSecurity checks the object's pod by the rule's level. What the rule
// excludes, and what exceptions do, is taken out of what is at fault.
func (x *run) judgePodSecurity(exempt []podsecurity.Exclude) *verdict {
	p, name := x.program.rule.Validate.PodSecurity, x.program.rule.Name
	pod, err := x.review.pod()
	switch {
	case err != nil:
		return broken("Error while getting new resource", err)
	case pod == nil:
		return &verdict{status: StatusError, message: "Error while getting new resource: could not find correct resource type"}
	}
	standard, err := x.program.standard, x.program.noStandard
	if err != nil {
		return broken("failed to parse pod security api version", err)
	}
	level, version := p.Level, cmp.Or(p.Version, "latest")
	violations := standard.Check(pod)
	if excludes := slices.Concat(x.program.excludes, exempt); len(excludes) > 0 && len(violations) > 0 {
		left := standard.Exempt(violations, excludes, pod)
		x.review.trace.spares(violations, left)
		violations = left
	}
	x.review.trace.finds(violations)
	v := &verdict{status: StatusPass, message: podsecurity.Message(name, level, version, pod, violations)}
	if len(violations) > 0 {
		v.status, v.fields = StatusFail, podsecurity.Fields(violations)
	}
	return v
}

// pod is that of the object, read once for all rules.
func (r *review) pod() (*podsecurity.Pod, error) {
	if !r.podRead {
		r.podRead = true
		if at, ok := podPaths[r.req.Kind.Kind]; ok {
			r.podValue, r.podErr = podsecurity.Read(r.subject(), at)
		}
	}
	return r.podValue, r.podErr
}
