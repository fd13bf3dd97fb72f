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

// hide takes out of responses what quotes the values of a Secret: the object
// itself, or one of data.inventory.
func (r *review) hide(c *constraint, all []Response) []Response {
	if r.engine.options.Written {
		return all
	}
	var secrets []map[string]any
	if r.secret() {
		secrets = append(secrets, r.object, r.old)
	}
	if code := c.template.rego; code != nil && code.inventory != nil && (code.inventory.all || code.inventory.kinds["Secret"]) {
		secrets = append(secrets, r.engine.inventory.secrets()...)
	}
	if len(secrets) == 0 {
		return all
	}
	for i := range all {
		x := &all[i]
		x.Details = nil
		if x.Message != "" && cel.Reveals(x.Message, secrets...) {
			x.Message = hidden
		}
	}
	return all
}
