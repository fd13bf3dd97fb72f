// Package engines lists the engines of a run, and compiles the policies for them.
//
// New takes two inputs, the objects to evaluate and the trusted policies, and Options. It returns
// a Set, whose Chain reviews requests. It leaves out policies that ended an earlier child.
//
//   - engines.go: the list; rego.go, packs.go: its longer entries
//   - settings.go: the options that engines get, which are part of the key of cached results, and
//     the options for one of several clusters
//
// The key contains Settings and no other options, so an engine must get options only through them.
package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/podsecurity"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// A Set holds the engines of a run, compiled.
type Set struct {
	Chain   policy.Chain
	Cluster *policy.Cluster // the cluster that the engines see
	Results []policy.Result // compile errors
	Notes   []string
	Unknown []ClusterKind     // kinds without a schema
	Implied bool              // the default pack is used because there are no policies
	Said    []policy.Rule     // rules cached from an earlier run; the Set then has no chain
	Shown   []policy.Identity // objects that nothing deploys and that policies looked up in earlier runs, whose results are cached

	all *rego.Combined // with --combine, the validator for all objects of this run
}

// Options are the settings of engines, and options that change no result.
type Options struct {
	*Settings
	Prints   *Prints      // output of print in policies; nil discards it
	Watch    *tasks.Watch // of a child process; nil elsewhere
	Compiled bool         // compile errors are known, so types are not checked again

	Coverage *policy.Coverage // of policies; nil counts nothing

	Definitions *crd.Reviews // of all clusters; may be nil
	Served      *Served      // by all clusters; may be nil
}

// Served remembers the kinds that clusters serve, so that policies are type-checked once for all
// clusters with the same definitions.
type Served struct{ known []served }

type served struct {
	version     string
	definitions []*render.Object
	kinds       *schema.Kinds
	types       *admission.CheckedTypes
	err         error
}

// maxServed limits how many sets of kinds are remembered. They are large.
const maxServed = 8

// kinds returns the kinds that a version of the API server serves with definitions.
func (s *Served) kinds(defined []*render.Object, version string) (*schema.Kinds, admission.Types, error) {
	definitions := load.Only(defined, schema.IsDefinition)
	if s != nil {
		for _, k := range s.known {
			if k.version == version && slices.Equal(k.definitions, definitions) {
				return k.kinds, k.types, k.err
			}
		}
	}
	kinds, err := schema.New(definitions, schema.Options{KubeVersion: version})
	if s == nil || kinds == nil {
		return kinds, kinds, err
	}
	types := &admission.CheckedTypes{Types: kinds}
	if len(s.known) < maxServed {
		s.known = append(s.known, served{version, definitions, kinds, types, err})
	}
	return kinds, types, err
}

