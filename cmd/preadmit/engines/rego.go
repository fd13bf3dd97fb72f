package engines

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/kyverno"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// rego adds the engine for Rego packages. It evaluates objects as written, without defaults: each
// on its own or, with --combine, all together.
func (b *Set) rego(in, trusted *load.Input, o Options) {
	if len(trusted.Modules) == 0 {
		if len(o.RegoNamespaces) > 0 {
			b.broken(&render.Error{Rule: "namespace", Err: fmt.Errorf("--rego-namespace %s checks nothing: --policy gives no Rego files", strings.Join(o.RegoNamespaces, ", "))})
		}
		return
	}
	engine, err := rego.New(trusted.Modules, rego.Options{
		Namespaces: o.RegoNamespaces, Data: trusted.Data, Now: o.now(), Print: o.Prints.add, Coverage: o.Coverage,
	})
	b.broken(err)
	b.Notes = append(b.Notes, engine.Notes()...)
	if !o.Combine {
		b.Chain.Validators = append(b.Chain.Validators, engine)
		return
	}
	b.all = engine.Combine(render.Objects(in.Head))
	b.Chain.Validators = append(b.Chain.Validators, b.all)
}

// Rest returns the results about all objects together.
func (b *Set) Rest(ctx context.Context) ([]policy.Result, error) {
	if b.all == nil {
		return nil, nil
	}
	return b.all.Rest(ctx)
}

// Prints collects the output of print in policies for -v: each line once, sorted. A nil *Prints
// discards it.
type Prints struct {
	mu    sync.Mutex
	lines map[printedLine]bool
}

type printedLine struct {
	file string
	line int
	text string
}

// maxPrinted limits the lines that a Prints keeps.
const maxPrinted = 10000

func (p *Prints) add(file string, line int, text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = make(map[printedLine]bool)
	}
	if len(p.lines) < maxPrinted {
		p.lines[printedLine{file, line, text}] = true
	}
}

func (p *Prints) Write(w io.Writer, t *load.Tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := make([]printedLine, 0, len(p.lines))
	for l := range p.lines {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b printedLine) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line), strings.Compare(a.text, b.text))
	})
	for _, l := range lines {
		fmt.Fprintf(w, "print: %s:%d: %s\n", report.Plain(t.Display(l.file)), l.line, report.Plain(l.text))
	}
	if len(lines) == maxPrinted {
		fmt.Fprintln(w, "print: and more")
	}
}

// kyverno adds Kyverno's engines. Kyverno is a webhook: on the cluster it mutates after
// MutatingAdmissionPolicies and validates after ValidatingAdmissionPolicies. The engines get the
// same cluster and authorizer as those.
func (b *Set) kyverno(in *load.Input, s *Settings, policies []*render.Object, evaluated admission.Options) error {
	cluster := evaluated.Cluster
	all := withParts(policies, slices.Concat(in.Head, in.Context), func(o *render.Object) bool { return o.GetKind() == "PolicyException" || lint.IsKyvernoConfig(o) })
	rules, err := kyverno.New(all, kyverno.Options{
		Cluster: cluster, Kinds: b.Chain.Kinds, KubeVersion: s.KubeVersion, Now: s.now,
		Authorizer: evaluated.Authorizer, AuthorizerAssumed: evaluated.AuthorizerAssumed, Coverage: evaluated.Coverage,
	})
	if rules == nil {
		return err
	}
	b.broken(err)
	expressions, err := kyvernocel.New(all, kyvernocel.Options{Cluster: cluster, Kinds: b.Chain.Kinds, Now: s.now(), Coverage: evaluated.Coverage})
	b.broken(err)
	b.Chain.Mutators = append(b.Chain.Mutators, rules.Mutator(), expressions.Mutator())
	b.Chain.Validators = append(b.Chain.Validators, rules.Validator(), expressions.Validator())
	return nil
}

// gatekeeper adds Gatekeeper's engines. The API server calls webhooks in the order of their
// configurations' names, so Gatekeeper mutates before Kyverno.
func (b *Set) gatekeeper(in *load.Input, o Options, policies []*render.Object, evaluated admission.Options) {
	policies = withParts(policies, in.Context, func(o *render.Object) bool {
		group := o.GroupVersionKind().Group
		return lint.IsGatekeeper(group) && group != "mutations.gatekeeper.sh"
	})
	options := gatekeeper.Options{Cluster: evaluated.Cluster, Kinds: b.Chain.Kinds, Now: o.now, Coverage: o.Coverage}
	if o.Prints != nil {
		options.Print = func(_ string, at render.Span, text string) { o.Prints.add(at.File, at.Line, text) }
	}
	mutators, err := gatekeeper.NewMutating(policies, options)
	b.broken(err)
	constraints, err := gatekeeper.New(policies, options)
	b.broken(err)
	b.Chain.Mutators = append(b.Chain.Mutators, mutators)
	b.Chain.Validators = append(b.Chain.Validators, constraints)
}

// withParts returns the policies and the objects on the cluster that belong to policies without
// checking anything themselves, such as exceptions and templates.
func withParts(policies []*render.Object, units []*render.Unit, isPart func(*render.Object) bool) []*render.Object {
	all := slices.Clone(policies)
	for _, o := range render.Objects(units) {
		if isPart(o) && !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// newAuthorizer returns the authorizer that --authorizer selects. Objects of --with exist on the
// cluster before the change.
func newAuthorizer(in *load.Input, s *Settings, cluster *policy.Cluster) (*authz.Authorizer, error) {
	given := make(map[*render.Object]bool)
	for _, object := range render.Objects(in.Context) {
		given[object] = true
	}
	if s.AuthorizerFile == "" {
		return authz.New(s.Authorizer, authz.Options{
			Cluster: cluster, KubeVersion: s.KubeVersion,
			Given: func(object *render.Object) bool { return given[object] },
		})
	}
	a, err := authz.Parse(s.AuthorizerFile, s.AuthorizerData)
	if err != nil {
		return nil, fmt.Errorf("--authorizer: %w", load.Places(nil, err))
	}
	return a, nil
}

// asked returns the authorizer that policies use. Authorizers that decide by the user return
// undecided if the user is unknown.
func asked(s *Settings, a *authz.Authorizer) admission.Authorizer {
	if !s.Authorizes() {
		return a
	}
	return someone{a}
}

// someone is an authorizer that answers for known users only.
type someone struct{ admission.Authorizer }

func (s someone) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := attrs.GetUser(); u == nil || u.GetName() == "" && len(u.GetGroups()) == 0 {
		return authorizer.DecisionNoOpinion, "", &admission.Undecided{Question: "needs to know who makes the request: give the user with --as"}
	}
	return s.Authorizer.Authorize(ctx, attrs)
}
