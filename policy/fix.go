package policy

import "github.com/preadmit/preadmit/render"

// A Fix is a change of one field of an object that makes a rule pass. It is plain data: it names the
// field, never a file or a line.
type Fix struct {
	render.Edit
	// Unsafe fixes may change what runs: a container may be refused, or miss a permission that it
	// uses. The others leave running programs as they are.
	Unsafe bool
	Source FixSource
}

// A FixSource says what determines the value of a Fix.
type FixSource string

// The sources.
const (
	FixStandard FixSource = "Pod Security Standards" // the only value, or the default, that the standards allow
	FixPattern  FixSource = "policy"                 // the value that the policy itself asks for
	FixMutation FixSource = "mutation"               // the value that a mutating policy would set
	FixSchema   FixSource = "schema"                 // the name or version that the schema has instead
	FixType     FixSource = "type"                   // the written value in the type of the field, without loss
)
