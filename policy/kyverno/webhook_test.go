package kyverno

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// threeKinds serve Widgets in three versions, which differ in nothing else.
type threeKinds struct{ plainKinds }

var threeVersions = []string{"v1", "v2", "v3"}

func (threeKinds) Equivalent(r schema.GroupVersionResource) (all []policy.Version) {
	for _, v := range threeVersions {
		if r.Resource == "widgets" && v != r.Version {
			all = append(all, policy.Version{Resource: r.GroupResource().WithVersion(v), Kind: schema.GroupVersionKind{Group: r.Group, Version: v, Kind: "Widget"}})
		}
	}
	return all
}

func (threeKinds) Convert(o map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	c := runtime.DeepCopyJSON(o)
	c["apiVersion"] = to.GroupVersion().String()
	return c, nil
}

// A madePolicy is a random policy about Widgets.
type madePolicy struct {
	name, failure string
	conditional   bool
	rules         []madeRule
}

// A madeRule is one of its rules.
type madeRule struct {
	name, does string              // validate, mutate or generate
	operations map[string][]string // that it names for each kind of the list kinds
	excluded   []string            // operations that it excludes
	makes      string              // the kind that it generates
}

// versionsOf are the versions of Widgets that an entry of kinds names.
var versionsOf = map[string][]string{
	"Widget": threeVersions, "shop.example/v1/Widget": {"v1"}, "v2/Widget": {"v2"}, "shop.example/v3/Widget": {"v3"}, "shop.example/*/Widget": threeVersions,
	"other.example/v1/Widget": nil, "ConfigMap": nil,
}

func makePolicies(r *rand.Rand) (all []madePolicy) {
	names := []string{"Widget", "shop.example/v1/Widget", "v2/Widget", "shop.example/v3/Widget", "shop.example/*/Widget", "other.example/v1/Widget", "ConfigMap"}
	common := names[1:4] // most name one version
	for i := range 1 + r.IntN(4) {
		p := madePolicy{name: fmt.Sprint("p", i), failure: []string{"Ignore", "Fail"}[r.IntN(2)], conditional: r.IntN(3) == 0}
		for j := range 1 + r.IntN(2) {
			rule := madeRule{name: fmt.Sprint("r", j), does: []string{"validate", "validate", "mutate", "mutate", "generate"}[r.IntN(5)], operations: map[string][]string{}}
			for range 1 + r.IntN(2) {
				kind := common[r.IntN(3)]
				if r.IntN(4) == 0 {
					kind = names[r.IntN(len(names))]
				}
				rule.operations[kind] = [][]string{nil, nil, {"CREATE"}, {"UPDATE"}, {"CREATE", "UPDATE"}}[r.IntN(5)]
			}
			kept := true // Kyverno refuses a rule that excludes all that it matches
			for _, operations := range rule.operations {
				kept = kept && !slices.Equal(operations, []string{"CREATE"})
			}
			if kept && r.IntN(5) == 0 {
				rule.excluded = []string{"CREATE"}
			}
			if rule.does == "generate" {
				rule.makes = []string{"ConfigMap", "shop.example/v1/Widget", "v2/Widget"}[r.IntN(3)]
			}
			p.rules = append(p.rules, rule)
		}
		all = append(all, p)
	}
	return all
}

func (p madePolicy) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: %s}\nspec:\n  background: false\n  webhookConfiguration:\n    failurePolicy: %s\n", p.name, p.failure)
	if p.conditional {
		b.WriteString("    matchConditions: [{name: always, expression: \"true\"}]\n")
	}
	b.WriteString("  rules:\n")
	list := func(name string, values []string) string {
		if len(values) == 0 {
			return ""
		}
		return fmt.Sprintf(", %s: [%s]", name, strings.Join(values, ", "))
	}
	for _, r := range p.rules {
		fmt.Fprintf(&b, "  - name: %s\n    match: {any: [", r.name)
		for _, kind := range sortedKeys(r.operations) {
			fmt.Fprintf(&b, "{resources: {kinds: [%q]%s}}, ", kind, list("operations", r.operations[kind]))
		}
		b.WriteString("]}\n")
		if r.excluded != nil {
			fmt.Fprintf(&b, "    exclude: {any: [{resources: {kinds: [%s]%s}}]}\n", `"`+strings.Join(sortedKeys(r.operations), `", "`)+`"`, list("operations", r.excluded))
		}
		switch r.does {
		case "validate":
			b.WriteString("    validate: {failureAction: Enforce, allowExistingViolations: false, message: \"{{ request.kind.version }}\", deny: {}}\n")
		case "mutate":
			fmt.Fprintf(&b, "    mutate: {patchStrategicMerge: {spec: {trace: \"{{ request.object.spec.trace }} %s/%s {{ request.object.apiVersion }}\"}}}\n", p.name, r.name)
		case "generate":
			apiVersion := map[string]string{"ConfigMap": "v1", "shop.example/v1/Widget": "shop.example/v1", "v2/Widget": "shop.example/v2"}[r.makes]
			fmt.Fprintf(&b, "    generate: {apiVersion: %s, kind: %q, name: made, namespace: default, data: {a: b}}\n", apiVersion, r.makes)
		}
	}
	return b.String()
}

