package policytest

import (
	"context"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A GatorPolicy evaluates objects by the constraint of one test, as gator verify
// does. It is compiled once and safe for concurrent use.
type GatorPolicy interface {
	// Evaluate returns what the constraint says about an object as it is written, or
	// of the request of an AdmissionReview: a failure for each violation,
	// whatever its action, or a pass; nothing where it does not match. The
	// results of objects that expansion templates make of it are among them. The
	// error says why nothing can be told.
	Evaluate(ctx context.Context, o *render.Object) ([]policy.Result, error)
	// Among is the policy beside other objects: what data.inventory holds, and
	// Namespaces. Each object is given once.
	Among(inventory []*render.Object) GatorPolicy
}

// A GatorSetup holds the inputs of a test besides the objects to evaluate.
type GatorSetup struct {
	Template, Constraint *render.Object
	Expansions           []*render.Object
	Kinds                policy.Kinds // objects are taken as they are written
}

// RuleConstraintSchema is the Rule of a *render.Error about a constraint that
// breaks its template's schema, which is what a test with `invalid` expects.
const RuleConstraintSchema = "constraint-schema"
