package policy

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An object without a namespace, of a kind without a definition, may be cluster-scoped
// or in the namespace of its unit. Such a request is evaluated both ways, except for
// widely used kinds, whose scope is known.

// unplaced reports whether a request is about such an object.
func (c Chain) unplaced(req *Request) bool {
	o := req.Subject()
	r := c.Kinds.Resource(o.GroupVersionKind())
	return o.GetNamespace() == "" && (!r.Known || r.Guessed)
}

// scopeUnknown reports whether the object of an unplaced request may be cluster-scoped.
func (c Chain) scopeUnknown(req *Request) bool {
	return c.unplaced(req) && c.Kinds.Resource(req.Subject().GroupVersionKind()).Guessed
}

//go:embed groups.tsv
var groupsTable string

// A knownGroup holds what groups.tsv says about a group.
type knownGroup struct {
	clustered []string          // cluster-scoped kinds, or "*"
	plurals   map[string]string // irregular names of resources, by kind; "" is the key of "="
}

// knownGroups returns the groups of groups.tsv; the names of those that begin with "*." are
// also in wide, in the table's order.
var knownGroups = sync.OnceValues(func() (groups map[string]knownGroup, wide []string) {
	groups = make(map[string]knownGroup)
	for line := range strings.Lines(groupsTable) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "", "")
		g := knownGroup{strings.Fields(columns[1]), make(map[string]string)}
		for _, name := range strings.Fields(columns[2]) {
			kind, plural, _ := strings.Cut(name, "=")
			g.plurals[kind] = plural
		}
		if groups[columns[0]] = g; strings.HasPrefix(columns[0], "*.") {
			wide = append(wide, columns[0])
		}
	}
	return groups, wide
})

// GuessedResource is an annotation of definitions made of a schema that does not say how the
// resource is called and whether it is namespaced.
const GuessedResource = "preadmit.dev/guessed-resource"

// ResourceOf returns the resource of a kind without a definition. If its project is widely used,
// its name and scope are facts. Otherwise they are guessed: a regular plural, and namespaced.
func ResourceOf(gvk schema.GroupVersionKind) Resource {
	groups, wide := knownGroups()
	g, known := groups[gvk.Group]
	for i := 0; !known && i < len(wide); i++ {
		if strings.HasSuffix(gvk.Group, wide[i][1:]) {
			g, known = groups[wide[i]], true
		}
	}
	plural := pluralOf(strings.ToLower(gvk.Kind))
	if irregular, ok := g.plurals[gvk.Kind]; ok {
		plural = irregular
	} else if _, ok := g.plurals[""]; ok {
		plural = strings.ToLower(gvk.Kind)
	}
	clustered := slices.Contains(g.clustered, gvk.Kind) || slices.Contains(g.clustered, "*") ||
		known && gvk.Kind != "Cluster" && strings.HasPrefix(gvk.Kind, "Cluster")
	return Resource{GroupVersionResource: gvk.GroupVersion().WithResource(plural), Namespaced: !clustered, Guessed: !known}
}

// pluralOf returns the plural that the generators of CustomResourceDefinitions give to a regular
// noun in lower case: gateways, policies, meshes, ingresses.
func pluralOf(noun string) string {
	before, ending := strings.CutSuffix(noun, "y")
	switch {
	case ending && before != "" && !strings.ContainsAny(before[len(before)-1:], "aeiou"):
		return before + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	default:
		return noun + "s"
	}
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
	other.clusterScoped, other.buffer = true, nil
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
	return undecideDiffering(results, mutations, others, req.needsScope())
}

func (req *Request) needsScope() string {
	return fmt.Sprintf("needs to know whether %s is namespaced: give its CustomResourceDefinition with --with", req.Kind.GroupKind())
}

// ofRule reports whether two results are of one rule.
func (r *Result) ofRule(o *Result) bool {
	return r.Engine == o.Engine && r.Policy == o.Policy && r.Rule == o.Rule
}

// undecideDiffering returns the results with one undecided result, with a message, for each rule
// whose failures in results and mutations are not those in others.
func undecideDiffering(results, mutations, others []Result, message string) []Result {
	differs := func(r *Result) bool {
		fails := func(x Result) bool {
			return x.ofRule(r) && x.fails() && x.Outcome == r.Outcome && x.Action == r.Action
		}
		here := slices.ContainsFunc(results, fails) || slices.ContainsFunc(mutations, fails)
		return here != slices.ContainsFunc(others, fails)
	}
	var open []Result
	for _, list := range [][]Result{results, others} {
		for i := range list {
			r := list[i]
			if r.fails() && differs(&r) && !slices.ContainsFunc(open, func(x Result) bool { return x.ofRule(&r) }) {
				r.Outcome, r.Fields, r.Origins = Unknown, nil, nil
				r.Message = message
				open = append(open, r)
			}
		}
	}
	if len(open) == 0 {
		return results
	}
	kept := slices.DeleteFunc(results, func(r Result) bool { return slices.ContainsFunc(open, func(x Result) bool { return x.ofRule(&r) }) })
	return append(kept, open...)
}

// undecideDiffering replaces the results of the explained rules that have another verdict in others by undecided ones.
func (e *Explanation) undecideDiffering(others []Result, message string) {
	e.Results = undecideDiffering(e.Results, nil, slices.DeleteFunc(slices.Clone(others), func(o Result) bool {
		return o.Engine != e.Engine || o.Policy != e.Policy ||
			!slices.ContainsFunc(e.Rules, func(r Rule) bool { return r.Name == o.Rule }) && !slices.ContainsFunc(e.Results, func(r Result) bool { return r.Rule == o.Rule })
	}), message)
}
