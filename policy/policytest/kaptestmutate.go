package policytest

import (
	"errors"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// mutate is the outcome of a mutation; skip and broke are the others.
const mutate = "mutate"

var kaptestMutations = []string{mutate, skip, broke}

// A mutationCase is one test of a MutatingAdmissionPolicy.
type mutationCase struct {
	kaptestCase
	expected resourceRef // expectObject
	keepName bool        // disableNameOverwrite: its name counts
}

func runMutationCase(c *kaptestCase, test node) {
	m := &mutationCase{kaptestCase: *c}
	m.read(test)
	m.run()
	*c = m.kaptestCase
}

func (c *mutationCase) read(t node) {
	f := t.fields("object", "oldObject", "param", "userInfo", "expect", "expectObject", "disableNameOverwrite")
	c.object, c.old, c.param = readRef(f["object"], true), readRef(f["oldObject"], true), readRef(f["param"], false)
	c.expect, c.expected, c.keepName = f["expect"], readRef(f["expectObject"], true), f["disableNameOverwrite"].flag()
	c.Want = c.expect.text()
	u := f["userInfo"].fields("name", "groups", "extra")
	c.user = policy.UserInfo{Username: u["name"].text(), Groups: u["groups"].texts(), Extra: u["extra"].extra()}
	c.about()
}

func (c *mutationCase) run() {
	if !slices.Contains(kaptestMutations, c.Want) {
		err := c.expect.errorf("expect %q is none of %s", c.Want, strings.Join(kaptestMutations, ", "))
		c.k.fail(err)
		c.refuse(err)
	}
	if c.Want == mutate && !c.expected.given() {
		c.refuse(c.expect.errorf("expectObject is missing: the object as it should be mutated"))
	}
	p := c.k.mutating[c.Policy]
	if p == nil {
		c.refuse(c.at.errorf("%w", missing(mutatingKind, c.Policy, c.k.mutating)))
	}
	req := c.request()
	want := c.find(c.expected, "expectObject")
	if p == nil || len(c.errs) > 0 {
		c.Reason = c.k.text(c.errs...)
		return
	}
	params := c.params(p)
	if len(c.errs) > 0 {
		c.Reason = c.k.text(c.errs...)
		return
	}
	if len(p.faults) > 0 {
		c.Got, c.Reason = broke, "does not compile: "+c.k.text(p.broken()...)
		c.OK = c.Got == c.Want
		return
	}
	if req.Object == nil {
		c.Got, c.Reason, c.OK = broke, "there is no object to mutate on DELETE", c.Want == broke
		return
	}
	steps, err := p.mutator.Mutate(c.k.ctx, req, params)
	if err != nil {
		c.Reason = c.k.text(err)
		return
	}
	c.evaluate(steps, tree(want), req.Admitted)
}

// broken is why a policy can't be run.
func (p *kaptestPolicy) broken() []error {
	var errs []error
	for _, e := range p.faults {
		errs = append(errs, e)
	}
	return errs
}

// evaluate compares the object after the steps. The expected one may have any
// name.
func (c *mutationCase) evaluate(steps []policy.Step, want, got map[string]any) {
	c.Got = mutate
	for _, s := range steps {
		if s.Admitted != nil {
			got = s.Admitted
		}
		for _, a := range s.Result.Assumed {
			if !slices.Contains(c.Notes, a) {
				c.Notes = append(c.Notes, a)
			}
		}
		if said := s.Result; c.Got == mutate && said.Outcome != policy.Pass {
			c.Got, c.Reason = broke, said.Rule+": "+said.Message
			switch said.Outcome {
			case policy.Skip:
				c.Got, c.Reason = skip, said.Message
			case policy.Unknown: // meets no expectation, not even error
				c.Got, c.Reason = string(policy.Unknown), strings.ReplaceAll(c.Reason, "with --with", "in a file that crds names")
			}
		}
	}
	c.Vacuous = len(steps) == 0
	c.OK = c.Got == c.Want
	if !c.OK || c.Got != mutate {
		return
	}
	if err := c.compared(want, got); err != nil {
		c.OK, c.Reason = false, err.Error()
	}
}

func (c *mutationCase) compared(want, got map[string]any) error {
	want, got = tidied(want), tidied(got)
	if meta, ok := want["metadata"].(map[string]any); ok && !c.keepName {
		if is, ok := got["metadata"].(map[string]any); ok {
			meta["name"] = is["name"]
		}
	}
	if d := difference(want, got); d != "" {
		return errors.New("is mutated, but not as expectObject: " + d)
	}
	return nil
}
