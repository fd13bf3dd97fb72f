// Package conditions evaluates Kyverno's preconditions and deny conditions: any and
// all of keys, operators and values.
package conditions

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/preadmit/preadmit/render"
)

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

// Constant decides blocks that must all hold, if the answer is the same for every
// object: the deciding conditions have no variable, or two of them contradict each
// other. A nil block holds.
func Constant(blocks ...*Block) (held, decided bool) {
	var all []Condition
	decided = true
	for _, b := range blocks {
		if b == nil {
			continue
		}
		for i := range b.Groups {
			g := &b.Groups[i]
			all = append(all, g.All...)
			switch v, ok := g.constant(); {
			case ok && !v:
				return false, true
			case !ok:
				decided = false
			}
		}
	}
	if contradict(all) {
		return false, true
	}
	return true, decided
}

// constant is Constant for a group, with each condition alone.
func (g *Group) constant() (held, decided bool) {
	decided = true
	for i := range g.All {
		switch v, ok := g.All[i].constant(); {
		case ok && !v:
			return false, true
		case !ok:
			decided = false
		}
	}
	if !g.HasAny {
		return true, decided
	}
	open := false
	for i := range g.Any {
		switch v, ok := g.Any[i].constant(); {
		case ok && v:
			return true, decided
		case !ok:
			open = true
		}
	}
	return false, !open
}

// constant returns the value of a condition without variables.
func (c *Condition) constant() (held, decided bool) {
	if variable(c.Key) || variable(c.Value) {
		return false, false
	}
	held, _, err := Evaluate(&Block{Groups: []Group{{All: []Condition{*c}}}}, func(c *Condition) (any, any, error) { return c.Key, c.Value, nil })
	return held, err == nil
}

// variable reports whether a value contains a variable or a reference.
func variable(v any) bool {
	data, err := json.Marshal(v)
	return err != nil || strings.Contains(string(data), "{{") || strings.Contains(string(data), "$(")
}

// contradict reports whether two of the conditions can't both hold: they compare the
// same key with constants.
func contradict(all []Condition) bool {
	for i := range all {
		for j := range i {
			a, b := &all[i], &all[j]
			if variable(a.Value) || variable(b.Value) || !render.IsScalar(a.Value) || !render.IsScalar(b.Value) || !reflect.DeepEqual(a.Key, b.Key) || random(a.Key) {
				continue
			}
			same := reflect.DeepEqual(a.Value, b.Value)
			if same && (isEqual(a) && isNotEqual(b) || isNotEqual(a) && isEqual(b)) || !same && isEqual(a) && isEqual(b) && plain(a.Value) && plain(b.Value) {
				return true
			}
		}
	}
	return false
}

func isEqual(c *Condition) bool    { return c.Operator == "Equals" || c.Operator == "Equal" }
func isNotEqual(c *Condition) bool { return c.Operator == "NotEquals" || c.Operator == "NotEqual" }

// plain reports whether a value equals only the same text: it has no wildcard,
// quantity or duration, and no number with another spelling.
func plain(v any) bool {
	s, ok := v.(string)
	return ok && s != "" && !strings.ContainsAny(s, "*?0123456789")
}

// random reports whether a key may have another value each time.
func random(key any) bool {
	s, _ := key.(string)
	return strings.Contains(s, "random(") || strings.Contains(s, "time_now")
}
