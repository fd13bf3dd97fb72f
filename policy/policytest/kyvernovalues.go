package policytest

import (
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/render"
)

// kyvernoValues holds the values that a test mocks.
type kyvernoValues struct {
	global   map[string]any
	policies []policyValues
}

// policyValues holds the values for one policy.
type policyValues struct {
	node
	name      string
	resources []namedValues
	rules     []namedValues
}

// namedValues holds the values for a resource or a rule.
type namedValues struct {
	node
	name    string
	values  map[string]any
	foreach map[string]any
}

// readValues reads the values from a file or from the test itself.
func (k *kyvernoTest) readValues(file, inline node) {
	known := []string{"globalValues", "policies", "namespaceSelector", "namespaces", "subresources"}
	var f map[string]node
	switch {
	case inline.value != nil:
		f = inline.folded(known...)
	case file.value != nil:
		root := k.document(file, "Values", "Value")
		if root.doc == nil {
			return
		}
		f = root.spec(known...)
	default:
		return
	}
	k.values.global = f["globalValues"].mapping()
	for _, p := range f["policies"].items() {
		k.values.policies = append(k.values.policies, readPolicyValues(p))
	}
	k.readNamespaces(f)
	for _, s := range f["subresources"].items() {
		k.setup.Subresources = append(k.setup.Subresources, readSubresource(s))
	}
}

func readPolicyValues(p node) policyValues {
	f := p.folded("name", "resources", "rules")
	v := policyValues{node: p, name: f["name"].text()}
	for _, r := range f["resources"].items() {
		g := r.folded("name", "values")
		v.resources = append(v.resources, namedValues{node: r, name: g["name"].text(), values: g["values"].mapping()})
	}
	for _, r := range f["rules"].items() {
		g := r.folded("name", "values", "foreachValues")
		v.rules = append(v.rules, namedValues{node: r, name: g["name"].text(), values: g["values"].mapping(), foreach: g["foreachValues"].mapping()})
	}
	return v
}

// readNamespaces reads labels of namespaces; whole Namespaces win.
func (k *kyvernoTest) readNamespaces(f map[string]node) {
	labels := make(map[string]map[string]string)
	for _, n := range f["namespaceSelector"].items() {
		g := n.folded("name", "labels")
		ns := newNamespace(g["name"].text())
		labels[ns.GetName()] = g["labels"].strings()
		ns.SetLabels(labels[ns.GetName()])
		k.setup.Namespaces = append(k.setup.Namespaces, ns)
	}
	var whole []*render.Object
	for _, o := range f["namespaces"].objects() {
		labels[o.GetName()] = o.GetLabels()
		whole = append(whole, o)
	}
	k.setup.Namespaces = append(whole, k.setup.Namespaces...)
	if len(labels) > 0 {
		k.setup.NamespaceLabels = labels
	}
}

func readSubresource(n node) KyvernoSubresource {
	f := n.folded("subresource", "parentResource")
	resource := func(n node) map[string]node {
		return n.folded("group", "version", "kind", "name", "namespaced", "singularName", "verbs", "shortNames", "categories")
	}
	s, p := resource(f["subresource"]), resource(f["parentResource"])
	sub := KyvernoSubresource{
		Group: s["group"].text(), Version: s["version"].text(), Kind: s["kind"].text(), Name: s["name"].text(),
		ParentKind: p["kind"].text(),
	}
	if !strings.Contains(sub.Name, "/") {
		f["subresource"].fail("name of a subresource must be such as pods/exec, not %q", sub.Name)
	}
	return sub
}

// mapping returns a mapping of any values, or nil if absent.
func (n node) mapping() map[string]any {
	m, ok := n.value.(map[string]any)
	if n.value != nil && !ok {
		n.fail("%s must be a mapping", n.name())
	}
	return m
}

// strings returns a mapping of strings.
func (n node) strings() map[string]string {
	m := make(map[string]string)
	for k, v := range n.mapping() {
		m[k] = node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(k), value: v}.text()
	}
	return m
}

// variables returns the values for a policy and a resource.
func (k *kyvernoTest) variables(policyName, resource string) map[string]any {
	all := maps.Clone(k.values.global)
	for _, p := range k.values.policies {
		for _, r := range p.resources {
			if p.name == policyName && r.name == resource {
				if all == nil {
					all = map[string]any{}
				}
				maps.Copy(all, r.values)
			}
		}
	}
	return all
}

// rules returns the values for the rules of a policy.
func (k *kyvernoTest) rules(policyName string) (values, foreach map[string]map[string]any) {
	values, foreach = map[string]map[string]any{}, map[string]map[string]any{}
	for _, p := range k.values.policies {
		for _, r := range p.rules {
			if p.name == policyName {
				values[r.name], foreach[r.name] = r.values, r.foreach
			}
		}
	}
	return values, foreach
}

// operation returns the operation of a request: that of the result, or of the
// values, or CREATE.
func operation(given string, variables map[string]any) policy.Operation {
	if given == "" {
		given, _ = variables["request.operation"].(string)
	}
	if given == "" {
		return policy.Create
	}
	return policy.Operation(given)
}

// unused adds notes about values for policies, rules or resources that the test
// does not have.
func (k *kyvernoTest) unused() {
	for _, v := range k.values.policies {
		policies := k.named(v.name)
		if len(policies) == 0 {
			k.note("%s: values are for policy %q, which is not among the policies", k.shown(v.span()), v.name)
			continue
		}
		for _, r := range v.resources {
			if !slices.ContainsFunc(k.setup.Resources, func(o *render.Object) bool { return o.GetName() == r.name }) {
				k.note("%s: values are for resource %q, which is not among the resources", k.shown(r.span()), r.name)
			}
		}
		for _, r := range v.rules {
			if policies[0].engine != nil && !hasRule(policies, r.name) {
				k.note("%s: values are for rule %q, which policy %s does not have", k.shown(r.span()), r.name, v.name)
			}
		}
	}
}

// search evaluates a JMESPath.
func search(expression string, value any) (any, error) {
	e, err := jmespath.Compile(expression)
	if err != nil {
		return nil, err
	}
	return e.Search(value, nil)
}
