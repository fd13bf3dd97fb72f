package conditions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// A Form is how an API version writes conditions.
type Form uint8

// Legacy, of kyverno.io/v1, allows a list of conditions, and In and NotIn.
// AnyAll, of v2beta1 and newer, does not.
const (
	Legacy Form = iota
	AnyAll
)

// A Problem is Kyverno's error about conditions, with its place in the policy.
type Problem struct{ Pointer, Message string }

// Parse reads conditions from the JSON value at a pointer of a policy. It leaves out
// conditions that it can't read, and returns a problem for each.
//
// Numbers get Kyverno's types: as a key or value a number is a float64, inside lists
// and maps a whole number is an int64.
func Parse(block any, pointer string, form Form) (*Block, []Problem) {
	p := parser{form: form}
	b := &Block{}
	switch v := block.(type) {
	case nil:
	case map[string]any:
		b.Groups = append(b.Groups, p.group(v, pointer))
	case []any:
		b.Groups = p.list(v, pointer)
	default:
		p.add(pointer, "conditions are any and all of them, not %s", render.TypeName(v))
	}
	b.Unknown = p.ignored
	return b, p.problems
}

type parser struct {
	form              Form
	problems, ignored []Problem
}

func (p *parser) add(pointer, format string, args ...any) {
	p.problems = append(p.problems, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// ignore adds a problem that Kyverno ignores.
func (p *parser) ignore(pointer, format string, args ...any) {
	p.ignored = append(p.ignored, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// list reads a list of conditions.
func (p *parser) list(v []any, pointer string) []Group {
	if p.form == AnyAll {
		p.add(pointer, "conditions must be under any or all in this API version")
		return nil
	}
	return []Group{{All: p.conditions(v, pointer)}}
}

func (p *parser) group(m map[string]any, pointer string) Group {
	var g Group
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := pointer + render.Pointer(key)
		if key != "any" && key != "all" {
			p.ignore(at, "unknown field %q: conditions have any and all", key)
			continue
		}
		if m[key] == nil {
			continue
		}
		list, ok := m[key].([]any)
		if !ok {
			p.add(at, "a list of conditions expected, not %s", render.TypeName(m[key]))
			continue
		}
		if key == "any" {
			g.Any, g.HasAny = p.conditions(list, at), true
		} else {
			g.All = p.conditions(list, at)
		}
	}
	return g
}

func (p *parser) conditions(list []any, pointer string) []Condition {
	var found []Condition
	for i, e := range list {
		at := pointer + "/" + strconv.Itoa(i)
		m, ok := e.(map[string]any)
		if !ok {
			p.add(at, "a condition expected, not %s", render.TypeName(e))
			continue
		}
		if m["any"] != nil || m["all"] != nil {
			p.add(at, "a list contains conditions, not any and all of them")
			continue
		}
		if c, ok := p.condition(m, at); ok {
			found = append(found, c)
		}
	}
	return found
}

func (p *parser) condition(m map[string]any, pointer string) (Condition, bool) {
	before := len(p.problems)
	c := Condition{Pointer: pointer, Key: literal(m["key"]), Value: literal(m["value"])}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch at := pointer + render.Pointer(key); key {
		case "key", "value":
		case "operator":
			c.Operator = p.operator(m[key], at)
		case "message":
			c.Message, _ = m[key].(string)
			if _, ok := m[key].(string); !ok && m[key] != nil {
				p.add(at, "a message is a string, not %s", render.TypeName(m[key]))
			}
		default:
			p.ignore(at, "unknown field %q: a condition has key, operator, value and message", key)
		}
	}
	if _, ok := m["key"]; !ok {
		p.add(pointer, "the condition has no key")
	}
	if _, ok := m["operator"]; !ok {
		p.add(pointer, "the condition has no operator")
	}
	p.operation(&c)
	return c, len(p.problems) == before
}

func (p *parser) operator(v any, pointer string) string {
	name, ok := v.(string)
	switch {
	case !ok:
		p.add(pointer, "an operator is a string, not %s", render.TypeName(v))
	case !KnownOperator(name):
		p.add(pointer, "unknown operator %.64q", name)
	case p.form == AnyAll && (name == "In" || name == "NotIn"):
		p.add(pointer, "operator %s is not of this API version: Any%s and All%s are", name, name, name)
	default:
		return name
	}
	return ""
}

// operation checks that a value compared with request.operation is an
// operation, as Kyverno does.
func (p *parser) operation(c *Condition) {
	key, _ := c.Key.(string)
	if strings.ReplaceAll(key, " ", "") != "{{request.operation}}" {
		return
	}
	at := c.Pointer + "/value"
	switch v := c.Value.(type) {
	case string:
		p.operationName(v, at)
	case []any:
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				s = fmt.Sprint(e)
			}
			p.operationName(s, at+"/"+strconv.Itoa(i))
		}
	default:
		p.add(at, "request.operation is compared with a string or a list, not %s", render.TypeName(v))
	}
}

func (p *parser) operationName(name, pointer string) {
	switch name {
	case "CREATE", "UPDATE", "DELETE", "CONNECT":
		return
	}
	if !strings.HasPrefix(name, "{{") || !strings.HasSuffix(name, "}}") {
		p.add(pointer, "no operation is called %.64q: there are CREATE, UPDATE, DELETE and CONNECT", name)
	}
}

// literal converts numbers to the types that Kyverno's decoder gives them.
func literal(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case map[string]any, []any:
		return render.Replace(v, func(v any) any {
			switch v := v.(type) {
			case float64:
				if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
					return int64(v)
				}
			case int:
				return int64(v)
			}
			return v
		})
	}
	return v
}
