package kyverno

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
)

// A block is the preconditions of a rule, or the conditions of deny, with their
// templates parsed.
type block struct {
	block *conditions.Block
	terms map[*conditions.Condition]*term
}

// A term holds the templates of a condition's key, value and message.
type term struct{ key, value, message *template }

// newBlock parses the templates of conditions. It returns nil for conditions
// that always hold.
func newBlock(b *conditions.Block) *block {
	if b == nil {
		return nil
	}
	n := &block{block: b, terms: map[*conditions.Condition]*term{}}
	for i := range b.Groups {
		g := &b.Groups[i]
		for _, list := range [][]conditions.Condition{g.Any, g.All} {
			for j := range list {
				c := &list[j]
				n.terms[c] = &term{key: newTemplate(c.Key), value: newTemplate(c.Value)}
				if c.Message != "" {
					n.terms[c].message = newTemplate(c.Message)
				}
			}
		}
	}
	return n
}

// holds reports whether the conditions hold, and returns the conditions that
// decided it.
func (b *block) holds(s *scope) (bool, []*conditions.Condition, error) {
	if b == nil {
		return true, nil, nil
	}
	s.review.search.Decides = !s.review.engine.options.CLI
	defer func() { s.review.search.Decides = false }()
	traced := s.review.trace.block(b, s)
	held, decided, err := conditions.Evaluate(b.block, func(c *conditions.Condition) (any, any, error) {
		key, value, err := b.compared(c, s)
		traced.compared(c, key, value, err)
		s.review.engine.covered.condition(c, key, value, err)
		return key, value, err
	})
	traced.result(held, err)
	return held, decided, err
}

// compared returns a condition's key and value with their variables
// substituted.
func (b *block) compared(c *conditions.Condition, s *scope) (key, value any, err error) {
	t := b.terms[c]
	if key, err = t.key.fill(s); err != nil {
		return nil, nil, fmt.Errorf("failed to substitute variables in condition key: %w", err)
	}
	if value, err = t.value.fill(s); err != nil {
		return nil, nil, fmt.Errorf("failed to substitute variables in condition value: %w", err)
	}
	return key, value, s.review.spend(size(key) * size(value))
}

// size estimates the cost of comparing a key or value.
func size(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/bytesPerStep
	case []any:
		return 1 + len(v)
	}
	return 1
}

// messages joins the messages of conditions. With a fill, variables are
// substituted as far as their values are available.
func (b *block) messages(decided []*conditions.Condition, fill func(*template) (any, error)) string {
	var all []string
	for _, c := range decided {
		text := c.Message
		if t := b.terms[c]; t != nil && t.message != nil && fill != nil {
			if v, err := fill(t.message); err == nil {
				text, _ = textOf(v)
			}
		}
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// fields returns the pointers of the fields that conditions compared, the fields
// of keys first.
func (b *block) fields(decided []*conditions.Condition, s *scope) []string {
	if b == nil {
		return nil
	}
	asked := s.review.questions // evaluating again here must not make the result undecided
	defer func() { s.review.questions = asked }()
	p := &places{scope: s}
	for _, c := range decided {
		if t := b.terms[c]; t != nil {
			p.template(t.key)
		}
	}
	for _, c := range decided {
		if t := b.terms[c]; t != nil {
			p.template(t.value)
		}
	}
	return p.pointers
}

// literals returns the texts of conditions' values that a compared text must not have.
func (b *block) literals(decided []*conditions.Condition) (found []string) {
	for _, c := range decided {
		if !slices.Contains(equalities, c.Operator) {
			continue
		}
		values, ok := c.Value.([]any)
		if !ok {
			values = []any{c.Value}
		}
		for _, v := range values {
			if text, ok := v.(string); ok && !strings.Contains(text, "{{") {
				found = append(found, pattern.Texts(text)...)
			}
		}
	}
	return found
}

// equalities are the operators that hold for texts that match a value.
var equalities = []string{"Equal", "Equals", "In", "AnyIn", "AllIn"}
