package document

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func read(t testing.TB, text string) *render.Object {
	t.Helper()
	objects, err := render.Parse("policy.yaml", []byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0]
}

func matchOf(t testing.TB, text string) (*Match, []error) {
	t.Helper()
	var block any
	rendertest.OK(t, yaml.Unmarshal([]byte(text), &block))
	o := read(t, "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K\nmetadata: {name: c}\n")
	return NewMatch(o, "/spec/match", block)
}

// unknown stands in the table for what depends on the labels of a namespace.
const unknown = "unknown"

func TestMatch(t *testing.T) {
	t.Parallel()
	const (
		pod       = "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}}}"
		generated = "{apiVersion: v1, kind: Pod, metadata: {generateName: web-, namespace: shop}}"
		deploy    = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: kube-system}}"
		node      = "{apiVersion: v1, kind: Node, metadata: {name: worker, labels: {app: web}}}"
		space     = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}"
		nowhere   = "{apiVersion: v1, kind: Pod, metadata: {name: p}}"
	)
	shop := &Namespace{Name: "shop", Known: true, Labels: map[string]string{"team": "a", corev1.LabelMetadataName: "shop"}}
	dark := &Namespace{Name: "shop"}
	for _, c := range []struct {
		name, match, object string
		in                  *Namespace
		want                string
	}{
		{"nothing said", `{}`, pod, shop, "yes"},
		{"kind", `{kinds: [{apiGroups: [""], kinds: [Pod]}]}`, pod, shop, "yes"},
		{"kind of another group", `{kinds: [{apiGroups: ["apps"], kinds: [Pod]}]}`, pod, shop, "no"},
		{"the second kinds", `{kinds: [{apiGroups: [""], kinds: [Pod]}, {apiGroups: ["*"], kinds: ["*"]}]}`, deploy, shop, "yes"},
		{"no groups are all", `{kinds: [{kinds: [Deployment]}]}`, deploy, shop, "yes"},
		{"no kinds are all", `{kinds: [{apiGroups: [apps]}]}`, deploy, shop, "yes"},
		{"namespace", `{namespaces: [shop]}`, pod, shop, "yes"},
		{"namespace with a star behind", `{namespaces: [sh*]}`, pod, shop, "yes"},
		{"namespace with a star before", `{namespaces: ["*op"]}`, pod, shop, "yes"},
		{"namespace with two stars", `{namespaces: ["*ho*"]}`, pod, shop, "yes"},
		{"another namespace", `{namespaces: [kube-*]}`, pod, shop, "no"},
		{"namespaces do not exclude nodes", `{namespaces: [shop]}`, node, nil, "yes"},
		{"a Namespace is in itself", `{namespaces: [other]}`, space, nil, "no"},
		{"excluded", `{excludedNamespaces: [sh*]}`, pod, shop, "no"},
		{"excluded Namespace", `{excludedNamespaces: [shop]}`, space, nil, "no"},
		{"nothing excludes nodes", `{excludedNamespaces: ["*"]}`, node, nil, "yes"},
		{"cluster scope", `{scope: Cluster}`, pod, shop, "no"},
		{"a Namespace is cluster-scoped", `{scope: Cluster}`, space, nil, "yes"},
		{"namespaced scope", `{scope: Namespaced}`, pod, shop, "yes"},
		{"namespaced scope, a node", `{scope: Namespaced}`, node, nil, "no"},
		{"no scope at all", `{scope: cluster}`, pod, shop, "yes"},
		{"label", `{labelSelector: {matchLabels: {app: web}}}`, pod, shop, "yes"},
		{"another label", `{labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}`, pod, shop, "no"},
		{"namespace's label", `{namespaceSelector: {matchLabels: {team: a}}}`, pod, shop, "yes"},
		{"namespace's other label", `{namespaceSelector: {matchLabels: {team: b}}}`, pod, shop, "no"},
		{"unknown namespace", `{namespaceSelector: {matchLabels: {team: a}}}`, pod, dark, unknown},
		{"unknown namespace, absent label", `{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}`, pod, dark, unknown},
		{"unknown namespace by its name", `{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}`, pod, dark, "yes"},
		{"unknown namespace by another name", `{namespaceSelector: {matchLabels: {team: a, kubernetes.io/metadata.name: other}}}`, pod, dark, "no"},
		{"unknown namespace that the name excludes", `{name: other, namespaceSelector: {matchLabels: {team: a}}}`, pod, dark, "no"},
		{"a namespaceSelector holds for nodes", `{namespaceSelector: {matchLabels: {team: a}}}`, node, nil, "yes"},
		{"a Namespace by its own labels", `{namespaceSelector: {matchLabels: {team: b}}}`, space, nil, "no"},
		{"no namespace is named", `{namespaces: [shop], namespaceSelector: {matchLabels: {team: b}}}`, nowhere, nil, "yes"},
		{"name", `{name: web-1}`, pod, shop, "yes"},
		{"name with a star", `{name: "web*"}`, pod, shop, "yes"},
		{"another name", `{name: "db*"}`, pod, shop, "no"},
		{"generated name", `{name: "we*"}`, generated, shop, "yes"},
		{"generated name, the end is open", `{name: "*web-"}`, generated, shop, "no"},
		{"source", `{source: Original}`, pod, shop, "yes"},
		{"generated source", `{source: Generated}`, pod, shop, "no"},
		{"all sources", `{source: All}`, pod, shop, "yes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, errs := matchOf(t, c.match)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			got, err := m.Matches(&Matchable{Object: read(t, c.object).Object, Namespace: c.in, Source: SourceOriginal})
			if said := answer(got, err); said != c.want {
				t.Errorf("got %s (%v), want %s", said, err, c.want)
			}
		})
	}
}

func answer(matched bool, err error) string {
	var u *cel.Undecided
	switch {
	case errors.As(err, &u):
		return unknown
	case err != nil:
		return err.Error()
	case matched:
		return "yes"
	}
	return "no"
}

func TestMatchFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		match, want string
		usable      bool
	}{
		"pattern":         {`{namespaces: [a, "kube-*-system"]}`, `"kube-*-system" is not a name; it may begin or end with *`, false},
		"upper case":      {`{name: Web}`, `"Web" is not a name; it may begin or end with *`, false},
		"source":          {`{source: Mine}`, `source "Mine" is none of All, Generated and Original`, false},
		"operator":        {`{labelSelector: {matchExpressions: [{key: a, operator: Is}]}}`, `Invalid value: "Is": not a valid selector operator`, false},
		"values":          {`{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, "Required value: must be specified when `operator` is 'In' or 'NotIn'", false},
		"type":            {`{kinds: Pod}`, "kinds: is of type string, and should be a list", false},
		"no object":       {`[]`, "match must be an object", false},
		"misspelt field":  {`{excludeNamespaces: [a]}`, `unknown field "excludeNamespaces"`, true},
		"field of a kind": {`{kinds: [{apiGroup: [""]}]}`, `unknown field "kinds[0].apiGroup"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, errs := matchOf(t, c.match)
			if len(errs) != 1 || errs[0].(*render.Error).Err.Error() != c.want {
				t.Errorf("got %v, want %s", errs, c.want)
			}
			if (m != nil) != c.usable {
				t.Errorf("usable: %v", m != nil)
			}
		})
	}
}
