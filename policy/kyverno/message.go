package kyverno

import (
	"fmt"
	"strings"

	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
)

// message returns the rule's message with its variables substituted.
func (r *run) message(t *template, s *scope) (any, error) {
	if r.secret() && !t.static {
		open := false
		f := &filling{scope: s, seen: func(v *variable, source string) { open = open || r.mayQuote(source) }}
		v, err := t.root.fill(f)
		if open {
			return hidden, nil
		}
		return v, err
	}
	asked := r.review.questions // a message that needs something unknown does not make the rule undecided
	v, err := t.fill(s)
	r.review.questions = asked
	if err == nil && !t.static && r.secret() { // the message itself looked up a Secret
		return r.message(t, s)
	}
	return v, err
}

const noText = "the produced message didn't resolve to a string, check your policy definition."

// denyMessage joins the rule's message and the messages of the conditions that
// held.
func (r *run) denyMessage(b *block, decided []*conditions.Condition, s *scope) string {
	own, more := r.program.rule.Validate.Message, ""
	if b != nil {
		more = b.messages(decided, nil)
	}
	t := r.program.message
	switch {
	case own == "" && more == "":
		return fmt.Sprintf("validation error: rule %s failed", r.program.rule.Name)
	case own == "":
		t = newTemplate(more)
	case more != "":
		t = newTemplate(own + "; " + more)
	}
	v, err := r.message(t, s)
	switch {
	case err != nil && more == "" && !r.review.engine.options.CLI: // Kyverno denies without a message
		return fmt.Sprintf("validation error: rule %s failed", r.program.rule.Name)
	case err != nil:
		return more
	}
	if text, ok := v.(string); ok {
		return text
	}
	return noText
}

// patternMessage returns the message of a pattern that does not match at path.
// Without a path, the pattern could not be evaluated because of err.
func (r *run) patternMessage(s *scope, path, err string) string {
	name := r.program.rule.Name
	end := "rule " + name + " failed at path " + path
	if path == "" {
		end = "rule " + name + " execution error: " + err
	}
	if r.program.rule.Validate.Message == "" {
		return "validation error: " + end
	}
	v, broken := r.message(r.program.message, s)
	if broken != nil {
		return "validation error: variables substitution error in rule " + name + " execution error: " + err
	}
	text, ok := v.(string)
	if !ok {
		text = noText
	}
	return "validation error: " + sentence(text) + " " + end
}

func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// anyMessage returns the message of an anyPattern when none of its patterns
// matches. Like Kyverno it does not substitute variables.
func (r *run) anyMessage(failed []string) string {
	all := strings.Join(failed, " ")
	if r.program.rule.Validate.Message == "" {
		return "validation error: " + all
	}
	return "validation error: " + sentence(r.program.rule.Validate.Message) + " " + all
}
