package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// A bench holds the engines of a run, compiled.
type bench struct {
	chain   policy.Chain
	cluster *policy.Cluster // that the engines look at
	results []policy.Result // what did not compile
	notes   []string
	unknown []clusterKind // kinds without a schema
	implied bool          // the default pack is used, for want of policies
	said    []policy.Rule // by the engines of an earlier run, in place of a chain

	together *rego.Engine   // with --combine
	all      *rego.Combined // of it, over the objects at hand
}

// benchOptions are the settings of engines, and what changes no result.
type benchOptions struct {
	*engineSettings
	prints   *prints      // what policies print; nil where nobody reads it
	watch    *tasks.Watch // of a child; nil elsewhere
	compiled bool         // compile errors are known: types are not checked again

	coverage *policy.Coverage // of policies; nil if it is not asked for

	definitions *crd.Reviews // of all clusters; may be nil
}

// compileBench makes the engines, which are these: the one list. The policies are
// those of trusted, and so is what they read; that is in itself, or its base.
// Engines may see nothing that is not in the key of their cached results
// (resultcache.go): policies and what belongs to them (lint.IsCompiled), the cluster, Rego modules with
// their data, and the settings.
func compileBench(in, trusted *load.Input, o benchOptions) (*bench, error) {
	b := &bench{chain: policy.Chain{Watch: o.watch.Requests(), Fails: o.watch.Fails}}
	head, given, context := render.Objects(in.Head), render.Objects(trusted.Given), render.Objects(slices.Concat(in.Context, in.Anywhere))
	all := slices.Concat(head, given, context)

	defined := load.Only(all, lint.IsCompiled)
	validated := defined
	if trusted != in {
		was := load.Only(render.Objects(slices.Concat(trusted.Head, trusted.Context)), lint.IsCompiled)
		defined = change.Definitions(defined, was)
		validated = defined
		if trusted.Exempts != nil {
			validated = slices.Concat(was, defined)
		}
	}
	kinds, err := schema.New(defined, schema.Options{KubeVersion: o.KubeVersion})
	if kinds == nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	b.broken(err)
	b.chain.Kinds = kinds
	b.chain.Variables = o.Variables
	b.chain.Validators = append(b.chain.Validators, schema.NewValidator(kinds, head))

	b.unknown = unknownKinds(kinds, head)
	definitions, err := crd.New(validated, crd.Options{KubeVersion: o.KubeVersion, Reviews: o.definitions})
	if err != nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	b.chain.Validators = append(b.chain.Validators, definitions)
	cluster := policy.NewCluster(all...)
	policies := given
	if !o.NoTreePolicies {
		policies = slices.Concat(given, render.Objects(trusted.Head), render.Objects(trusted.Anywhere))
	}
	if trusted != in {
		cluster = change.Cluster(in.Side(), trusted.Side(), trusted.Exempts)
	}
	policies = distinct(load.Only(policies, lint.IsCompiled))
	b.cluster = cluster
	b.broken(lint.Check(policies, given, context, kinds))
	authorizer, err := newAuthorizer(in, o.engineSettings, cluster)
	if err != nil {
		return nil, err
	}
	options := admission.Options{
		Cluster: cluster, Kinds: kinds, Types: kinds, Cost: o.Verbose, KubeVersion: o.KubeVersion,
		Authorizer: asked(o.engineSettings, authorizer), AuthorizerAssumed: authorizer.Assumed, Coverage: o.coverage,
		AssumeBound: func(p *render.Object) bool { return slices.Contains(given, p) },
	}
	if o.compiled {
		options.Types = nil
	}
	mutating, err := admission.NewMutating(policies, options)
	b.broken(err)
	b.chain.Mutators = append(b.chain.Mutators, mutating)
	validating, err := admission.New(policies, options)
	b.broken(err)
	b.chain.Validators = append(b.chain.Validators, validating)
	b.gatekeeper(trusted, o, policies, options)
	if err := b.kyverno(trusted, o.engineSettings, policies, options); err != nil {
		return nil, err
	}
	b.rego(in, trusted, o)

	for _, name := range b.packs(o.engineSettings, policies) {
		engine, err := newPack(name, o.engineSettings, kinds, cluster)
		if err != nil {
			return nil, err
		}
		b.chain.Validators = append(b.chain.Validators, engine)
	}
	return b, nil
}

// packs are the embedded packs in use: those asked for, or the default
// where there are no other policies.
func (b *bench) packs(s *engineSettings, policies []*render.Object) []string {
	if len(s.Packs) > 0 || s.PoliciesGiven || slices.ContainsFunc(policies, lint.IsPolicy) {
		return withoutRepeats(s.Packs)
	}
	b.implied = true
	b.notes = append(b.notes, "no --policy, no --pack and no policies in the tree: the pack "+defaultPack+" warns, as preadmit's default; nothing in this repository enforces it. To deny by it, and to keep it when policies are added: --pack "+defaultPack)
	return []string{defaultPack}
}

func (b *bench) broken(err error) {
	b.results = append(b.results, policy.Errors(policy.EngineCompile, nil, err)...)
}

func (b *bench) rules() []policy.Rule {
	if b.said != nil {
		return slices.Clone(b.said)
	}
	var rules []policy.Rule
	for _, m := range b.chain.Mutators {
		rules = append(rules, m.Rules()...)
	}
	for _, v := range b.chain.Validators {
		rules = append(rules, v.Rules()...)
	}
	slices.SortStableFunc(rules, func(x, y policy.Rule) int {
		return cmp.Or(strings.Compare(x.Engine, y.Engine), strings.Compare(x.Policy, y.Policy), strings.Compare(x.Name, y.Name))
	})
	return rules
}
