package policytest

import (
	"context"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A GatorPolicy evaluates objects by the constraint of one test, as gator verify
// does. It is compiled once and safe for concurrent use.
type GatorPolicy interface {
	// Evaluate evaluates the constraint for an object as written, or for the
	// request of an AdmissionReview. It returns a failure for each violation,
	// whatever its action, or a pass, or nothing if the constraint does not
	// match. Results for objects that expansion templates create from it are
	// included. It fails if the object can't be evaluated.
	Evaluate(ctx context.Context, o *render.Object) ([]policy.Result, error)
	// Among returns the policy with an inventory: the objects of
	// data.inventory, and Namespaces. The caller must pass each object once.
	Among(inventory []*render.Object) GatorPolicy
}

// A GatorSetup holds the inputs of a test besides the objects to evaluate.
type GatorSetup struct {
	Template, Constraint *render.Object
	Expansions           []*render.Object
	Kinds                policy.Kinds // objects are used as written
}

// RuleConstraintSchema is the Rule of a *render.Error about a constraint that
// breaks its template's schema. A test with `invalid` expects it.
const RuleConstraintSchema = "constraint-schema"
