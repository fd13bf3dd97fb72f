package policy

import "k8s.io/apimachinery/pkg/runtime/schema"

// A Completion is a name that may be written next in an expression of a policy.
type Completion struct {
	Name  string
	Kind  NameKind
	Type  string                    // of its value, or the signatures of a function, one a line
	Doc   string                    // may be empty
	Kinds []schema.GroupVersionKind // kinds of objects that have it; nil if all that the policy names have it
}

// A NameKind says what a name in an expression stands for.
type NameKind string

// The kinds of names.
const (
	NameField    NameKind = "field"
	NameVariable NameKind = "variable"
	NameFunction NameKind = "function"
	NameMacro    NameKind = "macro"
	NameLibrary  NameKind = "library" // of functions: math in math.least
)
