package conditions

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/preadmit/preadmit/render"
)

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