func sortedKeys(m map[string][]string) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// asked lists the pairs of a version and an operation, such as "v1 CREATE", for which a rule has a webhook called.
func (r madeRule) asked(mutating bool) (all []string) {
	defaults := []string{"CREATE", "UPDATE", "DELETE"}
	switch {
	case r.does == "validate" && mutating, r.does == "mutate" && !mutating:
		return nil
	case r.does == "mutate":
		defaults = defaults[:2]
	}
	for kind, operations := range r.operations {
		for _, op := range defaults {
			named := len(operations) == 0 || slices.Contains(operations, op)
			for _, v := range versionsOf[kind] {
				if named && !slices.Contains(r.excluded, op) {
					all = append(all, v+" "+op)
				}
			}
		}
	}
	for _, v := range versionsOf[r.makes] {
		all = append(all, v+" CREATE", v+" UPDATE", v+" DELETE")
	}
	return all
}

// matches reports whether a rule is about a version and an operation.
func (r madeRule) matches(version, operation string) bool {
	for kind, operations := range r.operations {
		if slices.Contains(versionsOf[kind], version) && (len(operations) == 0 || slices.Contains(operations, operation)) && !slices.Contains(r.excluded, operation) {
			return true
		}
	}
	return false
}

// expect calls f for each rule that Kyverno evaluates, with the version that it sees. It is a model of its own: it
// lists the webhooks with what they are asked for, and then sends the request to each.
func expect(policies []madePolicy, mutating bool, version, operation string, f func(p madePolicy, r madeRule, version string)) {
	type hook struct {
		asked   []string
		handles []madePolicy
	}
	shared, own := map[string]*hook{"Ignore": {}, "Fail": {}}, map[string][]*hook{}
	for _, p := range policies {
		h := &hook{handles: []madePolicy{p}}
		if p.conditional {
			own[p.failure] = append(own[p.failure], h)
		} else {
			h = shared[p.failure]
		}
		shared[p.failure].handles = append(shared[p.failure].handles, p)
		mutates := slices.ContainsFunc(p.rules, func(r madeRule) bool { return r.does == "mutate" })
		for _, r := range p.rules {
			if mutates || !mutating {
				h.asked = append(h.asked, r.asked(mutating)...)
			}
		}
	}
	hooks := append([]*hook{shared["Ignore"], shared["Fail"]}, append(own["Ignore"], own["Fail"]...)...)
	order := append([]string{version}, slices.DeleteFunc(slices.Clone(threeVersions), func(v string) bool { return v == version })...)
	seen := map[string]bool{}
	for _, h := range hooks {
		i := slices.IndexFunc(order, func(v string) bool { return slices.Contains(h.asked, v+" "+operation) })
		if i < 0 {
			continue // not called
		}
		for _, p := range h.handles {
			for _, r := range p.rules {
				if key := p.name + r.name + order[i]; r.matches(order[i], operation) && !seen[key] {
					seen[key] = true
					f(p, r, order[i])
				}
			}
		}
	}
}

// TestWebhooks compares the rules that are evaluated, the versions that they see and the order of mutations with a model
// of Kyverno's webhooks, for random policies.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 19))
	converted, several := 0, 0
	for i := range 1500 {
		made := makePolicies(r)
		text := ""
		for _, p := range made {
			text += p.text()
		}
		engine, err := New(rendertest.Parse(t, "policies.yaml", text), Options{Kinds: threeKinds{}, Cluster: policy.NewCluster()})
		rendertest.OK(t, err)
		version, op := threeVersions[r.IntN(3)], []policy.Operation{policy.Create, policy.Update}[r.IntN(2)]
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "shop.example/" + version, "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}, "spec": map[string]any{"trace": ""},
		}}}
		req := requestFor(o, op)
		req.Resource.Known = true

		var want, got []string
		versions := map[string]bool{}
		expect(made, false, version, string(op), func(p madePolicy, r madeRule, v string) {
			if r.does == "validate" {
				want = append(want, p.name+"/"+r.name+" "+v)
				versions[v] = true
			}
		})
		results, err := engine.Validator().Validate(t.Context(), req)
		rendertest.OK(t, err)
		for _, x := range results {
			got = append(got, x.Policy+"/"+x.Rule+" "+x.Message)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Fatalf("case %d: %s %s is validated by %q, in Kyverno by %q\n%s", i, op, version, got, want, text)
		}
		delete(versions, version)
		converted, several = converted+min(len(versions), 1), several+len(versions)/2

		trace := ""
		expect(made, true, version, string(op), func(p madePolicy, r madeRule, v string) {
			if r.does == "mutate" {
				trace += fmt.Sprintf(" %s/%s shop.example/%s", p.name, r.name, v)
			}
		})
		steps, err := engine.Mutator().Mutate(t.Context(), req)
		rendertest.OK(t, err)
		after := req.Admitted
		for _, s := range steps {
			if s.Admitted != nil {
				after = s.Admitted
			}
		}
		if left, _ := render.Lookup(after, "/spec/trace"); left != trace || after["apiVersion"] != "shop.example/"+version {
			t.Fatalf("case %d: %s %s leaves %s with %q, in Kyverno with %q\n%s", i, op, version, after["apiVersion"], left, trace, text)
		}
	}
	if converted < 100 || several == 0 {
		t.Errorf("%d cases see another version, %d see two", converted, several)
	}
}
