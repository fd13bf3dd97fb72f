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
