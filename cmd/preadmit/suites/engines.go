// Package suites connects the engines to test suites: package policytest reads the suites of
// Kyverno, gator and kaptest and compares the results.
//
// [Engines] returns an adapter for each kind of suite, in a file of its name. An adapter sets up an
// engine as the suite's own tool does: without a cluster, with the values and mocks of the test,
// and with every authorizer check allowed.
package suites

import (
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// Options configure how policies of suites are evaluated.
type Options struct {
	KubeVersion string           // "" is the newest
	Coverage    *policy.Coverage // counts the branches taken; nil counts nothing

	// Templates keeps compiled templates of Gatekeeper for further engines that
	// count nothing; nil keeps none.
	Templates *gatekeeper.Compiled
}

// Engines returns the engines that evaluate the policies of suites.
func Engines(o Options) policytest.Engines {
	return policytest.Engines{
		Kinds: func(crds []*render.Object) (policy.Kinds, error) {
			return schema.New(crds, schema.Options{KubeVersion: o.KubeVersion})
		},
		Admission: func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (policytest.Evaluator, error) {
			allow, err := authz.New("allow", authz.Options{})
			if err != nil {
				return nil, err
			}
			return admission.New([]*render.Object{p}, admission.Options{
				Cluster: cluster, Kinds: kinds, KubeVersion: o.KubeVersion, Coverage: o.Coverage,
				Authorizer: allow, AuthorizerAssumed: allow.Assumed,
			})
		},
		Mutation: newMutationTest(o),
		Kyverno:  newKyvernoTest(o),
		Gator:    newGatorTest(o),
	}
}
