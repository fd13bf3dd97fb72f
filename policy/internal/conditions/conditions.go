// Package conditions compares as Kyverno's preconditions and deny conditions
// do: any and all of keys, operators and values.
package conditions

// A Block is preconditions, or the conditions of deny, in any of their forms:
// every group must hold. None holds always.
type Block struct{ Groups []Group }

// A Group is any and all: both must hold where both are there. The legacy list
// of conditions is All. HasAny tells an empty `any`, which never holds.
type Group struct {
	Any, All []Condition
	HasAny   bool
}

// A Condition compares. Key and Value are JSON values in which variables may
// stand.
type Condition struct {
	Pointer    string // in the policy's object, as written
	Key, Value any
	Operator   string
	Message    string
}

// A Form is how an API version writes conditions.
type Form uint8

// Legacy, of kyverno.io/v1, allows a list of conditions, and In and NotIn.
// AnyAll, of v2beta1 and newer, does not.
const (
	Legacy Form = iota
	AnyAll
)

// A Problem is what Kyverno refuses in conditions, and where in the policy.
type Problem struct{ Pointer, Message string }

// Parse reads conditions from the JSON value at a pointer of a policy. What it
// could not read is missing from the block, and named in the problems.
func Parse(block any, pointer string, form Form) (*Block, []Problem) { return &Block{}, nil }

// Evaluate says whether a block holds, asking eval for each condition's key
// and value with their variables substituted. As in Kyverno it stops at the
// first of any that holds, at the first of all that does not, and at the first
// error, which it returns as it is. decided are the conditions on which it
// hung: those that held if it holds, else those that did not.
func Evaluate(b *Block, eval func(*Condition) (key, value any, err error)) (held bool, decided []*Condition, err error) {
	return true, nil, nil
}

// Operators are the names of the operators, sorted.
func Operators() []string { return nil }

// KnownOperator says whether an operator is spelled as Kyverno wants it.
func KnownOperator(name string) bool { return false }

// Compare says whether a key and a value, after substitution, are as the
// operator wants them. An operator that is not known never holds.
func Compare(operator string, key, value any) bool { return false }
