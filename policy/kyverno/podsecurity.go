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
	at, ok := podPaths[x.review.req.Kind.Kind]
	var pod *podsecurity.Pod
	var err error
	if ok {
		pod, err = podsecurity.Read(x.review.subject(), at)
	}
	switch {
	case err != nil:
		return broken("Error while getting new resource", err)
	case pod == nil:
		return &verdict{status: StatusError, message: "Error while getting new resource: could not find correct resource type"}
	}
	level, version := p.Level, cmp.Or(p.Version, "latest")
	violations, err := podsecurity.Check(level, version, pod)
	if err != nil {
		return broken("failed to parse pod security api version", err)
	}
	if excludes := slices.Concat(x.program.excludes, exempt); len(excludes) > 0 && len(violations) > 0 {
		violations = podsecurity.Exempt(violations, excludes, level, version, pod)
	}
	v := &verdict{status: StatusPass, message: podsecurity.Message(name, level, version, pod, violations)}
	if len(violations) > 0 {
		v.status, v.fields = StatusFail, podsecurity.Fields(violations)
	}
	return v
}
