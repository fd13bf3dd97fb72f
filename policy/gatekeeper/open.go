package gatekeeper

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/rego"
)

// Values that are unknown offline. A verdict is undecided only if its policy
// reads one.

// Fields of input.review whose values are unknown.
const (
	userField      = "userInfo"
	optionsField   = "options"
	namespaceField = "namespaceObject"
)

var needsUser, needsOptions = strings.TrimPrefix(policy.NeedsUser, "needs "), strings.TrimPrefix(policy.NeedsOptions, "needs ")

// userOpen reports whether the user of the request is unknown.
func (r *review) userOpen() bool { return !r.userKnown && !r.engine.options.Written }

// optionsOpen reports whether the options of the request are unknown: those of any that an API
// server gets.
func (r *review) optionsOpen() bool {
	return r.fields[optionsField] != nil && !r.engine.options.Written
}

// namespaceOpen reports whether the object's namespace is unknown.
func (r *review) namespaceOpen() bool {
	return r.namespace != nil && !r.namespace.Known && !r.engine.options.Written
}

func (r *review) needsNamespace() string {
	return fmt.Sprintf("to know namespace %s: give the Namespace with --with", r.namespace.Name)
}

// openPlaces returns the unknown fields of the input that Rego code may read.
func (r *review) openPlaces(code *regoCode) []rego.Open {
	var places []rego.Open
	if !code.opens {
		return nil
	}
	if r.optionsOpen() {
		places = append(places, rego.Open{Path: []string{"review", optionsField}, Needs: needsOptions})
	}
	if r.userOpen() {
		places = append(places, rego.Open{Path: []string{"review", userField}, Needs: needsUser})
	}
	if r.namespaceOpen() {
		places = append(places, rego.Open{Path: []string{"review", namespaceField}, Needs: r.needsNamespace()})
	}
	return places
}

// open returns a CEL value that is unknown. Reading any part of it records
// needs as a question and fails.
func (r *review) open(needs string) *cel.Partial {
	return &cel.Partial{Ask: func() ref.Val {
		r.questions.Add(needs)
		return types.NewErr("needs %s", needs)
	}}
}
