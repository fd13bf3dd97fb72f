package gatekeeper

import (
	"github.com/preadmit/preadmit/policy/internal/rego"
)

// secret reports whether policies see a Secret.
func (r *review) secret() bool {
	return !r.engine.options.Written && r.kind.Kind == "Secret" && r.kind.Group == ""
}

// secrets returns the Secrets that a constraint can read: the object itself and
// those in data.inventory. For gator's tests it returns none.
func (r *review) secrets(c *constraint) rego.Secrets {
	if r.engine.options.Written {
		return nil
	}
	var secrets rego.Secrets
	if r.secret() {
		secrets = append(secrets, r.object, r.old)
	}
	if use := c.inventory(); use != nil && (use.all || use.kinds["Secret"]) {
		secrets = append(secrets, r.engine.inventory.secrets()...)
	}
	return secrets
}

// hide removes text from responses that quotes the values of a Secret.
func (r *review) hide(c *constraint, all []Response) []Response {
	secrets := r.secrets(c)
	if len(secrets) == 0 {
		return all
	}
	for i := range all {
		x := &all[i]
		x.Details, x.Message = nil, secrets.Hide(x.Message)
		x.Fields, x.literals = secrets.Fields(r.subject(), x.Fields), nil
	}
	return all
}
