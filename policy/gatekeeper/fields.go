package gatekeeper

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/rego"
)

// fieldsOf finds the fields that each violation is about: those that its
// details name, else those that the rule's body hung on. unsure says which
// rest on what was read alone.
func (r *review) fieldsOf(c *constraint, q rego.Question, violations []violation) (fields [][]string, unsure []bool) {
	fields, unsure = make([][]string, len(violations)), make([]bool, len(violations))
	secrets := r.secrets(c)
	var values []ast.Value
	var open []int
	for i, v := range violations {
		if v.details != nil {
			fields[i] = secrets.Fields(r.subject(), rego.Hinted(rego.Plain(v.details), r.subject()))
		}
		if len(fields[i]) == 0 {
			values, open = append(values, v.value), append(open, i)
		}
	}
	if len(values) == 0 || r.engine.options.Written {
		return fields, unsure
	}
	q.Print = nil
	blamed, err := c.template.rego.query.Blame(r.ctx, q, values)
	if err != nil || len(blamed) != len(values) {
		return fields, unsure
	}
	for j, i := range open {
		fields[i], unsure[i] = r.blamed(blamed[j])
	}
	return fields, unsure
}

// blamed makes pointers of the places of an input: those that what failed
// names, else those that were read.
func (r *review) blamed(found []rego.Field) (fields []string, unsure bool) {
	roots := [][]string{{"review", "object"}}
	if r.operation == string(policy.Delete) {
		roots = append(roots, []string{"review", "oldObject"})
	}
	fields, sure := rego.Pointers(found, roots...)
	return fields, len(fields) > 0 && !sure
}
