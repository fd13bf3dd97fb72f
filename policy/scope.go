package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An object without a namespace, of a kind without a definition, may be cluster-scoped
// or in the namespace of its unit. Such a request is evaluated both ways, except for
// widely used kinds, whose scope is known.

// unplaced reports whether a request is about such an object.
func (c Chain) unplaced(req *Request) bool {
	o := req.Subject()
	return o.GetNamespace() == "" && !c.Kinds.Resource(o.GroupVersionKind()).Known
}

// scopeUnknown reports whether the object of an unplaced request may be cluster-scoped.
func (c Chain) scopeUnknown(req *Request) bool {
	return c.unplaced(req) && !namespaced(req.Subject().GroupVersionKind().GroupKind())
}

// namespacedGroups are widely used groups. Their kinds are namespaced, except those whose
// names begin with Cluster, such as ClusterIssuer; a kind named just Cluster is
// namespaced, too. The source is each project's own CustomResourceDefinitions.
var namespacedGroups = map[string]bool{
	"acme.cert-manager.io":           true,
	"argoproj.io":                    true,
	"autoscaling.k8s.io":             true,
	"bitnami.com":                    true,
	"cert-manager.io":                true,
	"external-secrets.io":            true,
	"fluxcd.controlplane.io":         true,
	"generators.external-secrets.io": true,
	"helm.cattle.io":                 true,
	"helm.toolkit.fluxcd.io":         true,
	"image.toolkit.fluxcd.io":        true,
	"keda.sh":                        true,
	"kustomize.toolkit.fluxcd.io":    true,
	"monitoring.coreos.com":          true,
	"networking.istio.io":            true,
	"notification.toolkit.fluxcd.io": true,
	"postgresql.cnpg.io":             true,
	"security.istio.io":              true,
	"serving.knative.dev":            true,
	"source.extensions.fluxcd.io":    true,
	"source.toolkit.fluxcd.io":       true,
	"tekton.dev":                     true,
	"telemetry.istio.io":             true,
	"traefik.io":                     true,
	"velero.io":                      true,
}

// namespaced reports whether a kind without a definition is known to be namespaced.
func namespaced(k schema.GroupKind) bool {
	return namespacedGroups[k.Group] && (k.Kind == "Cluster" || !strings.HasPrefix(k.Kind, "Cluster"))
}

// place puts the objects of an admitted request into its namespace, or into none if
// its kind is assumed to be cluster-scoped. The API server does so for kinds it knows.
func (r *Request) place() {
	for _, held := range []map[string]any{r.Admitted, r.OldAdmitted} {
		if held == nil {
			continue
		}
		u := unstructured.Unstructured{Object: held}
		if r.clusterScoped || u.GetNamespace() == "" {
			u.SetNamespace(r.Namespace)
		}
	}
}

// withoutNamespace returns the admitted object without the namespace that place gave it.
func (r *Request) withoutNamespace() map[string]any {
	metadata, _ := r.Admitted["metadata"].(map[string]any)
	if metadata["namespace"] != r.Namespace {
		return r.Admitted
	}
	held := maps.Clone(r.Admitted)
	metadata = maps.Clone(metadata)
	delete(metadata, "namespace")
	held["metadata"] = metadata
	return held
}

// clusterScoped returns the failures of a request if its kind is cluster-scoped. It
// returns none if the scope is known.
func (c Chain) clusterScoped(ctx context.Context, req *Request) ([]Result, error) {
	if !c.scopeUnknown(req) || req.clusterScoped {
		return nil, nil
	}
	other := *req
	other.clusterScoped, other.memo, other.buffer = true, nil, nil
	c.Passes = nil
	results, err := c.reviewUnguarded(ctx, &other)
	return slices.DeleteFunc(results, func(r Result) bool { return !r.fails() }), err
}

// fails reports whether the result is neither a pass nor a skip.
func (r *Result) fails() bool { return r.Outcome != Pass && r.Outcome != Skip }

// decideScope returns the results with one undecided result for each rule that fails
// only with a namespace, or only without one. results and mutations were evaluated with
// a namespace; others are the failures without one.
func (req *Request) decideScope(results, mutations, others []Result) []Result {
	same := func(a, b *Result) bool {
		return a.Engine == b.Engine && a.Policy == b.Policy && a.Rule == b.Rule
	}
	differs := func(r *Result) bool {
		fails := func(x Result) bool {
			return same(&x, r) && x.fails() && x.Outcome == r.Outcome && x.Action == r.Action
		}
		here := slices.ContainsFunc(results, fails) || slices.ContainsFunc(mutations, fails)
		return here != slices.ContainsFunc(others, fails)
	}
	var open []Result
	for _, list := range [][]Result{results, others} {
		for i := range list {
			r := list[i]
			if r.fails() && differs(&r) && !slices.ContainsFunc(open, func(x Result) bool { return same(&x, &r) }) {
				r.Outcome, r.Fields, r.Origins = Unknown, nil, nil
				r.Message = fmt.Sprintf("needs to know whether %s is namespaced: give its CustomResourceDefinition with --with", req.Kind.GroupKind())
				open = append(open, r)
			}
		}
	}
	if len(open) == 0 {
		return results
	}
	kept := slices.DeleteFunc(results, func(r Result) bool { return slices.ContainsFunc(open, func(x Result) bool { return same(&x, &r) }) })
	return append(kept, open...)
}

// decideScope is Request.decideScope for the results of the explained rules.
func (e *Explanation) decideScope(req *Request, others []Result) {
	e.Results = req.decideScope(e.Results, nil, slices.DeleteFunc(slices.Clone(others), func(o Result) bool {
		return o.Engine != e.Engine || o.Policy != e.Policy ||
			!slices.ContainsFunc(e.Rules, func(r Rule) bool { return r.Name == o.Rule }) && !slices.ContainsFunc(e.Results, func(r Result) bool { return r.Rule == o.Rule })
	}))
}