// compile returns all engines of a run; this is the only list of them. trusted provides the
// policies and the objects that policies read. It is in itself or, with --base, the base.
// Everything that an engine uses must be part of the key of its cached results (package evaluate):
// policies and objects that belong to them (lint.IsCompiled), the cluster, Rego modules with their
// data, and the settings.
func compile(in, trusted *load.Input, o Options) (*Set, error) {
	b := &Set{Chain: policy.Chain{Watch: o.Watch.Requests(), Fails: o.Watch.Fails}}
	head, given, context := render.Objects(in.Head), render.Objects(trusted.Given), render.Objects(slices.Concat(in.Context, in.Anywhere))
	compiled := func(units []*render.Unit) []*render.Object { return load.Only(render.Objects(units), lint.IsCompiled) }
	own, anywhere := compiled(in.Head), compiled(in.Anywhere)

	defined := slices.Concat(own, compiled(trusted.Given), compiled(in.Context), anywhere)
	validated := defined
	if trusted != in {
		own, anywhere = compiled(trusted.Head), compiled(trusted.Anywhere)
		was := slices.Concat(own, compiled(trusted.Context))
		defined = change.Definitions(defined, was)
		validated = defined
		if trusted.Exempts != nil {
			validated = slices.Concat(was, defined)
		}
	}
	kinds, types, err := o.Served.kinds(defined, o.KubeVersion)
	if kinds == nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	b.broken(err)
	if trusted != in {
		b.Cluster = change.Cluster(in.Side(), trusted.Side(), trusted.Exempts)
	} else {
		b.Cluster = policy.NewCluster(slices.Concat(head, given, context)...)
	}
	b.Cluster.Declared(render.Objects(in.Context))
	kinds = kinds.On(b.Cluster, o.DisabledPlugins...)
	b.Chain.Kinds = kinds
	b.Chain.Variables = o.Variables
	b.Chain.Validators = append(b.Chain.Validators, schema.NewValidator(kinds, head))

	b.Unknown = unknownKinds(kinds, head)
	definitions, err := crd.New(validated, crd.Options{KubeVersion: o.KubeVersion, Reviews: o.Definitions})
	if err != nil {
		return nil, fmt.Errorf("--kube-version: %w", err)
	}
	b.Chain.Validators = append(b.Chain.Validators, definitions)
	policies := compiled(trusted.Given)
	if !o.NoTreePolicies {
		policies = slices.Concat(policies, own, anywhere)
	}
	policies = Distinct(policies)
	b.broken(lint.Check(policies, given, context, kinds))
	if fields := policy.NewSystemFields(load.Only(policies, func(o *render.Object) bool { return !schema.IsDefinition(o) })); fields != nil {
		b.Chain.Validators = append(b.Chain.Validators, fields)
	}
	authorizer, err := newAuthorizer(in, o.Settings, b.Cluster)
	if err != nil {
		return nil, err
	}
	if o.Authorizes() {
		b.Chain.Validators = append(b.Chain.Validators, authz.NewGate(authorizer, head))
	}
	options := admission.Options{
		Cluster: b.Cluster, Kinds: kinds, Types: types, Cost: o.Verbose, KubeVersion: o.KubeVersion,
		Authorizer: asked(o.Settings, authorizer), AuthorizerAssumed: authorizer.Assumed, Coverage: o.Coverage,
		AssumeBound: func(p *render.Object) bool { return slices.Contains(given, p) },
	}
	if o.Compiled {
		options.Types = nil
	}
	mutating, err := admission.NewMutating(policies, options)
	b.broken(err)
	b.Chain.Mutators = append(b.Chain.Mutators, mutating)
	validating, err := admission.New(policies, options)
	b.broken(err)
	b.Chain.Validators = append(b.Chain.Validators, validating)
	b.gatekeeper(trusted, o, policies, options)
	if err := b.kyverno(trusted, o.Settings, policies, options); err != nil {
		return nil, err
	}
	b.rego(in, trusted, o)

	for _, name := range b.packs(o.Settings, policies, in.Partial) {
		engine, err := newPack(name, o.Settings, kinds, b.Cluster, b.Chain.Mutators)
		if err != nil {
			return nil, err
		}
		b.Chain.Validators = append(b.Chain.Validators, engine)
	}
	return b, b.addPodSecurity(o)
}

// addPodSecurity adds the API server's plugin for the labels of Namespaces, if there are any and no pack
// reads them.
func (b *Set) addPodSecurity(o Options) error {
	packed := slices.ContainsFunc(b.Chain.Validators, func(v policy.Validator) bool { _, ok := v.(*podsecurity.Engine); return ok })
	if packed || slices.Contains(o.DisabledPlugins, PodSecurity) {
		return nil
	}
	engine, err := podsecurity.New(podsecurity.Options{Level: "privileged", KubeVersion: o.KubeVersion, Cluster: b.Cluster, Mutators: b.Chain.Mutators})
	if err == nil && engine.Labelled() {
		b.Chain.Validators = append(b.Chain.Validators, engine)
	}
	return err
}

