// Package podsecurity evaluates pods against the Pod Security Standards, as the
// PodSecurity admission plugin of the API server does.
//
// It takes requests for pods and for everything that creates pods, and returns one
// result for each control of the level in force: the level of the pack, unless a
// label of the Namespace sets another. Verdicts and messages are those of
// k8s.io/pod-security-admission. The fields at fault come from the package
// policy/internal/podsecurity; document.go describes each control and how to
// satisfy it.
//
// The plugin refuses only pods, and warns about workloads. Here a workload whose
// pods would be refused is denied as well, as by policies of other engines: none of
// its pods would run. It reads the templates of workloads itself. The chain gives it
// only the pods of templates in other kinds.
package podsecurity

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Options say what pods are judged by.
type Options struct {
	Level       string           // where no label says another: that of the pack; without one "privileged", the API server's
	KubeVersion string           // of the API server, "1.31"; "" is the library's newest
	Cluster     *policy.Cluster  // where Namespaces are looked up; may be nil
	Mutators    []policy.Mutator // what they change in pods is judged after the change
	Unlabelled  bool             // the API server does not run the plugin, so labels of Namespaces mean nothing

	// Implied means that the pack is used by default, so nothing on the cluster
	// enforces it: failures of the pack are warnings. Labels of Namespaces deny
	// as usual.
	Implied bool
}

// An Engine evaluates pods by one level and by the labels of their Namespaces.
// It is safe for concurrent use.
type Engine struct {
	cluster    *policy.Cluster
	defaults   api.Policy
	levels     levels
	implied    bool
	mutators   []policy.Mutator
	unlabelled bool
	plans      sync.Map // of planKey: []requirement
}

// New returns the engine of a level. The error says which option is wrong.
func New(opts Options) (*Engine, error) {
	level := api.Level(opts.Level)
	if !slices.Contains([]api.Level{api.LevelPrivileged, api.LevelBaseline, api.LevelRestricted}, level) {
		return nil, fmt.Errorf("pod security level must be privileged, baseline or restricted, not %q", opts.Level)
	}
	newest := api.LatestVersion()
	if opts.KubeVersion != "" {
		v, err := version.ParseGeneric(opts.KubeVersion)
		if err != nil || v.Major() != 1 {
			return nil, fmt.Errorf("kubernetes version must look like 1.31, not %q", opts.KubeVersion)
		}
		newest = api.MajorMinorVersion(1, int(v.Minor()))
	}
	free := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	return &Engine{
		cluster:    opts.Cluster,
		defaults:   api.Policy{Enforce: api.LevelVersion{Level: level, Version: api.LatestVersion()}, Warn: free, Audit: free},
		levels:     newLevels(psa.DefaultChecks(), newest),
		implied:    opts.Implied,
		unlabelled: opts.Unlabelled,
		mutators:   opts.Mutators,
	}, nil
}

// SelectsMade implements policy.MadeEngine: a template in a kind of policy.PodTemplate is examined with the object,
// unless a mutator may change its pods.
func (e *Engine) SelectsMade(made, maker schema.GroupVersionKind) bool {
	if _, ok := policy.PodTemplate(maker.GroupKind()); ok && !e.mutated(maker) {
		return false
	}
	return made == policy.PodKind
}

// mutated reports whether a mutator may change the pods that are made of a kind's objects. None are made of a PodTemplate.
func (e *Engine) mutated(maker schema.GroupVersionKind) bool {
	return maker.Kind != "PodTemplate" && slices.ContainsFunc(e.mutators, func(m policy.Mutator) bool {
		s, ok := m.(policy.MadeEngine)
		return ok && s.SelectsMade(policy.PodKind, maker)
	})
}

// Validate returns a result for each control that applies to the pods of the
// request's object, and for the pod-security labels of a Namespace.
func (e *Engine) Validate(ctx context.Context, req *policy.Request) (results []policy.Result, err error) {
	if err := ctx.Err(); err != nil || req.Object == nil {
		return nil, err
	}
	policy.Observed(ctx, policy.EnginePodSecurity, string(e.defaults.Enforce.Level), func() { results = e.validate(req) })
	return results, err
}

