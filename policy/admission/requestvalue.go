package admission

import (
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// requestValue is the `request` variable for one matched version.
type requestValue struct {
	as    policy.Version
	value ref.Val
	sizes cel.Sizes
}

// request returns the `request` variable for a policy that sees the request as
// one of a version, and its sizes
// (k8s.io/apiserver/pkg/admission/plugin/cel.CreateAdmissionRequest).
func (r *review) request(as policy.Version) (ref.Val, cel.Sizes) {
	for i := range r.requests {
		if v := &r.requests[i]; v.as == as {
			return v.value, v.sizes
		}
	}
	value, sizes := cel.Freeze(r.requestFields(as))
	r.requests = append(r.requests, requestValue{as, value, sizes})
	return value, sizes
}

func (r *review) requestFields(as policy.Version) map[string]any {
	fields := r.req.Fields(as)
	fields["object"], fields["oldObject"] = nil, nil
	if r.namespace != "" {
		fields["namespace"] = r.namespace
	}
	if !r.whole && !r.req.UserInfo.Known() {
		fields["userInfo"] = &cel.Partial{Ask: func() ref.Val {
			return r.questions.Ask("needs to know who makes the request: give the user with --as")
		}}
	}
	return fields
}
