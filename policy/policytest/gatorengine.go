package policytest

import (
	"context"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A GatorPolicy judges objects by the constraint of one test, as gator verify
// does. It is compiled once and safe for concurrent use.
type GatorPolicy interface {
	// Judge returns what the constraint says of a request: a failure for each
	// violation, whatever its action, or that there is none; nothing where it
	// does not match. The results of objects that expansion templates make of
	// the request's object are among them. The error says why nothing can be
	// told.
	Judge(ctx context.Context, req *GatorRequest) ([]policy.Result, error)
}

// A GatorSetup is what a test brings besides objects to judge.
type GatorSetup struct {
	Template, Constraint *render.Object
	Expansions           []*render.Object
	Inventory            []*render.Object // what data.inventory holds, and Namespaces; each object once
	Kinds                policy.Kinds     // objects are taken as they are written
}

// A GatorRequest is one object to judge.
type GatorRequest struct {
	*policy.Request
	// Review is the request of an AdmissionReview, as it is to be seen by
	// policies; nil where the object was given alone. Then the request has no
	// operation and no user.
	Review map[string]any
}

// RuleConstraintSchema is the Rule of a *render.Error about a constraint that
// breaks its template's schema, which is what a test with `invalid` expects.
const RuleConstraintSchema = "constraint-schema"
