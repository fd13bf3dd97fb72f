package gatekeeper

import (
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// hidden stands for what quotes a Secret's values.
const hidden = "not shown, since it may quote a Secret"

// secret says whether policies see a Secret.
func (r *review) secret() bool {
	return !r.engine.options.Written && r.kind.Kind == "Secret" && r.kind.Group == ""
}

// hide takes out of responses what quotes the values of a Secret.
func (r *review) hide(all []Response) []Response {
	if !r.secret() {
		return all
	}
	for i := range all {
		x := &all[i]
		x.Details = nil
		if x.Message != "" && cel.Reveals(x.Message, r.object, r.old) {
			x.Message = hidden
		}
	}
	return all
}
