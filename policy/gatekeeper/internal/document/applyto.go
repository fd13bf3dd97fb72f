package document

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

// ApplyTo is an entry of applyTo: kinds and operations.
type ApplyTo struct {
	Groups     []string `json:"groups,omitempty"`
	Kinds      []string `json:"kinds,omitempty"`
	Versions   []string `json:"versions,omitempty"`
	Operations []string `json:"operations,omitempty"` // of mutators
}

// HasKind reports whether the entry lists a kind.
func (a *ApplyTo) HasKind(gvk schema.GroupVersionKind) bool {
	return slices.Contains(a.Kinds, gvk.Kind) && slices.Contains(a.Groups, gvk.Group) && slices.Contains(a.Versions, gvk.Version)
}

// HasOperation reports whether the entry lists an operation. Objects from an
// expansion template have no operation, so only a mutator for all operations applies
// to them.
func (a *ApplyTo) HasOperation(op policy.Operation) bool {
	if len(a.Operations) == 0 || slices.Contains(a.Operations, "*") {
		return true
	}
	if op == "" {
		return slices.Contains(a.Operations, string(policy.Create)) && slices.Contains(a.Operations, string(policy.Update))
	}
	return slices.Contains(a.Operations, string(op))
}

// Meets reports whether both entries list a common kind and a common operation.
func (a *ApplyTo) Meets(b *ApplyTo) bool {
	both := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(s string) bool { return slices.Contains(y, s) })
	}
	return both(a.Kinds, b.Kinds) && both(a.Groups, b.Groups) && both(a.Versions, b.Versions) &&
		(a.HasOperation(policy.Create) && b.HasOperation(policy.Create) || a.HasOperation(policy.Update) && b.HasOperation(policy.Update))
}

// MaxName is the longest name of a mutator or an expansion template that Gatekeeper accepts.
const MaxName = 63
