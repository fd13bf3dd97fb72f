// Package conditions evaluates Kyverno's preconditions and deny conditions: any and
// all of keys, operators and values.
package conditions

// A Block holds preconditions or the conditions of deny, in any of their forms: every
// group must hold. An empty block holds.
type Block struct {
	Groups  []Group
	Unknown []Problem // fields that Kyverno ignores
}

// A Group has conditions under any and all; if both are given, both must hold. The
// legacy list of conditions is All. HasAny marks an empty `any`, which never holds.
type Group struct {
	Any, All []Condition
	HasAny   bool
}

// A Condition is one comparison. Key and Value are JSON values that may contain
// variables.
type Condition struct {
	Pointer    string // in the policy's object, as written
	Key, Value any
	Operator   string
	Message    string
}

// An Eval gives a condition's key and value with their variables substituted.
type Eval func(*Condition) (key, value any, err error)

// Evaluate reports whether a block holds, calling eval for the conditions that it
// needs. As in Kyverno it stops at the first of any that holds, at the first of all
// that does not, and at the first error, which it returns. decided are the deciding
// conditions: those that held if the block holds, else those of the failing group
// that did not.
func Evaluate(b *Block, eval Eval) (held bool, decided []*Condition, err error) {
	if b == nil {
		return true, nil, nil
	}
	for i := range b.Groups {
		held, of, err := b.Groups[i].evaluate(eval)
		if err != nil {
			return false, nil, err
		}
		if !held {
			return false, of, nil
		}
		decided = append(decided, of...)
	}
	return true, decided, nil
}

// evaluate evaluates all even if any has already failed, as Kyverno does: an error in
// it counts.
func (g *Group) evaluate(eval Eval) (held bool, decided []*Condition, err error) {
	var by [2][]*Condition // by outcome: false, true
	one := func(c *Condition) (bool, error) {
		key, value, err := eval(c)
		if err != nil {
			return false, err
		}
		holds := Compare(c.Operator, key, value)
		by[index(holds)] = append(by[index(holds)], c)
		return holds, nil
	}
	anyHolds := !g.HasAny
	for i := 0; i < len(g.Any) && !anyHolds; i++ {
		if anyHolds, err = one(&g.Any[i]); err != nil {
			return false, nil, err
		}
	}
	allHold := true
	for i := 0; i < len(g.All) && allHold; i++ {
		if allHold, err = one(&g.All[i]); err != nil {
			return false, nil, err
		}
	}
	held = anyHolds && allHold
	return held, by[index(held)], nil
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