// packs returns the names of the embedded packs to use: those of --pack, or the default pack if
// there are no other policies.
func (b *Set) packs(s *Settings, policies []*render.Object, partial bool) []string {
	if len(s.Packs) > 0 || s.PoliciesGiven || slices.ContainsFunc(policies, lint.IsPolicy) {
		return withoutRepeats(s.Packs)
	}
	b.Implied = true
	where, elsewhere := "in the tree", "; nothing in this repository enforces it"
	if partial {
		where, elsewhere = "at these paths", "; policies elsewhere in the repository are read with --policy"
	}
	b.Notes = append(b.Notes, "no policies are given by --policy or --pack, and none are "+where+", so the pack "+DefaultPack+" is used and only warns"+elsewhere+". To deny by it, and to keep it when policies are added: --pack "+DefaultPack)
	return []string{DefaultPack}
}

func (b *Set) broken(err error) {
	b.Results = append(b.Results, policy.Errors(policy.EngineCompile, nil, err)...)
}

// Release frees the compiled policies. The Set reviews no more requests.
func (b *Set) Release() { b.Said, b.Chain, b.all = b.Rules(), policy.Chain{}, nil }

// MayHaveRead reports whether policies may have looked up an object.
func (b *Set) MayHaveRead(o *render.Object) bool {
	return b.Cluster.HasShown(o) || slices.Contains(b.Shown, policy.NameOf(o))
}

func (b *Set) Rules() []policy.Rule {
	if b.Said != nil {
		return slices.Clone(b.Said)
	}
	rules := []policy.Rule{} // not nil, which Said must not be after Release
	for _, m := range b.Chain.Mutators {
		rules = append(rules, m.Rules()...)
	}
	for _, v := range b.Chain.Validators {
		rules = append(rules, v.Rules()...)
	}
	slices.SortStableFunc(rules, func(x, y policy.Rule) int {
		return cmp.Or(strings.Compare(x.Engine, y.Engine), strings.Compare(x.Policy, y.Policy), strings.Compare(x.Name, y.Name))
	})
	return rules
}

// Inspect returns the problems that engines find in the text of their policies.
func (b *Set) Inspect() []policy.Result {
	var all []policy.Result
	for _, m := range b.Chain.Mutators {
		if i, ok := m.(policy.Inspector); ok {
			all = append(all, i.Inspect()...)
		}
	}
	for _, v := range b.Chain.Validators {
		if i, ok := v.(policy.Inspector); ok {
			all = append(all, i.Inspect()...)
		}
	}
	return all
}

// A ClusterKind is a kind on a cluster.
type ClusterKind struct{ Kind, Cluster string }

func ClusterKindOf(o *render.Object) ClusterKind {
	gvk := o.GroupVersionKind()
	return ClusterKind{gvk.Kind + "." + gvk.Group, o.Unit.Cluster}
}

// unknownKinds returns the kinds without a schema, except those of policies, which their engines
// read.
func unknownKinds(kinds policy.Kinds, head []*render.Object) []ClusterKind {
	var unknown []ClusterKind
	for _, o := range head {
		gvk := o.GroupVersionKind()
		if r := kinds.Resource(gvk); !lint.IsPart(o) && strings.Contains(gvk.Group, ".") && !r.Known && !r.Unserved {
			unknown = append(unknown, ClusterKindOf(o))
		}
	}
	slices.SortFunc(unknown, func(a, b ClusterKind) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Cluster, b.Cluster))
	})
	return slices.Compact(unknown)
}

// Distinct returns the objects without those that equal an earlier one. Overlays repeat the
// policies of their base, but a cluster has each only once.
func Distinct(objects []*render.Object) []*render.Object {
	seen := make(map[render.Key][]*render.Object)
	var kept []*render.Object
	for _, o := range objects {
		key := o.Key()
		key.Unit = ""
		if slices.ContainsFunc(seen[key], func(other *render.Object) bool { return render.Equal(other.Object, o.Object) }) {
			continue
		}
		seen[key], kept = append(seen[key], o), append(kept, o)
	}
	return kept
}
