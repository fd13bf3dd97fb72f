package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// needsTime is the entry of Answer.Unknown if a policy asks for the time and the
// question gives none.
const needsTime = "to know the time"

// timed lists the built-in functions that may read the time, each with a test of
// whether a call does. They get the question's time, never the clock's.
var timed = map[string]func(operands []*ast.Term) bool{
	"time.now_ns":          func([]*ast.Term) bool { return true },
	"io.jwt.decode_verify": func(operands []*ast.Term) bool { return !hasKey(operands[1], "time") },
	verifyCertificates:     func(operands []*ast.Term) bool { return !hasKey(operands[1], currentTime) },
}

const (
	verifyCertificates = "crypto.x509.parse_and_verify_certificates_with_options"
	currentTime        = "CurrentTime"
)

func hasKey(t *ast.Term, key string) bool {
	o, ok := t.Value.(ast.Object)
	return ok && o.Get(ast.StringTerm(key)) != nil
}

// byQuestion gives a function the time of the question. If that is unknown, the
// function is undefined and the need is recorded.
func byQuestion(asks func([]*ast.Term) bool, f topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(c topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if b, ok := c.Cancel.(*bound); ok && b.timeless && asks(operands) {
			b.ask(needsTime)
			return nil
		}
		return f(c, operands, iter)
	}
}

// withTime adds the question's time to the options of a function that would read the
// clock.
func withTime(f topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(c topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if o, ok := operands[1].Value.(ast.Object); ok && !hasKey(operands[1], currentTime) {
			o = o.Copy()
			o.Insert(ast.StringTerm(currentTime), c.Time)
			operands = []*ast.Term{operands[0], ast.NewTerm(o)}
		}
		return f(c, operands, iter)
	}
}
