package main

import (
	"fmt"

	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
)

// newKyvernoTest compiles a policy of a suite for Kyverno.
func newKyvernoTest(kubeVersion string) func(*render.Object, *policytest.KyvernoSetup) (policytest.KyvernoPolicy, error) {
	return func(p *render.Object, s *policytest.KyvernoSetup) (policytest.KyvernoPolicy, error) {
		switch p.GetKind() {
		case "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy":
			return newAdmissionTest(p, s, kubeVersion)
		}
		return nil, fmt.Errorf("%.63s is not evaluated yet", p.GetKind())
	}
}
