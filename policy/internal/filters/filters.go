// Package filters finds the requests that Kyverno ignores: by the resourceFilters of
// its ConfigMap or, where the tree does not have that, by those that its chart installs
// (config.resourceFilters and config.excludeKyvernoNamespace of chart 3.9, Kyverno
// 1.19).
//
// [New] takes the objects that policies come from. [Filters.Apply] changes the results
// about a request that an installed Kyverno would ignore. selector.go reads the kinds
// that filters and policies name.
package filters

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/render"
)

// byDefault are the chart's filters, without those for Kyverno's own objects outside its namespace.
const byDefault = `[Event,*,*] [*/*,kube-system,*] [*/*,kube-public,*] [*/*,kube-node-lease,*] [*/*,kyverno,*]
[Node,*,*] [APIService,*,*] [TokenReview,*,*] [SubjectAccessReview,*,*] [SelfSubjectAccessReview,*,*]
[Binding,*,*] [ReplicaSet,*,*] [EphemeralReport,*,*] [ClusterEphemeralReport,*,*]`

// IsConfig reports whether an object is the ConfigMap from which Kyverno reads its filters.
func IsConfig(o *render.Object) bool {
	if o.GetKind() != "ConfigMap" || o.GetAPIVersion() != "v1" {
		return false
	}
	_, ok := render.Lookup(o.Object, "/data/resourceFilters")
	return ok && strings.Contains(o.GetName()+o.GetLabels()["app.kubernetes.io/part-of"], "kyverno")
}

// Filters are the resourceFilters of the ConfigMaps of a tree, or the default. nil ignores
// nothing.
type Filters struct {
	configs  []*render.Object
	each     [][]filter // by config
	defaults []filter
}

// A filter holds wildcards, as in [Pod/status,kube-system,*].
type filter struct {
	kind            KindSelector
	namespace, name string
}

// New reads the filters of the ConfigMaps among objects. It leaves out ConfigMaps that nothing
// deploys.
func New(objects []*render.Object) *Filters {
	f := &Filters{defaults: parse(byDefault)}
	for _, o := range objects {
		if IsConfig(o) && (o.Unit == nil || o.Unit.State != render.Unreached) {
			text, _ := render.Lookup(o.Object, "/data/resourceFilters")
			f.configs, f.each = append(f.configs, o), append(f.each, parse(fmt.Sprint(text)))
		}
	}
	return f
}

// parse reads filters as Kyverno does (pkg/config.parseKinds and ParseKindSelector): what has
// another form is ignored, and parts that are left out match everything.
func parse(text string) []filter {
	var all []filter
	for part := range strings.SplitSeq(text, "[") {
		part, _, closed := strings.Cut(part, "]")
		parts := strings.Split(part, ",")
		if !closed || len(parts) > 3 {
			continue
		}
		parts = append(parts, "*", "*")
		all = append(all, filter{ParseKindSelector(strings.TrimSpace(parts[0])), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])})
	}
	return all
}

// matches reports whether Kyverno ignores a request (configuration.ToFilter). The filter of a
// namespace also leaves out the Namespace.
func (f *filter) matches(req *policy.Request) bool {
	return f.kind.Matches(req.Kind, req.SubResource) && (pattern.Wildcard(f.namespace, req.Namespace) && pattern.Wildcard(f.name, req.Name) ||
		req.Kind == schema.GroupVersionKind{Version: "v1", Kind: "Namespace"} && pattern.Wildcard(f.namespace, req.Name))
}

// Ignores reports whether all ConfigMaps of the tree leave a request out. why names the first one.
func (f *Filters) Ignores(req *policy.Request) (why string, ignored bool) {
	if f == nil || len(f.configs) == 0 {
		return "", false
	}
	for _, filters := range f.each {
		if !slices.ContainsFunc(filters, func(x filter) bool { return x.matches(req) }) {
			return "", false
		}
	}
	return fmt.Sprintf("left out by resourceFilters of Kyverno's ConfigMap at %s", f.configs[0].Span("/data/resourceFilters")), true
}

// Apply skips a result about a request that Kyverno ignores. If only the chart's default says so,
// a denial becomes a warning, with the assumption.
func (f *Filters) Apply(r *policy.Result, req *policy.Request) {
	if f == nil {
		return
	}
	if why, ignored := f.Ignores(req); ignored {
		r.Outcome, r.Message, r.Fields, r.Literals, r.Assumed = policy.Skip, why, nil, nil, nil
		return
	}
	i := slices.IndexFunc(f.defaults, func(x filter) bool { return len(f.configs) == 0 && x.matches(req) })
	if i < 0 {
		return
	}
	what := "kind " + req.Kind.Kind
	if x := f.defaults[i]; x.namespace != "*" {
		what = "namespace " + x.namespace
	}
	r.Assumed = append(slices.Clip(r.Assumed), fmt.Sprintf("Kyverno is configured to check %s, which it leaves out by default", what))
	if r.Action == policy.Deny {
		r.Action = policy.Warn
	}
}
