package gatekeeper

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/rego"
)

// A blame holds the fields that a violation is about. It is unsure if the
// fields were only read. literals are the values that its rule compares them
// with.
type blame struct {
	fields, literals []string
	unsure           bool
}

// blames returns the fields for each violation: those that its details name,
// else those that the rule's body depended on.
func (r *review) blames(c *constraint, q rego.Question, violations []violation) []blame {
	all := make([]blame, len(violations))
	secrets := r.secrets(c)
	values := make([]ast.Value, len(violations))
	hinted := true
	for i, v := range violations {
		values[i] = v.value
		if v.details != nil {
			all[i].fields = secrets.Fields(r.subject(), rego.Hinted(rego.Plain(v.details), r.subject()))
		}
		hinted = hinted && len(all[i].fields) > 0
	}
	if hinted || r.engine.options.Written {
		return all
	}
	causes, err := c.template.rego.query.Causes(r.ctx, q, values)
	if err != nil {
		return all // the violation is reported without fields
	}
	for i, cause := range causes {
		if len(all[i].fields) == 0 {
			all[i] = r.blamed(cause)
		}
	}
	return all
}

// insideReview returns the cache of field searches, which all constraints of
// the review share.
func (r *review) insideReview() *rego.Inside {
	r.inside.Field = "review"
	return &r.inside
}

// blamed returns the fields at fault by the fields that the evaluation read:
// those of failed expressions, else all.
func (r *review) blamed(cause rego.Cause) (b blame) {
	roots := [][]string{{"review", "object"}}
	if r.operation == string(policy.Delete) {
		roots = append(roots, []string{"review", "oldObject"})
	}
	fields, sure := rego.Pointers(cause.Fields, roots...)
	b = blame{fields: fields, unsure: len(fields) > 0 && !sure}
	if cause.Rule != nil {
		b.literals = rego.Literals(cause.Rule.Body)
	}
	return b
}