func (e *Engine) validate(req *policy.Request) []policy.Result {
	if req.Kind.GroupKind() == namespaceKind {
		return e.validateLabels(req)
	}
	path, ok := policy.PodTemplate(req.Kind.GroupKind())
	if !ok || !examined(req) || path != "" && e.mutated(req.Kind) {
		return nil
	}
	p, err := typedPod(req.Typed, path), error(nil)
	if p == nil {
		p, err = extract(req.Admitted, path)
	}
	if err != nil {
		return []policy.Result{e.undecided(path, err)}
	}
	if p == nil {
		return nil
	}
	ns := e.namespace(req)
	if !significant(req, p) {
		return e.unchanged(ns)
	}
	return e.evaluate(req, ns, p)
}

// evaluate checks a pod with the policy of its namespace.
func (e *Engine) evaluate(req *policy.Request, ns namespace, p *pod) []policy.Result {
	results := req.Room()
	denied := make(map[string]bool)
	for _, d := range e.plan(ns) {
		verdict := psa.CheckResult{Allowed: true}
		if !d.exempt {
			verdict = d.check(p.meta, p.spec)
		}
		if d.again && (verdict.Allowed || denied[d.id]) {
			continue
		}
		r := d.result(ns)
		if !verdict.Allowed {
			denied[d.id] = true
			r.Outcome = policy.Fail
			r.Message = render.Cut(message(d, verdict), policy.MaxMessage)
			if p.at != "" {
				r.AboutPods()
			}
			r.Fields = d.locate(p)
			if d.id == "hostPorts" {
				r.Fields = defaultedPorts(r.Fields, req.Object, p)
			}
			if e.implied && d.action == policy.Warn && d.level.Level == e.defaults.Enforce.Level {
				r.Assumed = append(slices.Clip(r.Assumed), impliedNote)
			}
		}
		results = append(results, r)
	}
	return results
}

// message returns the API server's message for a refusal.
func message(d requirement, verdict psa.CheckResult) string {
	all := psa.AggregateCheckResults([]psa.CheckResult{verdict})
	if d.action != policy.Deny {
		return fmt.Sprintf("would violate PodSecurity %q: %s", d.level, all.ForbiddenDetail())
	}
	return fmt.Sprintf("violates PodSecurity %q: %s", d.level, all.ForbiddenDetail())
}

// unchanged returns the results of an update that the plugin does not check.
func (e *Engine) unchanged(ns namespace) []policy.Result {
	var results []policy.Result
	for _, d := range e.plan(ns) {
		if d.again {
			continue
		}
		r := d.result(ns)
		r.Outcome = policy.Skip
		if !d.exempt {
			r.Message = "the update changes no container and no image, so PodSecurity does not look at the pod again"
		}
		results = append(results, r)
	}
	return results
}

// undecided returns the result for an object whose pod can't be computed.
func (e *Engine) undecided(path string, err error) policy.Result {
	return policy.Result{
		Engine: policy.EnginePodSecurity, Policy: string(e.defaults.Enforce.Level), Rule: "podSpec",
		Outcome: policy.Error, Action: e.action(namespace{}), Severity: policy.High,
		Message: render.Cut("the pod can't be read: "+err.Error(), policy.MaxMessage),
		Fields:  []string{path},
	}
}

// defaultedPorts adds the cause of host ports that the object does not have: the API
// server sets them for pods in the host's network.
func defaultedPorts(fields []string, o *render.Object, p *pod) []string {
	if !p.spec.HostNetwork {
		return fields
	}
	for _, f := range fields {
		if _, written := render.Lookup(o.Object, f); !written {
			return append([]string{p.at + "/spec/hostNetwork"}, fields...)
		}
	}
	return fields
}
