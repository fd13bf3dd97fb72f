package policytest

import (
	"errors"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// mutate is the outcome of an applied mutation. The others are skip and broke.
const mutate = "mutate"

var kaptestMutations = []string{mutate, skip, broke}

// A mutationCase is one test of a MutatingAdmissionPolicy.
type mutationCase struct {
	kaptestCase
	expected resourceRef // expectObject
	keepName bool        // disableNameOverwrite: the name is compared
}

func runMutationCase(c *kaptestCase, test node) {
	m := &mutationCase{kaptestCase: *c}
	f := m.read(test, "expectObject", "disableNameOverwrite")
	m.expected, m.keepName = readRef(f["expectObject"], true), f["disableNameOverwrite"].flag()
	m.run()
	*c = m.kaptestCase
}

func (m *mutationCase) run() {
	m.expects(kaptestMutations)
	if m.Want == mutate && !m.expected.given() {
		m.refuse(m.expect.errorf("expectObject is missing: the object as it should be mutated"))
	}
	p := m.k.mutating[m.Policy]
	if p == nil {
		m.refuse(m.at.errorf("%w", missing(mutatingKind, m.Policy, m.k.mutating)))
	}
	req := m.request()
	want := m.find(m.expected, "expectObject")
	if p == nil || len(m.errs) > 0 {
		m.Reason = m.k.text(m.errs...)
		return
	}
	params := m.params(p)
	if len(m.errs) > 0 {
		m.Reason = m.k.text(m.errs...)
		return
	}
	if len(p.faults) > 0 {
		m.Got, m.Reason = broke, "does not compile: "+m.k.text(errorsOf(p.faults)...)
		m.OK = m.Got == m.Want
		return
	}
	if req.Object == nil {
		m.Got, m.Reason, m.OK = broke, "there is no object to mutate on DELETE", m.Want == broke
		return
	}
	steps, err := p.mutator.Mutate(m.k.ctx, req, params)
	if err != nil {
		m.Reason = m.k.text(err)
		return
	}
	m.evaluate(steps, tree(want), req.Admitted)
}

// evaluate compares the object after the steps. The expected one may have any
// name.
func (m *mutationCase) evaluate(steps []policy.Step, want, got map[string]any) {
	m.Got = mutate
	for _, s := range steps {
		if s.Admitted != nil {
			got = s.Admitted
		}
		m.assume(s.Result.Assumed)
		if result := s.Result; m.Got == mutate && result.Outcome != policy.Pass {
			m.Got, m.Reason = broke, result.Rule+": "+result.Message
			switch result.Outcome {
			case policy.Skip:
				m.Got, m.Reason = skip, result.Message
			case policy.Unknown: // meets no expectation, not even error
				m.Got, m.Reason = string(policy.Unknown), strings.ReplaceAll(m.Reason, "with --with", "in a file that crds names")
			}
		}
	}
	m.Vacuous = len(steps) == 0
	m.OK = m.Got == m.Want
	if !m.OK || m.Got != mutate {
		return
	}
	if err := m.compared(want, got); err != nil {
		m.OK, m.Reason = false, err.Error()
	}
}

func (m *mutationCase) compared(want, got map[string]any) error {
	want, got = tidied(want), tidied(got)
	if meta, ok := want["metadata"].(map[string]any); ok && !m.keepName {
		if is, ok := got["metadata"].(map[string]any); ok {
			meta["name"] = is["name"]
		}
	}
	if d := difference(want, got); d != "" {
		return errors.New("is mutated, but not as expectObject: " + d)
	}
	return nil
}
